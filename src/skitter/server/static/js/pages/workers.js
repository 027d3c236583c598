/** The job's workers, their machines, and those that fell silent. */

import { clamped, h, hostName } from "../dom.js";
import { ago, count, duration, exact, NONE } from "../format.js";
import { icon } from "../icons.js";
import { empty, Page } from "../page.js";
import { isFetching, workerStepper } from "../parts/stepper.js";
import { counted, DataTable } from "../parts/table.js";

const SILENT_S = 15;

export class WorkersPage extends Page {
    #machines = new DataTable({
        label: "Machines",
        keyOf: (row) => row.host,
        columns: [
            { label: "Machine", kind: "name", value: (row) => row.host, show: ({ host }) => hostName(host) },
            { label: "State", kind: "wide", value: (row) => `${row.is_lost} ${row.note}`, show: machineState },
            counted("Workers", "workers"),
            counted("Loaders", "loaders"),
            counted("Pages", "pages"),
            counted("In flight", "active"),
            {
                label: "Memory",
                kind: "number",
                value: (row) => Math.round(row.memory_mb),
                show: ({ memory_mb, is_lost }) => (is_lost ? NONE : `${count(Math.round(memory_mb))} MB`),
            },
            { label: "Last seen", value: (row) => Math.round(row.now - row.at), show: heard },
        ],
    });
    #table = new DataTable({
        label: "Workers",
        keyOf: (row) => row.name,
        columns: [
            { label: "Worker", kind: "name", value: (row) => row.name, show: nameOf },
            { label: "Kind", value: (row) => row.kind },
            { label: "Spider", value: (row) => row.spider ?? "" },
            { label: "Release", value: (row) => row.release || "before 0.2" },
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
            { label: "Note", kind: "wide", value: (row) => row.note, show: ({ note }) => clamped(note) },
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
            this.#machines.element,
            this.#table.element,
            this.#none,
        );
    }

    start() {
        this.#none.hidden = this.#table.element.hidden = this.#machines.element.hidden = true;
        this.watch(({ workers = [], silent = [], machines = [], at }) => {
            const known = new Set(workers.map(({ name }) => name));
            const all = [...silent.filter(({ name }) => !known.has(name)), ...workers];
            this.#machines.show(machines.map((machine) => ({ ...machine, now: at })).sort(inOrder));
            this.#table.show(all.map((worker) => ({ ...worker, now: at })));
            this.#machines.element.hidden = !machines.length;
            this.#none.hidden = all.length > 0;
            this.#table.element.hidden = !all.length;
        });
    }
}

/** Its machine and process, unless it has a name of its own: most names are made of these two. */
function nameOf({ name, host, pid }) {
    const isOwn = !name.startsWith(`${host}-${pid}`);
    return h("span", { title: name }, hostName(isOwn ? name : host), ` · ${isOwn ? host : pid}`);
}

/** With what a lost one held. */
function machineState({ is_lost: isLost, note }) {
    const pill = h("span", { class: "pill", "data-tone": isLost ? "bad" : "ok" }, isLost ? "lost" : "at work");
    return note ? h("div", {}, pill, h("p", { class: "small" }, clamped(note))) : pill;
}

/** Lost ones first, then by name: web-2 before web-10. */
function inOrder(a, b) {
    return b.is_lost - a.is_lost || a.host.localeCompare(b.host, undefined, { numeric: true });
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
