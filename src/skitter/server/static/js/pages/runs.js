/** Runs of spiders on agents: how each went, compared with the one before; and a button that starts one. */

import { actionButton, attempt } from "../actions.js";
import { get, post } from "../api.js";
import { ask } from "../dialog.js";
import { clamped, h } from "../dom.js";
import { count, duration, NONE } from "../format.js";
import { Page, time } from "../page.js";
import { ReadyNote } from "../parts/ready.js";
import { askRun } from "../parts/run-form.js";
import { Spark } from "../parts/spark.js";
import { DataTable } from "../parts/table.js";
import { linkTo } from "../router.js";
import { may } from "../store.js";

const EVERY_S = 2;
const SHOWN = 200;
const TONES = { running: "ok", stopping: "warn", waiting: "info", failed: "bad", stopped: "warn" };

export class RunsPage extends Page {
    #items = new Spark(1);
    #none = new ReadyNote(this.job, () => this.again());
    #history = h("section", { class: "card", "aria-label": "Items of each run" });
    #table = new DataTable({
        label: "Runs",
        keyOf: ({ id }) => id,
        columns: [
            { label: "Run", kind: "name", value: ({ asked_at: at }) => at, show: named },
            {
                label: "State",
                kind: "reason",
                value: ({ state, exit_code: code }) => `${state} ${code ?? ""}`,
                show: pill,
            },
            { label: "Requested", kind: "optional", value: ({ asked_at: at }) => at, show: ({ asked_at: at }) => time(at) },
            { label: "Took", kind: "number", value: took, show: (run) => shownTime(took(run)) },
            reported("Pages", "pages_now"),
            reported("Items", "items"),
            { label: "Change", kind: "number", value: ({ change }) => change, show: ({ change }) => changed(change) },
            reported("Dead", "dead"),
            { label: "", kind: "actions", value: ({ state }) => state, show: (_, of) => this.#actions(of()) },
        ],
    });

    build() {
        const run = actionButton({
            label: "Run …",
            drawing: "resume",
            kind: "primary",
            cli: "skitter start SPIDER",
            run: () => this.#run(),
        });
        this.#history.append(h("h2", {}, "Items of each run, oldest first"), this.#items.element);
        return h(
            "div",
            { class: "stack" },
            (this.tools = h("div", { class: "tools", hidden: true }, run)),
            this.#none,
            this.#history,
            this.#table.element,
        );
    }

    start() {
        this.#none.hidden = true; // until it is known that there are none
        this.again = this.load(
            EVERY_S,
            (signal) => get("api/runs", { job: this.job, limit: SHOWN }, signal),
            ({ rows }) => this.#show(rows),
        );
    }

    #show(runs) {
        const told = runs.filter(({ report }) => report);
        const items = told.map(({ report }) => report.items);
        const isMixed = new Set(told.map(({ job }) => job)).size > 1; // their numbers do not compare
        this.#none.hidden = runs.length > 0;
        this.tools.hidden = !runs.length;
        this.#table.element.hidden = !runs.length;
        this.#history.hidden = items.length < 2 || isMixed;
        this.#items.show(items.reverse());
        this.#table.show(runs.map((run, at) => ({ ...run, change: changeOf(run, runs.slice(at + 1)) })));
    }

    async #run() {
        if (await askRun(this.job)) this.again();
    }

    #actions(run) {
        if (!may("operate")) return "";
        const button = (label, cli, work) =>
            actionButton({ label, kind: "slim", cli: `skitter runs ${cli} ${run.id}`, run: work });
        if (run.ended_at !== null) return button("Again", "again", () => this.#post(run, "again", "is started again"));
        return button("Stop …", "stop", async () => {
            const says = ["Pages in flight are finished. “Again” continues it."];
            const cli = `skitter runs stop ${run.id}`;
            if (await ask({ title: `Stop the run of ${run.spider}?`, says, yes: "Stop", cli }))
                await this.#post(run, "stop", "stops");
        });
    }

    async #post(run, verb, says) {
        await attempt(() => post(`api/runs/${encodeURIComponent(run.id)}/${verb}`), `${run.spider} ${says}.`);
        this.again();
    }
}

function named({ id, spider, job, arguments: given, by }) {
    const what = job ? h("a", { href: linkTo(job), class: "job-link", dir: "auto" }, spider) : spider;
    const words = Object.entries(given).map(([name, value]) => `${name}=${value}`);
    return h("div", {}, what, h("p", { class: "small muted" }, clamped([id, ...words, `by ${by}`].join(" · "))));
}

function pill({ state, exit_code: code, report, says, lost }) {
    const said = [report?.end, says, lost ? `Changed agents ${count(lost)} times.` : ""].filter(Boolean).join(" ");
    const text = state === "failed" && code ? `failed, ${code}` : state;
    const shown = h("span", { class: "pill", "data-tone": TONES[state], title: said }, text);
    return state === "failed" || state === "stopped" ? h("div", {}, shown, h("p", { class: "small" }, clamped(said))) : shown;
}

function took({ started_at: from, ended_at: to }) {
    return from === null || to === null ? null : Math.max(0, to - from);
}

function shownTime(seconds) {
    return seconds === null ? NONE : duration(Math.round(seconds));
}

function reported(label, name) {
    const value = ({ report }) => report?.[name] ?? null;
    return { label, kind: "number", value, show: (row) => (value(row) === null ? NONE : count(value(row))) };
}

/** How many items more than the run of the same job before, as a share; null: there is none to compare with. */
function changeOf(run, older) {
    const before = older.find(({ job, spider, report }) => job === run.job && spider === run.spider && report?.items);
    return run.report && before ? run.report.items / before.report.items - 1 : null;
}

function changed(share) {
    if (share === null) return NONE;
    const text = share === 0 ? "same" : `${share > 0 ? "+" : "−"}${Math.abs(share * 100).toFixed(Math.abs(share) < 0.1 ? 1 : 0)}%`;
    return h("span", { class: share < 0 ? "error" : null, title: "Items compared with the previous run" }, text);
}
