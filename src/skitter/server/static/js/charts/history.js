/** Metrics over time, prepared for charts. */

import { get, of } from "../api.js";

export const RANGES = [
    ["1 h", 3600],
    ["6 h", 21_600],
    ["24 h", 86_400],
    ["7 d", 604_800],
];
export const POINTS = 600;
/** By then every worker has reported: they do so every two seconds. */
const REPORTED_S = 4;

/** @returns {Promise<{from: number, step_s: number, partial: boolean, series: object, quantiles: object}>} */
export function readHistory(job, names, { since_s = 3600, points = POINTS, signal } = {}) {
    return get(of(job, "history"), { names: names.join(","), since_s, points }, signal);
}

/** Drop the time before the first report, but keep `least` points: in a shorter chart one point looks like a cliff. */
export function trimmed(history, least = 30) {
    const known = Object.values(history.series).map((values) => values.findIndex((value) => value !== null));
    const first = Math.min(...known.map((at) => (at < 0 ? Infinity : at)));
    const skipped = Math.max(0, Math.min(first - 1, lengthOf(history) - least));
    return { ...cut(history, skipped), from: history.from + skipped * history.step_s };
}

/** Drop the time since the last process stopped, but for a few points: a finished crawl keeps its shape. */
export function whileAtWork(history, kept = 3) {
    const lasts = Object.values(history.series).map((values) => values.findLastIndex((value) => value !== null));
    const last = Math.max(...lasts);
    const end = last + 1 + kept;
    return last < 0 || end + kept >= lengthOf(history) ? history : { ...cut(history, 0, end), partial: false };
}

function lengthOf({ series }) {
    return Object.values(series)[0]?.length ?? 0;
}

function cut(history, from, to) {
    const part = (rows) => mapped(rows, (values) => values.slice(from, to));
    return { ...history, series: part(history.series), quantiles: mapped(history.quantiles ?? {}, part) };
}

function mapped(rows, change) {
    return Object.fromEntries(Object.entries(rows).map(([name, value]) => [name, change(value)]));
}

/** A bucket's count as a rate per second. Once something was counted, a bucket without a report is 0: nobody was at
 * work. The last bucket is still filling: its rate covers the time so far, and is unknown until every worker has
 * reported. */
export function perSecond({ from, step_s: step, partial, series }, name, now = Date.now() / 1000) {
    const values = series[name] ?? [];
    const last = values.length - 1;
    const lasted = partial ? Math.min(step, now - (from + last * step)) : step;
    const first = values.findIndex((value) => value !== null);
    const isKnown = (at) => first >= 0 && at >= first && (at < last || lasted >= REPORTED_S);
    return values.map((value, at) => (isKnown(at) ? (value ?? 0) / (at < last ? step : lasted) : null));
}

/** `[{ label, tone, values }]` from `[[label, values], ...]`. */
export function seriesOf(pairs) {
    return pairs.map(([label, values], at) => ({ label, tone: (at % 6) + 1, values }));
}
