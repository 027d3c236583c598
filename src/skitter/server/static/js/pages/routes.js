/** Proxies and the direct route, by site, with the results and costs of each. */

import { get, of } from "../api.js";
import { h, hostName } from "../dom.js";
import { money } from "../format.js";
import { icon } from "../icons.js";
import { empty, Page, time } from "../page.js";
import { successBar } from "../parts/success.js";
import { counted, DataTable, p95 } from "../parts/table.js";

const EVERY_S = 5;
const FIGURES_S = 172_800; // figures are kept this long
const ALL_SITES = "(all)";

export class RoutesPage extends Page {
    #none = empty(
        icon("routes"),
        "No proxies are in use",
        "Requests go out directly. List proxies under ",
        h("code", {}, "[[proxy]]"),
        " in ",
        h("code", {}, "skitter.toml"),
        ", and Skitter learns which of them to use for which site.",
    );
    #table = new DataTable({
        label: "Success by site and route",
        keyOf: (row) => `${row.domain} ${row.proxy}`,
        columns: [
            { label: "Site", kind: "name", value: (row) => row.domain, show: ({ domain }) => hostName(domain) },
            { label: "Route", kind: "name", value: (row) => row.proxy },
            { label: "Success", value: (row) => row.success, show: (row) => successBar(row.success) },
            counted("Good", "good"),
            counted("Bans", "bans"),
            counted("Page faults", "page_faults"),
            counted("Proxy faults", "proxy_faults"),
            p95(),
            { label: "MB", kind: "number", value: (row) => row.mb },
            { label: "Cost", kind: "number", value: (row) => row.cost, show: ({ cost }) => (cost ? money(cost) : "–") },
            {
                label: "Per 1,000 good",
                kind: "number",
                value: (row) => row.cost_per_1000_good,
                show: ({ cost_per_1000_good: cost }) => (cost ? money(cost) : "–"),
            },
        ],
    });

    #sessions = new DataTable({
        label: "Sessions",
        keyOf: (row) => `${row.site} ${row.kind} ${row.number}`,
        columns: [
            { label: "Site", kind: "name", value: (row) => row.site, show: ({ site }) => hostName(site) },
            { label: "Class", kind: "name", value: (row) => row.kind || "plain" },
            { label: "Number", kind: "number", value: (row) => row.number },
            { label: "Made", value: (row) => row.made_at, show: (row) => time(row.made_at) },
            counted("Uses", "uses"),
            { label: "Errors", kind: "number", value: (row) => row.errors },
            p95(),
        ],
    });

    build() {
        this.sessions = h("section", { class: "stack", hidden: true }, h("h2", {}, "Sessions"), this.#sessions.element);
        this.routes = h(
            "section",
            {},
            h("p", { class: "tools small muted" }, "Results of all jobs on this server, by site. p95 is that of this job."),
            this.#table.element,
        );
        return h("div", { class: "stack" }, this.routes, this.#none, this.sessions);
    }

    /** The rows, each with the p95 of this job's requests through it. */
    async #timed(what, by, nameOf, signal) {
        const { rows } = await get(of(this.job, what), {}, signal);
        if (!rows.length) return rows;
        const figures = await get(of(this.job, "figures"), { by, since_s: FIGURES_S }, signal);
        const times = new Map(figures.rows.map(({ name, p95_ms: ms }) => [name, ms]));
        return rows.map((row) => ({ ...row, p95_ms: times.get(nameOf(row)) ?? null }));
    }

    start() {
        const covers = this.firstElementChild;
        this.load(
            EVERY_S,
            (signal) => this.#timed("routes", "route", ofAllSites, signal),
            (rows) => {
                this.#table.show(rows);
                this.routes.hidden = !rows.length;
                this.#none.hidden = rows.length > 0;
            },
            { covers },
        );
        this.load(
            EVERY_S,
            (signal) => this.#timed("sessions", "session", sessionId, signal),
            (rows) => {
                this.#sessions.show(rows);
                this.sessions.hidden = !rows.length;
            },
        );
    }
}

/** This job's figures are not split by site: show them only in the rows for all sites. */
function ofAllSites({ domain, proxy }) {
    return domain === ALL_SITES ? proxy : null;
}

function sessionId({ site, kind, number }) {
    return [site, kind, number].filter(Boolean).join("/");
}
