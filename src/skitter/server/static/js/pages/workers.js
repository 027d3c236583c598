/** The job's workers, their machines, and those that fell silent. */

import { h } from "../dom.js";
import { ago, count, duration, exact } from "../format.js";
import { icon } from "../icons.js";
import { empty, Page } from "../page.js";
import { isFetching, workerStepper } from "../parts/stepper.js";
import { DataTable } from "../parts/table.js";

const SILENT_S = 15;

export class WorkersPage extends Page {
    #table = new DataTable({
        label: "Workers",
        keyOf: (row) => row.name,
        columns: [
            { label: "Name", value: (row) => row.name },
            { label: "Kind", value: (row) => row.kind },
            { label: "Machine", value: (row) => `${row.host} · ${row.pid}` },
            ofFetching("Pages", "pages"),
            ofFetching("Errors", "errors"),
            ofFetching("In flight", "active"),
            {
                label: "Memory",
                kind: "number",
                value: (row) => Math.round(row.memory_mb),
                show: ({ memory_mb }) => `${Math.round(memory_mb)} MB`,
            },
            {
                label: "Running for",
                kind: "number",
                value: (row) => Math.round(row.now - row.started_at),
                show: ({ now, started_at: at }) => h("span", { title: exact(at) }, duration(Math.round(now - at))),
            },
            { label: "Last seen", value: (row) => Math.round(row.now - row.at), show: heard },
            { label: "Note", kind: "wide", value: (row) => row.note },
        ],
    });
    #none = empty(
        icon("workers"),
        "No workers are running",
        "Start some: ",
        h("code", {}, "skitter worker SPIDER.py --redis URL"),
    );

    build() {
        const stepper = workerStepper(this.job);
        this.watch((overview) => stepper.show(overview));
        return h(
            "div",
            { class: "stack" },
            h("section", { class: "card" }, stepper.element),
            this.#table.element,
            this.#none,
        );
    }

    start() {
        this.#none.hidden = this.#table.element.hidden = true;
        this.watch(({ workers = [], at }) => {
            this.#table.show(workers.map((worker) => ({ ...worker, now: at })));
            this.#none.hidden = workers.length > 0;
            this.#table.element.hidden = !workers.length;
        });
    }
}

/** Loaders do not fetch: show nothing instead of 0. */
function ofFetching(label, name) {
    const value = (row) => (isFetching(row) ? row[name] : null);
    return { label, kind: "number", value, show: (row) => count(value(row)) };
}

function heard({ now, at }) {
    return now - at > SILENT_S
        ? h("span", { class: "error" }, `silent for ${duration(Math.round(now - at))}`)
        : ago(at, now);
}
