/** Items: the stored ones as a table or JSON, what changed, how well their fields are filled, and the rejected ones. */

import { address, get, of } from "../api.js";
import { clamped, h } from "../dom.js";
import { moment, percent, quoted, rate, some, withoutHost } from "../format.js";
import { icon } from "../icons.js";
import { empty, Page, searchField, skeleton, time } from "../page.js";
import { segments } from "../parts/segments.js";
import { Spark } from "../parts/spark.js";
import { toneOf } from "../parts/success.js";
import { DataTable } from "../parts/table.js";
import { linkTo, remember } from "../router.js";
import { store } from "../store.js";
import { withTip } from "../tip.js";

const PAGE = 100;
const MAX_COLUMNS = 8;
const LONGEST = 120;
const VIEWS = [
    ["Table", "table"],
    ["JSON", "json"],
    ["Changes", "changes"],
    ["Fill rates", "quality"],
    ["Rejected", "rejected"],
];

export class ItemsPage extends Page {
    #view = this.place.query.view || "table";
    #where = searchField("Filter items", "Filter");
    #field = h("select", { "aria-label": "Field to filter by" }, h("option", { value: "" }, "in all fields"));
    #body = h("div", { class: "stack" });
    #rows = [];
    #next = null;
    #none = null;

    build() {
        this.#where.value = this.place.query.where ?? "";
        for (const input of [this.#where, this.#field]) input.addEventListener("change", () => this.#open());
        const choose = (view) => {
            this.#view = view;
            this.#open();
        };
        const download = (format, suffix) => {
            const href = address(of(this.job, "items", "export"), { format }).href;
            const link = h(
                "a",
                { class: "button slim", href, download: `${this.job}.${suffix}` },
                format.toUpperCase(),
            );
            return withTip(link, { cli: `skitter export ${quoted(this.job)} --to ${quoted(this.job)}.${suffix}` });
        };
        this.ofItems = [
            this.#where,
            this.#field,
            h(
                "span",
                { class: "together" },
                h("span", { class: "label" }, "Export"),
                download("ndjson", "jsonl"),
                download("csv", "csv"),
            ),
        ];
        return [h("div", { class: "tools" }, segments("View", VIEWS, this.#view, choose), ...this.ofItems), this.#body];
    }

    start() {
        this.#open();
        this.watch(() => this.#none?.isConnected && this.#showNone());
        addEventListener("noted", ({ detail }) => this.#hear(detail), { signal: this.signal });
        addEventListener("catch-up", () => this.#view === "changes" && this.#open(), { signal: this.signal });
    }

    /** A change that was noted just now. */
    #hear(change) {
        const isNews = change.seq > (this.#rows[0]?.seq ?? 0);
        if (this.#view === "changes" && isNews) this.#show({ rows: [change], next: this.#next, isNew: true });
    }

    #open() {
        remember({ view: this.#view, where: this.#where.value });
        this.#rows = [];
        this.#next = null;
        for (const part of this.ofItems) part.hidden = !["table", "json"].includes(this.#view);
        this.#body.replaceChildren(skeleton(5));
        this.again?.();
        this.again ??= this.load(
            0,
            (signal) => this.#read(signal),
            (answer) => this.#show(answer),
            { covers: this.#body },
        );
    }

    #read(signal) {
        if (this.#view === "quality" || this.#view === "rejected") return get(of(this.job, this.#view), {}, signal);
        if (this.#view === "changes") return get(of(this.job, "changes"), { after: this.#next, limit: PAGE }, signal);
        return get(
            of(this.job, "items"),
            { after: this.#next, where: this.#where.value, field: this.#where.value && this.#field.value, limit: PAGE },
            signal,
        );
    }

    #show(answer) {
        if (this.#view === "quality") return this.#showQuality(answer);
        if (this.#view === "rejected") return this.#showRejected(answer.rows);
        const known = new Set(this.#rows.map(({ seq }) => seq)); // of changes: some were heard before they were read
        const rows = answer.rows.filter(({ seq }) => seq === undefined || !known.has(seq));
        this.#rows = answer.isNew ? [...rows, ...this.#rows] : [...this.#rows, ...rows];
        this.#next = answer.next;
        if (!this.#rows.length) return this.#view === "changes" ? this.#showNoChange() : this.#showNone();
        const more = h("button", { hidden: !this.#next, onclick: () => this.again() }, "More");
        const what = this.#view === "changes" ? "change" : "item";
        const foot = h(
            "div",
            { class: "table-foot" },
            `${some(this.#rows.length, what)}${this.#next ? ", and more" : ""}`,
            more,
        );
        this.#body.replaceChildren(this.#view === "json" ? jsonView(this.#rows) : this.#tableOfView(), foot);
    }

    #showNone() {
        this.#none = empty(icon("items"), ...this.#whyNone());
        this.#body.replaceChildren(this.#none);
    }

    #showNoChange() {
        this.#body.replaceChildren(
            empty(
                icon("items"),
                "No changes",
                "What later visits find is here, field by field, once pages are visited again: ",
                h("code", {}, "skitter run … --revisit"),
            ),
        );
    }

    #tableOfView() {
        return this.#view === "changes" ? changeTable(this.job, this.#rows) : this.#itemTable();
    }

    /** A title, and what to do. */
    #whyNone() {
        if (this.#where.value) return ["No item matches the filter"];
        const { stored = 0, items = 0 } = store.get("overview") ?? {};
        if (stored && !items)
            return [
                "Stored elsewhere",
                `${some(stored, "item")} went to Scrapy's own pipelines and feeds. Shown here are those of `,
                h("code", {}, "skitter.scrapy.ItemPipeline"),
            ];
        return [
            "No items yet",
            "What handlers yield is shown here once a loader has stored it: ",
            h("code", {}, `skitter load ${quoted(this.job)}`),
        ];
    }

    #itemTable() {
        const names = columnsOf(this.#rows);
        this.#offer(names);
        const table = new DataTable({
            label: "Items",
            keyOf: (row) => row._id,
            columns: [
                ...names.map((name) => ({
                    label: name,
                    kind: isNumeric(this.#rows, name) ? "number" : undefined,
                    value: (row) => valueOf(row[name]),
                    show: (row) => h("span", { class: "clip", title: shorten(row[name]) }, shorten(row[name])),
                })),
                {
                    label: "Page",
                    value: (row) => row._url,
                    show: ({ _url: url }) =>
                        h(
                            "a",
                            { class: "clip is-short", title: url, href: linkTo(this.job, "url", { url }) },
                            withoutHost(url),
                        ),
                },
                {
                    label: "Fetched",
                    value: (row) => row._fetched_at,
                    show: (row) => h("time", { title: row._fetched_at }, moment(Date.parse(row._fetched_at) / 1000)),
                },
            ],
        });
        table.show(this.#rows);
        return table.element;
    }

    /** Add fields to the filter. */
    #offer(names) {
        const known = [...this.#field.options].map(({ value }) => value);
        this.#field.append(
            ...names.filter((name) => !known.includes(name)).map((name) => h("option", { value: name }, `in ${name}`)),
        );
    }

    #showQuality({ bad = [], rows = [] }) {
        const notes = bad.map((one) => h("p", { class: "notice", "data-tone": "bad" }, `${one.handler}: ${one.text}`));
        if (!rows.length) return this.#body.replaceChildren(empty(icon("items"), "No page was handled yet"));
        const isShare = ({ field }) => field !== "(items per page)";
        const shown = (row, value) => (value === null ? "–" : isShare(row) ? percent(value) : rate(value));
        const table = new DataTable({
            label: "Fill rates",
            keyOf: (row) => `${row.handler} ${row.field}`,
            columns: [
                { label: "Handler", value: (row) => row.handler },
                { label: "Field", value: (row) => row.field },
                { label: "Type", value: (row) => row.type },
                {
                    label: "Now",
                    kind: "number",
                    value: (row) => row.now,
                    show: (row) => h("span", { class: isWorse(row) ? "error" : null }, shown(row, row.now)),
                },
                { label: "Before", kind: "number", value: (row) => row.before, show: (row) => shown(row, row.before) },
                {
                    label: "Over time",
                    kind: "wide",
                    fixed: true,
                    value: (row) => row.history.join(),
                    show: ({ history }) => sparkOf(history),
                },
            ],
        });
        table.show(rows);
        this.#body.replaceChildren(...notes, table.element);
        return null;
    }

    #showRejected(rows) {
        if (!rows.length)
            return this.#body.replaceChildren(
                empty(
                    icon("items"),
                    "No rejected items",
                    "Items that do not match their type, or that the database refuses, are kept here.",
                ),
            );
        const table = new DataTable({
            label: "Rejected items, newest first",
            keyOf: (row) => `${row.at} ${row.url} ${row.field} ${JSON.stringify(row.item)}`,
            sort: { column: "When", isDown: true },
            columns: [
                { label: "When", value: (row) => row.at, show: ({ at }) => time(at) },
                {
                    label: "Page",
                    kind: "wide",
                    value: (row) => row.url,
                    show: ({ url }) => h("a", { href: linkTo(this.job, "url", { url }) }, clamped(url)),
                },
                { label: "Field", value: (row) => row.field },
                { label: "Reason", kind: "wide", value: (row) => row.reason, show: ({ reason }) => clamped(reason) },
                { label: "Item", kind: "wide", value: (row) => shorten(row.item) },
            ],
        });
        table.show(rows);
        this.#body.replaceChildren(table.element);
        return null;
    }
}

function changeTable(job, rows) {
    const table = new DataTable({
        label: "Changes, newest first",
        keyOf: (row) => row.seq,
        columns: [
            { label: "When", value: (row) => row.seq, show: ({ at }) => time(Date.parse(at) / 1000) },
            { label: "What", value: (row) => row.kind },
            {
                label: "Page",
                kind: "wide",
                value: (row) => row.url,
                show: ({ url }) => h("a", { href: linkTo(job, "url", { url }) }, clamped(withoutHost(url))),
            },
            { label: "Field", value: (row) => row.field },
            { label: "Change", kind: "wide", value: (row) => shorten(row.new), show: changeOf },
        ],
    });
    table.show(rows);
    return table.element;
}

/** A diff, or the value before and after. */
function changeOf({ field, old, new: now, diff }) {
    if (!field) return "";
    if (!diff.length) return h("span", {}, h("del", {}, shorten(old) || "nothing"), " → ", h("ins", {}, shorten(now) || "nothing"));
    const tags = { "+": "ins", "-": "del" };
    return h("pre", { class: "diff" }, ...diff.map((line) => h(tags[line[0]] ?? "span", {}, `${line}\n`)));
}

function sparkOf(history) {
    const spark = new Spark();
    spark.show(history);
    return spark.element;
}

function isWorse({ now, before }) {
    return before !== null && before > 0 && toneOf(now / before) !== null;
}

function jsonView(rows) {
    return h("pre", { class: "json", tabindex: "0" }, rows.map((row) => JSON.stringify(row, null, 2)).join("\n"));
}

/** The most common fields. */
function columnsOf(rows) {
    const times = new Map();
    const own = (row) => Object.keys(row).filter((name) => !name.startsWith("_"));
    for (const row of rows) for (const name of own(row)) times.set(name, (times.get(name) ?? 0) + 1);
    return [...times]
        .sort((a, b) => b[1] - a[1])
        .slice(0, MAX_COLUMNS)
        .map(([name]) => name);
}

function isNumeric(rows, name) {
    return rows.every((row) => row[name] === null || row[name] === undefined || typeof valueOf(row[name]) === "number");
}

/** What to sort by. */
function valueOf(value) {
    return typeof value === "number" ? value : JSON.isRawJSON?.(value) ? Number(value.rawJSON) : shorten(value);
}

function shorten(value) {
    if (value === null || value === undefined) return "";
    const text = typeof value === "string" ? value : typeof value === "number" ? String(value) : JSON.stringify(value);
    return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}
