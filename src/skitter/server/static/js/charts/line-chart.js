/** A line chart over time. The newest bucket is still filling and is dashed; arrow keys move a cursor that is read
 * out; a table below has the same numbers. */

import { h, s, setText } from "../dom.js";
import { exact, moment } from "../format.js";
import { areaPath, linePath, thinned } from "./paths.js";
import { linear, logarithmic, timeLabel, timeTicks } from "./scale.js";

const LEFT = 52;
const RIGHT = 8;
const TOP = 8;
const BOTTOM = 22;
const TABLE_ROWS = 25;

/**
 * @typedef {object} Series
 * @property {string} label
 * @property {number} tone 1 to 6
 * @property {(number | null)[]} values
 * @typedef {object} Data
 * @property {number} from time of the first value, in seconds since the epoch
 * @property {number} step_s
 * @property {boolean} partial the newest bucket is still filling
 * @property {Series[]} series
 */

export class LineChart extends HTMLElement {
    #options;
    /** @type {Data | null} */
    #data = null;
    #hidden = new Set();
    #cursor = null; // index of the value under the cross-hair
    #svg = s("svg", { "aria-hidden": "true" });
    #readout = h("div", { class: "readout", hidden: true });
    #said = h("p", { class: "unseen", role: "status", "aria-live": "polite" });
    #legend = h("div", { class: "chart-legend" });
    #table = h("table");
    #plot;
    #sizes = new ResizeObserver(() => this.#draw());

    /**
     * @param {object} options
     * @param {string} options.title
     * @param {(value: number) => string} options.format
     * @param {(value: number) => string} [options.tick] the same for the axis, which has less room
     * @param {boolean} [options.isLog]
     * @param {boolean} [options.ofBytes]
     * @param {string} [options.note]
     */
    constructor(options) {
        super();
        this.#options = options;
        const hint = "Left and right arrow keys move a cursor, Home and End jump.";
        this.#plot = h(
            "div",
            {
                class: "plot",
                tabindex: "0",
                role: "group",
                "aria-roledescription": "chart",
                "aria-label": `${options.title}. ${hint}`,
            },
            this.#svg,
            this.#readout,
        );
    }

    connectedCallback() {
        const { title, note } = this.#options;
        const scroll = h("div", { class: "table-scroll" }, this.#table);
        this.append(
            h("div", { class: "chart-head" }, h("h2", {}, title), note && h("span", { class: "small faint" }, note)),
            this.#plot,
            this.#said,
            this.#legend,
            h("details", { class: "chart-table" }, h("summary", {}, "Table"), scroll),
        );
        this.#plot.addEventListener("pointermove", (event) => this.#point(event));
        this.#plot.addEventListener("pointerleave", () => this.#move(null));
        this.#plot.addEventListener("blur", () => this.#move(null));
        this.#plot.addEventListener("keydown", (event) => this.#press(event));
        this.#sizes.observe(this.#plot);
    }

    disconnectedCallback() {
        this.#sizes.disconnect();
    }

    /** @param {Data} data */
    show(data) {
        this.#data = data;
        this.#drawLegend();
        this.#drawTable();
        this.#draw();
    }

    get #visible() {
        return (this.#data?.series ?? []).filter(({ label }) => !this.#hidden.has(label));
    }

    get #length() {
        return this.#data?.series[0]?.values.length ?? 0;
    }

    #timeOf(at) {
        return this.#data.from + at * this.#data.step_s;
    }

    // --- drawing

    #drawLegend() {
        const labels = this.#data.series.map(({ label }) => label).join();
        if (this.#legend.dataset.labels === labels) return;
        this.#legend.dataset.labels = labels;
        const button = ({ label, tone }) =>
            h(
                "button",
                {
                    class: `tone-${tone}`,
                    "aria-pressed": "true",
                    onclick: (event) => this.#toggle(label, event.currentTarget),
                },
                label,
            );
        this.#legend.replaceChildren(...(this.#data.series.length > 1 ? this.#data.series.map(button) : []));
    }

    #toggle(label, button) {
        if (!this.#hidden.delete(label)) this.#hidden.add(label);
        button.setAttribute("aria-pressed", String(!this.#hidden.has(label)));
        this.#draw();
    }

    #draw() {
        const { clientWidth: width, clientHeight: height } = this.#plot;
        if (!this.#data || !width) return;
        this.#svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
        const values = this.#visible
            .flatMap((one) => one.values)
            .filter((value) => value !== null && value !== undefined);
        if (!values.length) {
            this.#svg.replaceChildren(
                s("text", { class: "blank", x: width / 2, y: height / 2 }, "Nothing was measured in this time."),
            );
            return;
        }
        const y = this.#options.isLog
            ? logarithmic(Math.min(...values.filter((value) => value > 0), Math.max(...values)), Math.max(...values), [
                  height - BOTTOM,
                  TOP,
              ])
            : linear(Math.max(...values), [height - BOTTOM, TOP], { ofBytes: this.#options.ofBytes });
        const x = (at) => LEFT + (at / Math.max(1, this.#length - 1)) * (width - LEFT - RIGHT);
        this.#svg.replaceChildren(
            ...this.#axes(x, y, width, height),
            ...this.#visible.map((one, at) => this.#lines(one, x, y, height, at === 0)),
            ...this.#crossHair(x, y, height),
        );
    }

    #axes(x, y, width, height) {
        const marks = y.ticks.map((value, at) => [
            s("line", {
                class: at ? "grid-line" : "grid-line base-line",
                x1: LEFT,
                x2: width - RIGHT,
                y1: Math.round(y(value)) + 0.5,
                y2: Math.round(y(value)) + 0.5,
            }),
            s("text", { x: LEFT - 7, y: y(value) + 4, "text-anchor": "end" }, this.#tick(value)),
        ]);
        const [from, to] = [this.#timeOf(0), this.#timeOf(this.#length - 1)];
        const { step, ticks } = timeTicks(from, to, Math.max(2, Math.floor((width - LEFT) / 90)));
        const place = (at) => x(((at - from) / (to - from || 1)) * (this.#length - 1));
        const isInside = (at) => place(at) > LEFT + 14 && place(at) < width - 18;
        const times = ticks
            .filter(isInside)
            .map((at) => s("text", { x: place(at), y: height - 6, "text-anchor": "middle" }, timeLabel(at, step)));
        return [...marks.flat(), ...times];
    }

    #tick(value) {
        return (this.#options.tick ?? this.#options.format)(value);
    }

    /** The last segment is dashed: it ends in a bucket that is still filling and would look like a cliff. */
    #lines({ tone, values }, x, y, height, hasArea) {
        const whole = this.#data.partial ? values.slice(0, -1) : values;
        const last = this.#data.partial ? values.map((value, at) => (at >= values.length - 2 ? value : null)) : [];
        return s(
            "g",
            { class: `tone-${tone}` },
            this.#options.isLog || !hasArea
                ? null
                : s("path", { class: "area", d: areaPath(whole, x, y, height - BOTTOM) }),
            s("path", { class: "line", d: linePath(whole, x, y) }),
            s("path", { class: "line partial", d: linePath(last, x, y) }),
        );
    }

    #crossHair(x, y, height) {
        if (this.#cursor === null) return [];
        const at = x(this.#cursor);
        const dots = this.#visible.filter(({ values }) => Number.isFinite(values[this.#cursor]));
        return [
            s("line", { class: "cursor", x1: at, x2: at, y1: TOP, y2: height - BOTTOM }),
            ...dots.map(({ tone, values }) =>
                s("circle", { class: `dot tone-${tone}`, cx: at, cy: y(values[this.#cursor]), r: 3.5 }),
            ),
        ];
    }

    #drawTable() {
        const { series, partial } = this.#data;
        const { title, format } = this.#options;
        const head = h(
            "tr",
            {},
            h("th", { scope: "col" }, "Time"),
            series.map(({ label }) => h("th", { scope: "col", class: "number" }, label)),
        );
        const row = (at) => {
            const time = moment(this.#timeOf(at)) + (partial && at === this.#length - 1 ? " (so far)" : "");
            return h(
                "tr",
                {},
                h("th", { scope: "row" }, time),
                series.map(({ values }) => h("td", { class: "number" }, shownAs(values[at], format))),
            );
        };
        this.#table.replaceChildren(
            h("caption", { class: "unseen" }, title),
            h("thead", {}, head),
            h("tbody", {}, thinned(this.#length, TABLE_ROWS).map(row)),
        );
    }

    // --- the cursor

    #point(event) {
        const box = this.#plot.getBoundingClientRect();
        const share = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
        this.#move(Math.round(Math.min(1, Math.max(0, share)) * (this.#length - 1)));
    }

    #press(event) {
        const end = this.#length - 1;
        const from = this.#cursor ?? end + 1;
        const stride = event.shiftKey ? 10 : 1;
        const to = { ArrowLeft: from - stride, ArrowRight: from + stride, Home: 0, End: end, Escape: null }[event.key];
        if (to === undefined || !this.#data) return;
        event.preventDefault();
        this.#move(to === null ? null : Math.min(end, Math.max(0, to)));
        setText(this.#said, to === null ? "" : this.#sentence());
    }

    #move(place) {
        if (!this.#data || place === this.#cursor || this.#length === 0) return;
        this.#cursor = place;
        this.#readout.hidden = place === null;
        if (place !== null) this.#read(place);
        this.#draw();
    }

    #read(place) {
        const line = ({ label, tone, values }) =>
            h("div", { class: `tone-${tone}` }, label, h("b", {}, shownAs(values[place], this.#options.format)));
        const time = h(
            "time",
            { title: exact(this.#timeOf(place)) },
            moment(this.#timeOf(place)),
            this.#isPartial(place) ? " · so far" : "",
        );
        this.#readout.replaceChildren(time, ...this.#visible.map(line));
        const isLeft = place < this.#length / 2;
        this.#readout.style.left = isLeft ? "auto" : `${LEFT + 6}px`;
        this.#readout.style.right = isLeft ? `${RIGHT + 6}px` : "auto";
    }

    #isPartial(place) {
        return this.#data.partial && place === this.#length - 1;
    }

    #sentence() {
        const values = this.#visible.map(
            ({ label, values }) => `${label} ${shownAs(values[this.#cursor], this.#options.format)}`,
        );
        return `${moment(this.#timeOf(this.#cursor))}: ${values.join(", ")}`;
    }
}

function shownAs(value, format) {
    return value === null || value === undefined ? "–" : format(value);
}

customElements.define("line-chart", LineChart);
