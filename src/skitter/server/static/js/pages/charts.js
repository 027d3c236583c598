/** Charts of the job's metrics, over an hour to a week. */

import { perSecond, RANGES, readHistory, seriesOf, trimmed } from "../charts/history.js";
import { LineChart } from "../charts/line-chart.js";
import { h } from "../dom.js";
import { bytes, compact, count, duration, rate } from "../format.js";
import { Page } from "../page.js";
import { segments } from "../parts/segments.js";
import { remember } from "../router.js";

const EVERY_S = 10;
const OUTCOMES = ["ok", "http_error", "blocked", "timeout", "proxy_error", "error"];
const CLASSES = ["2xx", "3xx", "4xx", "5xx", "none"];
const PERCENTILES = ["p50", "p95", "p99"];

const counters =
    (...names) =>
    (history) =>
        names.map((name) => [name, perSecond(history, name)]);
const grouped = (group, names) => (history) =>
    names.map((name) => [name.replace("_", " "), perSecond(history, `${group}.${name}`)]);

/** A chart of events per second. */
function rates(title, read) {
    return { title, note: "per second", read, format: rate, tick: compact };
}

/** A chart of durations. */
function times(title, name) {
    return {
        title,
        note: "logarithmic",
        read: (history) => PERCENTILES.map((p) => [p, history.quantiles?.[name]?.[p] ?? []]),
        format: (ms) => duration(ms / 1000),
        tick: (ms) => (ms < 1000 ? `${ms} ms` : `${count(ms / 1000)} s`),
        isLog: true,
    };
}

const CHARTS = [
    rates("Pages and items", counters("pages", "items", "stored")),
    rates("Outcome of requests", grouped("fetch", OUTCOMES)),
    times("Time to fetch", "fetch"),
    times("Wait in the queue", "queue_wait"),
    rates("Status codes", grouped("status", CLASSES)),
    rates("Trouble", counters("retries", "dead", "blocked", "lost")),
    times("Time to the first byte", "first_byte"),
    times("Time in handlers", "handler"),
    times("Time to load", "load"),
    { title: "Bytes", note: "per second", read: counters("bytes"), format: bytes, ofBytes: true },
    times("Time in browsers", "browser"),
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
                h("span", { class: "small faint" }, "Dashed: the current interval, not over yet."),
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

    #show(whole) {
        const history = trimmed(whole);
        CHARTS.forEach(({ read }, at) => this.#charts[at].show({ ...history, series: seriesOf(read(history)) }));
    }
}
