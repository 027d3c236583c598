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
    const length = Object.values(history.series)[0]?.length ?? 0;
    const skipped = Math.max(0, Math.min(first - 1, length - least));
    const { step_s: step, series, quantiles = {} } = history;
    const cut = (rows) => mapped(rows, (values) => values.slice(skipped));
    return { ...history, from: history.from + skipped * step, series: cut(series), quantiles: mapped(quantiles, cut) };
}

function mapped(rows, change) {
    return Object.fromEntries(Object.entries(rows).map(([name, value]) => [name, change(value)]));
}

/** A bucket's count as a rate per second. The last bucket is still filling: its rate covers the time so far, and is
 * unknown until every worker has reported. */
export function perSecond({ from, step_s: step, partial, series }, name, now = Date.now() / 1000) {
    const values = series[name] ?? [];
    const last = values.length - 1;
    const lasted = partial ? Math.min(step, now - (from + last * step)) : step;
    const isKnown = (value, at) => value !== null && value !== undefined && (at < last || lasted >= REPORTED_S);
    return values.map((value, at) => (isKnown(value, at) ? value / (at < last ? step : lasted) : null));
}

/** `[{ label, tone, values }]` from `[[label, values], ...]`. */
export function seriesOf(pairs) {
    return pairs.map(([label, values], at) => ({ label, tone: (at % 6) + 1, values }));
}
