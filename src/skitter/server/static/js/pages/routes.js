/** How bytes leave: proxies and the direct way, by site, with what each brought and cost. */

import { get, of } from "../api.js";
import { h } from "../dom.js";
import { count, exact, moment, money } from "../format.js";
import { icon } from "../icons.js";
import { empty, Page } from "../page.js";
import { successBar } from "../parts/success.js";
import { DataTable } from "../parts/table.js";

const EVERY_S = 5;

export class RoutesPage extends Page {
    #none = empty(
        icon("routes"),
        "No proxies are in use",
        "Requests leave directly. ",
        h("code", {}, "[proxy]"),
        " in ",
        h("code", {}, "skitter.toml"),
        " names others; the choice between them is learned.",
    );
    #table = new DataTable({
        label: "Success by site and route",
        keyOf: (row) => `${row.domain} ${row.proxy}`,
        columns: [
            { label: "Site", value: (row) => row.domain },
            { label: "Route", value: (row) => row.proxy },
            { label: "Success", value: goodShare, show: (row) => successBar(goodShare(row)) },
            { label: "Good", kind: "number", value: (row) => row.good, show: (row) => count(row.good) },
            { label: "Bans", kind: "number", value: (row) => row.bans, show: (row) => count(row.bans) },
            {
                label: "Page faults",
                kind: "number",
                value: (row) => row["page faults"],
                show: (row) => count(row["page faults"]),
            },
            {
                label: "Proxy faults",
                kind: "number",
                value: (row) => row["proxy faults"],
                show: (row) => count(row["proxy faults"]),
            },
            { label: "MB", kind: "number", value: (row) => row.MB },
            { label: "Cost", kind: "number", value: (row) => row.cost, show: ({ cost }) => (cost ? money(cost) : "–") },
            {
                label: "Per 1,000 good",
                kind: "number",
                value: (row) => Number(row["per 1,000 good"]) || null,
                show: (row) => row["per 1,000 good"] || "–",
            },
        ],
    });

    #sessions = new DataTable({
        label: "Sessions",
        keyOf: (row) => `${row.site} ${row.kind} ${row.number}`,
        columns: [
            { label: "Site", value: (row) => row.site },
            { label: "Class", value: (row) => row.kind || "plain" },
            { label: "Number", kind: "number", value: (row) => row.number },
            {
                label: "Made",
                value: (row) => row.made_at,
                show: ({ made_at: at }) => h("time", { title: exact(at) }, moment(at)),
            },
            { label: "Uses", kind: "number", value: (row) => row.uses, show: ({ uses }) => count(uses) },
            { label: "Errors", kind: "number", value: (row) => row.errors },
        ],
    });

    build() {
        this.sessions = h("section", { class: "stack", hidden: true }, h("h2", {}, "Sessions"), this.#sessions.element);
        return h("div", { class: "stack" }, this.#table.element, this.#none, this.sessions);
    }

    start() {
        this.load(
            EVERY_S,
            (signal) => get(of(this.job, "routes"), {}, signal),
            ({ rows }) => {
                this.#table.show(rows);
                this.#table.element.hidden = !rows.length;
                this.#none.hidden = rows.length > 0;
            },
        );
        this.load(
            EVERY_S,
            (signal) => get(of(this.job, "sessions"), {}, signal),
            ({ rows }) => {
                this.#sessions.show(rows);
                this.sessions.hidden = !rows.length;
            },
        );
    }
}

/** A page that is not there is no fault of the way to it. */
function goodShare(row) {
    const bad = row.bans + row["proxy faults"];
    return row.good + bad ? row.good / (row.good + bad) : null;
}
