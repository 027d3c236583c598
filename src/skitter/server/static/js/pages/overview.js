/** Four questions, answered without a click: is it moving, is it healthy, is it stuck, what does it cost? */

import { get, of } from "../api.js";
import { perSecond, readHistory, seriesOf, trimmed, whileAtWork } from "../charts/history.js";
import { LineChart } from "../charts/line-chart.js";
import { clamped, h, View } from "../dom.js";
import { compact, rate } from "../format.js";
import { Page } from "../page.js";
import { figures, quotas } from "../parts/figures.js";
import { progress } from "../parts/progress.js";
import { readyCard } from "../parts/ready.js";
import { costCard, healthCard, movingCard, stuckCard } from "../parts/questions.js";

const HISTORY_EVERY_S = 10;
const HOSTS_EVERY_S = 5;

export class OverviewPage extends Page {
    #view = new View();
    #chart = new LineChart({
        title: "Pages and items",
        format: rate,
        tick: compact,
        note: "per second, in the last hour",
    });

    build() {
        const notes = h("div", { class: "stack" });
        this.#view.bind(({ notes: said = [] }) =>
            notes.replaceChildren(...said.map((note) => h("p", { class: "notice" }, clamped(note)))),
        );
        this.moving = movingCard(this.#view);
        this.health = healthCard(this.#view, this.job);
        const cards = [this.moving, this.health, stuckCard(this.#view, this.job), costCard(this.#view)];
        const far = progress();
        this.#view.bind((overview) => far.show(overview));
        return h(
            "div",
            { class: "stack" },
            readyCard(this.#view, this.job),
            notes,
            h(
                "div",
                { class: "grid" },
                cards.map(({ element }) => element),
            ),
            h(
                "section",
                { class: "card", "aria-label": "Progress" },
                h("div", { class: "card-head" }, h("h2", {}, "Every URL so far")),
                far.element,
            ),
            h("section", { class: "card" }, this.#chart),
            quotas(this.#view),
            figures(this.#view),
        );
    }

    start() {
        this.watch((overview) => this.#view.show(overview));
        this.load(
            HISTORY_EVERY_S,
            (signal) => readHistory(this.job, ["pages", "items"], { points: 360, signal }),
            (history) => this.#showHistory(history),
        );
        this.load(
            HOSTS_EVERY_S,
            (signal) => get(of(this.job, "hosts"), { sort: "success", limit: 5 }, signal),
            ({ rows }) => this.health.show(rows),
        );
    }

    #showHistory(whole) {
        const history = trimmed(whileAtWork(whole));
        const pages = perSecond(history, "pages");
        this.moving.showHistory(pages);
        this.#chart.show({
            ...history,
            series: seriesOf([
                ["pages", pages],
                ["items", perSecond(history, "items")],
            ]),
        });
    }
}
