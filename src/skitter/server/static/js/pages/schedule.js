/** When the job's rounds begin. */

import { actionButton, attempt } from "../actions.js";
import { get, of, put, remove } from "../api.js";
import { ask } from "../dialog.js";
import { h } from "../dom.js";
import { count, duration, moment, NONE, quoted } from "../format.js";
import { icon } from "../icons.js";
import { empty, fact, Page, time } from "../page.js";

const EVERY_S = 10;
const UNITS = [
    ["minutes", 60],
    ["hours", 3600],
    ["days", 86_400],
];

export class SchedulePage extends Page {
    #body = h("div", { class: "stack" });

    build() {
        this.change = actionButton({
            label: "Set a schedule …",
            kind: "primary",
            cli: `skitter schedule add ${quoted(this.job)} --every 6h`,
            run: () => this.#change(),
        });
        this.drop = actionButton({
            label: "Remove …",
            kind: "danger",
            cli: `skitter schedule remove ${quoted(this.job)}`,
            run: () => this.#remove(),
        });
        this.tools = h("div", { class: "tools after" }, this.change, this.drop);
        return h("div", {}, this.#body);
    }

    start() {
        this.again = this.load(
            EVERY_S,
            (signal) => get(of(this.job, "schedule"), {}, signal),
            (schedule) => this.#show(schedule),
            { covers: this.firstElementChild },
        );
    }

    #show(schedule) {
        const isSet = Boolean(schedule?.cron || schedule?.every_s);
        this.drop.hidden = !isSet;
        if (!isSet) {
            this.#body.replaceChildren(
                empty(
                    icon("schedule"),
                    "No schedule",
                    "The job runs when you run it. With a schedule, a crawl with ",
                    h("code", {}, "--keep-alive"),
                    " starts a new round from its start URLs each time.",
                ),
            );
            this.#body.firstChild.append(this.tools);
            return;
        }
        const at = (ms) => time(ms / 1000, ms ? moment(ms / 1000) : NONE);
        const facts = [
            fact(
                "Starts",
                schedule.cron ? h("code", {}, `${schedule.cron} (UTC)`) : `every ${duration(schedule.every_s)}`,
            ),
            fact("Next round", at(schedule.next_ms)),
            fact("Last round", schedule.fired_ms ? at(schedule.fired_ms) : "never"),
            fact("Rounds so far", count(schedule.rounds)),
            fact("Missed", count(schedule.missed)),
        ];
        this.#body.replaceChildren(h("section", { class: "card" }, h("dl", { class: "facts" }, facts)));
        this.#body.after(this.tools);
    }

    async #change() {
        const cron = h("input", { id: "cron", placeholder: "0 3 * * *", spellcheck: "false" });
        const every = h("input", { id: "every", type: "number", min: 1 });
        const unit = h(
            "select",
            { "aria-label": "Unit" },
            UNITS.map(([name, seconds]) => h("option", { value: seconds }, name)),
        );
        const says = [
            h(
                "div",
                { class: "field" },
                h("label", { for: "every" }, "Every"),
                h("div", { class: "tools" }, every, unit),
            ),
            h("div", { class: "field" }, h("label", { for: "cron" }, "Or by a cron expression, in UTC"), cron),
        ];
        if (
            !(await ask({
                title: `Schedule of ${this.job}`,
                says,
                yes: "Set",
                cli: `skitter schedule add ${quoted(this.job)} --every 6h`,
            }))
        )
            return;
        const body = cron.value.trim()
            ? { cron: cron.value.trim() }
            : { every_s: Number(every.value) * Number(unit.value) };
        await attempt(() => put(of(this.job, "schedule"), body), `${this.job}: scheduled.`);
        this.again();
    }

    async #remove() {
        if (
            !(await ask({
                title: "Remove the schedule?",
                says: ["No further rounds will start."],
                yes: "Remove",
                cli: `skitter schedule remove ${quoted(this.job)}`,
                isDangerous: true,
            }))
        )
            return;
        await attempt(() => remove(of(this.job, "schedule")), `${this.job}: no schedule.`);
        this.again();
    }
}
