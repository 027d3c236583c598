/** How bytes leave: proxies and the direct way, by site, with what each brought and cost. */

import { get, of } from "../api.js";
import { h } from "../dom.js";
import { money } from "../format.js";
import { icon } from "../icons.js";
import { empty, Page, time } from "../page.js";
import { successBar } from "../parts/success.js";
import { counted, DataTable } from "../parts/table.js";

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
            counted("Good", "good"),
            counted("Bans", "bans"),
            counted("Page faults", "page faults"),
            counted("Proxy faults", "proxy faults"),
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
            { label: "Made", value: (row) => row.made_at, show: (row) => time(row.made_at) },
            counted("Uses", "uses"),
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

/** A page that does not exist is not the fault of the proxy. */
function goodShare(row) {
    const bad = row.bans + row["proxy faults"];
    return row.good + bad ? row.good / (row.good + bad) : null;
}
