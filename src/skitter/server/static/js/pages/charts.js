/** What was measured, over an hour to a week. */

import { perSecond, RANGES, readHistory, seriesOf } from "../charts/history.js";
import { LineChart } from "../charts/line-chart.js";
import { h } from "../dom.js";
import { bytes, compact, duration, rate } from "../format.js";
import { Page } from "../page.js";
import { segments } from "../parts/segments.js";
import { remember } from "../router.js";

const EVERY_S = 10;
const OUTCOMES = ["ok", "http_error", "blocked", "timeout", "proxy_error", "error"];
const CLASSES = ["2xx", "3xx", "4xx", "5xx", "none"];
const PERCENTILES = ["p50", "p95", "p99"];

const seconds = (ms) => duration(ms / 1000);
const secondsTick = (ms) => (ms < 1000 ? `${ms} ms` : `${ms / 1000} s`);
const counters =
    (...names) =>
    (history) =>
        names.map((name) => [name, perSecond(history, name)]);
const grouped = (group, names) => (history) =>
    names.map((name) => [name.replace("_", " "), perSecond(history, `${group}.${name}`)]);
const timing = (name) => (history) => PERCENTILES.map((p) => [p, history.quantiles?.[name]?.[p] ?? []]);

/** Title, which series, how numbers are written. */
const CHARTS = [
    {
        title: "Pages and items",
        note: "per second",
        read: counters("pages", "items", "stored"),
        format: rate,
        tick: compact,
    },
    { title: "Outcome of requests", note: "per second", read: grouped("fetch", OUTCOMES), format: rate, tick: compact },
    {
        title: "Time to fetch",
        note: "logarithmic",
        read: timing("fetch"),
        format: seconds,
        tick: secondsTick,
        isLog: true,
    },
    {
        title: "Wait in the queue",
        note: "logarithmic",
        read: timing("queue_wait"),
        format: seconds,
        tick: secondsTick,
        isLog: true,
    },
    { title: "Status codes", note: "per second", read: grouped("status", CLASSES), format: rate, tick: compact },
    {
        title: "Trouble",
        note: "per second",
        read: counters("retries", "dead", "blocked", "lost"),
        format: rate,
        tick: compact,
    },
    {
        title: "Time to the first byte",
        note: "logarithmic",
        read: timing("first_byte"),
        format: seconds,
        tick: secondsTick,
        isLog: true,
    },
    {
        title: "Time in handlers",
        note: "logarithmic",
        read: timing("handler"),
        format: seconds,
        tick: secondsTick,
        isLog: true,
    },
    {
        title: "Time to load",
        note: "logarithmic",
        read: timing("load"),
        format: seconds,
        tick: secondsTick,
        isLog: true,
    },
    { title: "Bytes", note: "per second", read: counters("bytes"), format: bytes },
    {
        title: "Time in browsers",
        note: "logarithmic",
        read: timing("browser"),
        format: seconds,
        tick: secondsTick,
        isLog: true,
    },
];
const NAMES = [
    ...["pages", "items", "stored", "retries", "dead", "blocked", "lost", "bytes"],
    ...OUTCOMES.map((name) => `fetch.${name}`),
    ...CLASSES.map((name) => `status.${name}`),
    ...["fetch", "first_byte", "queue_wait", "handler", "load", "browser"],
];

export class ChartsPage extends Page {
    #since = Number(this.place.query.since) || RANGES[0][1];
    #charts = CHARTS.map((options) => new LineChart(options));

    build() {
        const choose = (since) => {
            this.#since = since;
            remember({ since });
            this.again();
        };
        return h(
            "div",
            { class: "stack" },
            h(
                "div",
                { class: "tools" },
                segments("Range", RANGES, this.#since, choose),
                h("span", { class: "small faint" }, "The dashed end is not over yet."),
            ),
            h(
                "div",
                { class: "charts" },
                this.#charts.map((chart) => h("section", { class: "card" }, chart)),
            ),
        );
    }

    start() {
        this.again = this.load(
            EVERY_S,
            (signal) => readHistory(this.job, NAMES, { since_s: this.#since, signal }),
            (history) => this.#show(history),
        );
    }

    #show(history) {
        CHARTS.forEach(({ read }, at) => this.#charts[at].show({ ...history, series: seriesOf(read(history)) }));
    }
}
