/** The page to keep open: where URLs come from, where they wait, who works on them, what was saved. */

import { perSecond, readHistory, seriesOf, trimmed, whileAtWork } from "../charts/history.js";
import { LineChart } from "../charts/line-chart.js";
import { h, set, View } from "../dom.js";
import { compact, count, duration, NONE, rate, some } from "../format.js";
import { icon } from "../icons.js";
import { Page } from "../page.js";
import { limitOf } from "../parts/bound.js";
import { Flow } from "../parts/flow.js";
import { ClusterLog } from "../parts/log.js";
import { progress } from "../parts/progress.js";
import { readyCard } from "../parts/ready.js";
import { Recent, Spark } from "../parts/spark.js";
import { isFetching, workerStepper } from "../parts/stepper.js";

const CREW_SHOWN = 60;
const HISTORY_EVERY_S = 10;
const SMOOTH = 0.35; // weight of the newest rate of URLs found

export class PipelinePage extends Page {
    #view = new View();
    #flows = { found: new Flow("URLs/s", 5, 3), done: new Flow("pages/s", 3, 1) };
    #sparks = { found: new Spark(5), queue: new Spark(3), saved: new Spark(1) };
    #recent = { found: new Recent(), queue: new Recent(), saved: new Recent() };
    #chart = new LineChart({
        title: "Pages and items",
        format: rate,
        tick: compact,
        note: "per second",
    });
    #before = null;
    #found = 0;
    #hasHistory = false;

    build() {
        this.log = new ClusterLog(this.job);
        this.stepper = workerStepper(this.job);
        const far = progress();
        this.#view.bind((overview) => far.show(overview));
        const picture = h(
            "section",
            { class: "picture", "aria-label": "Pipeline" },
            this.#extract(),
            this.#flows.found.element,
            this.#queue(),
            this.#flows.done.element,
            this.#workers(),
        );
        const ready = readyCard(this.#view, this.job);
        this.#view.bind(() => (far.element.parentElement.hidden = !ready.hidden)); // it takes its place
        const below = h(
            "div",
            { class: "below" },
            ready,
            h("section", { class: "card", "aria-label": "Progress" }, far.element),
            h("section", { class: "card" }, this.#chart),
        );
        return h(
            "div",
            { class: "pipeline-page" },
            h("div", { class: "picture-wrap" }, picture),
            h("div", { class: "beside" }, this.log),
            below,
        );
    }

    start() {
        this.watch((overview) => this.#show(overview));
        this.follow("link", (link) => link !== "live" && this.#rest());
        this.load(
            HISTORY_EVERY_S,
            (signal) => readHistory(this.job, ["pages", "items"], { since_s: 1200, points: 120, signal }),
            (history) => this.#showHistory(history),
        );
        addEventListener("log", ({ detail }) => this.log.add([detail].flat()), { signal: this.signal });
        addEventListener("catch-up", () => this.log.fillGap(), { signal: this.signal });
    }

    /** Nothing moves that we do not hear of. */
    #rest() {
        for (const flow of Object.values(this.#flows)) flow.rest();
    }

    #showHistory(whole) {
        const history = trimmed(whileAtWork(whole));
        const items = perSecond(history, "items");
        if (!this.#hasHistory) this.#recent.saved.begin(items.slice(0, -1));
        this.#hasHistory = true;
        this.#chart.show({
            ...history,
            series: seriesOf([
                ["pages", perSecond(history, "pages")],
                ["items", items],
            ]),
        });
    }

    #stage(title, drawing, tone, { name, value, unit }, spark, facts, ...foot) {
        const rows = facts.map(([term, read]) => [h("dt", {}, term), h("dd", {}, this.#view.text(read))]);
        const number = h(
            "p",
            { class: "stage-count" },
            h(
                "b",
                { "data-field": name },
                this.#view.text((one) => count(value(one))),
            ),
            h("span", {}, unit),
        );
        return h(
            "section",
            { class: `stage tone-${tone}` },
            h("h2", {}, icon(drawing), title),
            number,
            spark,
            h("dl", {}, rows),
            h("div", { class: "stage-foot" }, ...foot),
        );
    }

    #extract() {
        const facts = [
            ["duplicates", (one) => count(one.duplicates)],
            ["excluded", (one) => count(keptOut(one))],
            ["hosts", (one) => count(one.hosts)],
        ];
        return this.#stage(
            "Extract",
            "extract",
            5,
            { name: "seen", value: ({ seen }) => seen, unit: "URLs pulled" },
            this.#sparks.found.element,
            facts,
            h("h3", {}, "Not followed"),
            h("p", {}, this.#view.text(notFollowed)),
        );
    }

    #queue() {
        const facts = [
            ["fetching", (one) => count(one.leased)],
            ["retrying", (one) => count(one.delayed)],
            ["oldest", ({ oldest_pending_s: age }) => (age === null || age === undefined ? NONE : duration(age))],
        ];
        return this.#stage(
            "Queue",
            "queue",
            3,
            { name: "pending", value: ({ pending }) => pending, unit: "URLs in queue" },
            this.#sparks.queue.element,
            facts,
            h("h3", {}, "Limited by"),
            h("p", {}, this.#view.text(bound)),
        );
    }

    #workers() {
        const facts = [
            ["pages done", (one) => count(one.done)],
            ["items waiting", (one) => count(one.items)],
            ["rejected", (one) => count(one.rejected)],
        ];
        const crew = h("div", { class: "crew", "aria-hidden": "true" });
        this.#view.bind((overview) => showCrew(crew, overview));
        this.#view.bind((overview) => this.stepper.show(overview));
        return this.#stage(
            "Workers & Database",
            "database",
            1,
            { name: "stored", value: ({ stored }) => stored, unit: "items saved" },
            this.#sparks.saved.element,
            facts,
            crew,
            this.stepper.element,
        );
    }

    #show(overview) {
        const before = this.#before;
        this.#before = overview;
        if (before && overview.at > before.at) {
            const fresh = Math.max(0, overview.seen - before.seen) / (overview.at - before.at);
            this.#found += SMOOTH * (fresh - this.#found);
            if (this.#found < 0.05) this.#found = 0;
        }
        this.#view.show(overview);
        this.#flows.found.show(this.#found);
        this.#flows.done.show(overview.pages_per_s ?? 0);
        this.#sparks.found.show(this.#recent.found.add(this.#found));
        this.#sparks.queue.show(this.#recent.queue.add(overview.pending));
        this.#sparks.saved.show(this.#recent.saved.add(overview.items_per_s ?? 0));
    }
}

const KINDS = {
    scope: "out of scope",
    robots: "by robots.txt",
    pattern: "by exclude or include",
    depth: "too deep",
    nofollow: "nofollow",
    noindex: "noindex",
    canonical: "copies of another page",
    usage: "with reserved usage",
    length: "with an overlong URL",
    middleware: "by a Scrapy middleware",
    file: "to files",
    archive: "not in the archive",
    drain: "found while draining",
};

function notFollowed({ kept_out: kinds = {} }) {
    const parts = Object.entries(kinds).map(([kind, number]) => `${count(number)} ${KINDS[kind] ?? kind}`);
    return parts.join(", ") || "no link was excluded";
}

function bound(overview) {
    return limitOf(overview, ({ host, delay_s }) => `${host}: one request every ${duration(delay_s)}`);
}

function keptOut({ kept_out: kinds = {}, refused = 0 }) {
    return Object.values(kinds).reduce((sum, number) => sum + number, refused);
}

/** One square per worker, filled in proportion to its load. */
function showCrew(crew, { workers = [], at }) {
    const fetching = workers.filter(isFetching);
    const most = Math.max(1, ...fetching.map(({ active }) => active));
    while (crew.childElementCount < Math.min(CREW_SHOWN, fetching.length)) crew.append(h("span"));
    while (crew.childElementCount > Math.min(CREW_SHOWN, fetching.length)) crew.lastChild.remove();
    [...crew.children].forEach((square, place) => {
        const worker = fetching[place];
        set(square, "--busy", (worker.active / most).toFixed(2));
        set(square, "title", `${worker.name}: ${some(worker.active, "request")} in flight`);
        square.classList.toggle("is-silent", at - worker.at > 15);
    });
}
