/** A data table: click a head to sort; new rows are patched in place. */

import { h, setText } from "../dom.js";
import { count, duration, NONE, some } from "../format.js";

/** Rows that one call returns at most. */
const MOST = 1000;

/**
 * @typedef {object} Column
 * @property {string} label
 * @property {(row: any) => any} value the sort key, and what is shown without `show`
 * @property {(row: any, get: () => any) => Node | string} [show] called when the value changes; `get` returns the
 *   current row
 * @property {"number" | "wide" | "actions"} [kind]
 * @property {boolean} [fixed] not sortable
 */

export class DataTable {
    #columns;
    #keyOf;
    #sort;
    #rows = [];
    #shown = new Map(); // key -> { line, row, values }
    #body = h("tbody");
    #heads;

    /**
     * @param {object} options
     * @param {string} options.label for screen readers
     * @param {Column[]} options.columns
     * @param {(row: any) => string} options.keyOf
     * @param {{column: string, isDown: boolean} | null} [options.sort] null: in the given order
     */
    constructor({ label, columns, keyOf, sort = null }) {
        this.#columns = columns;
        this.#keyOf = keyOf;
        this.#sort = sort;
        this.#heads = columns.map((column) => this.#head(column));
        const caption = h("caption", { class: "unseen" }, label);
        this.element = h(
            "div",
            { class: "table-wrap", tabindex: "0", role: "region", "aria-label": label },
            h("table", {}, caption, h("thead", {}, h("tr", {}, this.#heads)), this.#body),
        );
    }

    #head(column) {
        const isPlain = column.fixed || column.kind === "actions";
        const label = column.label || h("span", { class: "unseen" }, "Actions");
        const inside = isPlain ? label : h("button", { onclick: () => this.#sortBy(column) }, label);
        const head = h("th", { scope: "col", class: ["number", "optional"].includes(column.kind) ? column.kind : null }, inside);
        this.#mark(head, column);
        return head;
    }

    #mark(head, column) {
        if (this.#sort?.column === column.label)
            head.setAttribute("aria-sort", this.#sort.isDown ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
    }

    #sortBy(column) {
        const isSame = this.#sort?.column === column.label;
        this.#sort = { column: column.label, isDown: isSame ? !this.#sort.isDown : column.kind === "number" };
        this.#heads.forEach((head, at) => this.#mark(head, this.#columns[at]));
        this.show(this.#rows);
    }

    /** Show these rows. Rows that stay keep their elements, and with them focus and selection. */
    show(rows) {
        this.#rows = rows;
        const lines = this.#sorted(rows).map((row) => this.#line(row));
        const keys = new Set(rows.map(this.#keyOf));
        for (const key of this.#shown.keys()) if (!keys.has(key)) this.#shown.delete(key);
        if (!same(lines, this.#body.children)) this.#body.replaceChildren(...lines);
    }

    #sorted(rows) {
        const column = this.#columns.find((one) => one.label === this.#sort?.column);
        if (!column) return rows;
        const sign = this.#sort.isDown ? -1 : 1;
        return [...rows].sort((a, b) => sign * compare(column.value(a), column.value(b)));
    }

    #line(row) {
        const key = this.#keyOf(row);
        const known = this.#shown.get(key) ?? this.#newLine(key);
        known.row = row;
        this.#columns.forEach((column, at) => this.#fill(known, column, at));
        return known.line;
    }

    #newLine(key) {
        const cells = this.#columns.map((column) => h("td", { class: column.kind ?? null }));
        const known = { line: h("tr", {}, cells), row: null, values: [] };
        this.#shown.set(key, known);
        return known;
    }

    #fill(known, column, at) {
        const value = column.value(known.row);
        if (at in known.values && Object.is(known.values[at], value)) return;
        known.values[at] = value;
        const cell = known.line.children[at];
        if (column.show) cell.replaceChildren(column.show(known.row, () => known.row) ?? "");
        else setText(cell, value);
    }
}

/** A column of whole numbers. */
export function counted(label, name) {
    return { label, kind: "number", value: (row) => row[name], show: (row) => count(row[name]) };
}

/** The time within which 19 of 20 requests ended. */
export function p95() {
    return {
        label: "p95",
        kind: "number",
        value: (row) => row.p95_ms,
        show: ({ p95_ms: ms }) => (ms ? duration(ms / 1000) : NONE),
    };
}

function same(lines, children) {
    return lines.length === children.length && lines.every((line, at) => line === children[at]);
}

function compare(a, b) {
    const [none, other] = [a === null || a === undefined, b === null || b === undefined];
    if (none || other) return Number(none) - Number(other);
    return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
}

/** "100 of 5,000 hosts", and a button for more. */
export function pageFoot(more) {
    const says = h("span", { role: "status" });
    const button = h("button", { class: "slim", onclick: more }, "Show more");
    const element = h("p", { class: "table-foot", hidden: true }, says, button);
    const show = (shown, total, what) => {
        element.hidden = !shown && !total;
        button.hidden = shown >= (total ?? shown) || shown >= MOST;
        const rest = button.hidden && shown < total ? "; search to see others" : "";
        setText(says, `${count(shown)} of ${some(total ?? shown, what)}${rest}`);
    };
    return { element, show };
}
