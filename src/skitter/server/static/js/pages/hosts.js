/** A job's hosts: how they answer, their request rates, and what limits them. */

import { actionButton, attempt } from "../actions.js";
import { get, of, patch } from "../api.js";
import { ask } from "../dialog.js";
import { h, hostName } from "../dom.js";
import { bytes, duration, quoted } from "../format.js";
import { icon } from "../icons.js";
import { empty, Page, searchField } from "../page.js";
import { segments } from "../parts/segments.js";
import { shareOf, successBar } from "../parts/success.js";
import { counted, DataTable, p95, pageFoot } from "../parts/table.js";
import { remember } from "../router.js";

const EVERY_S = 5;
const PAGE = 100;
const REST_MS = 300;
const SORTS = [
    ["Lowest success", "success"],
    ["Most queued", "queued"],
    ["Longest delay", "delay"],
    ["Most pages", "pages"],
    ["Name", "host"],
];

export class HostsPage extends Page {
    #sort = this.place.query.sort || "success";
    #search = searchField("Filter by host");
    #limit = PAGE;
    #foot = pageFoot(() => {
        this.#limit += PAGE * 2;
        this.again();
    });
    #none = empty(icon("hosts"), "No hosts yet", "They appear when the first URLs are pushed.");

    build() {
        this.table = new DataTable({
            label: "Hosts",
            keyOf: (row) => row.host,
            columns: [
                { label: "Host", kind: "name", value: (row) => row.host, show: ({ host }) => hostName(host) },
                { label: "Success", value: shareOf, show: (row) => successBar(shareOf(row)) },
                counted("Pages", "pages"),
                counted("Queued", "pending"),
                { label: "In flight", kind: "number", value: (row) => row.in_flight },
                {
                    label: "Delay",
                    kind: "number",
                    value: (row) => row.delay_s,
                    show: ({ delay_s }) => duration(delay_s),
                },
                { label: "Why that delay", kind: "wide", value: (row) => row.because },
                p95(),
                { label: "Bytes", kind: "number", value: (row) => row.bytes, show: (row) => bytes(row.bytes) },
                { label: "", kind: "actions", value: () => 0, show: (_, row) => this.#button(row) },
            ],
        });
        this.#search.value = this.place.query.search ?? "";
        this.#search.addEventListener("input", () => this.#searchSoon());
        const choose = (sort) => {
            this.#sort = sort;
            remember({ sort });
            this.again();
        };
        return h(
            "div",
            {},
            h("div", { class: "tools" }, this.#search, segments("Order", SORTS, this.#sort, choose)),
            this.table.element,
            this.#foot.element,
            this.#none,
        );
    }

    start() {
        const query = () => ({ sort: this.#sort, search: this.#search.value.trim(), limit: Math.min(1000, this.#limit) });
        this.again = this.load(
            EVERY_S,
            (signal) => get(of(this.job, "hosts"), query(), signal),
            (found) => this.#show(found),
            { covers: this.firstElementChild },
        );
    }

    /** The server searches all hosts, not only those that are shown. */
    #searchSoon() {
        clearTimeout(this.timer);
        this.timer = setTimeout(() => {
            remember({ search: this.#search.value.trim() });
            this.again();
        }, REST_MS);
    }

    #show({ rows, total }) {
        this.table.show(rows);
        this.#foot.show(rows.length, total, "host");
        this.#none.hidden = rows.length > 0 || this.#search.value !== "";
        this.table.element.hidden = !rows.length;
    }

    #button(row) {
        const cli = `skitter host ${quoted(this.job)} ${quoted(row().host)} --delay 5`;
        return actionButton({
            label: "Change …",
            kind: "slim",
            says: "Limits for this host only.",
            cli,
            run: () => this.#change(row()),
        });
    }

    async #change({ host, delay_s: delay }) {
        const field = (name, label, facts) => [
            name,
            h("input", { id: `host-${name}`, type: "number", ...facts }),
            label,
        ];
        const fields = [
            field("delay_s", "Seconds between requests", { min: 0, step: "any", placeholder: String(delay) }),
            field("max_in_flight", "Concurrent requests", { min: 1 }),
            field("blocked_for_s", "Pause it for this many seconds; 0 ends the pause", { min: 0 }),
        ];
        const form = fields.map(([name, input, label]) =>
            h("div", { class: "field" }, h("label", { for: `host-${name}` }, label), input),
        );
        const sure = await ask({
            title: `Limits for ${host}`,
            says: ["Empty fields change nothing. Workers obey at once.", ...form],
            yes: "Change",
            cli: `skitter host ${quoted(this.job)} ${quoted(host)} --delay SECONDS`,
        });
        const changes = Object.fromEntries(
            fields.filter(([, input]) => input.value !== "").map(([name, input]) => [name, Number(input.value)]),
        );
        if (!sure || !Object.keys(changes).length) return;
        await attempt(() => patch(of(this.job, "hosts", host), changes), `${host}: changed.`);
        this.again();
    }
}
