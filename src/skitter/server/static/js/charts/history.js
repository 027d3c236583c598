/** What was measured over time, as charts want it. */

import { get, of } from "../api.js";

export const RANGES = [
    ["1 h", 3600],
    ["6 h", 21_600],
    ["24 h", 86_400],
    ["7 d", 604_800],
];
export const POINTS = 600;

/** @returns {Promise<{from: number, step_s: number, partial: boolean, series: object, quantiles: object}>} */
export function readHistory(job, names, { since_s = 3600, points = POINTS, signal } = {}) {
    return get(of(job, "history"), { names: names.join(","), since_s, points }, signal);
}

/** Without the time before the first report; but not so short that a point becomes a cliff. */
export function trimmed(history, least = 30) {
    const known = Object.values(history.series).map((values) => values.findIndex((value) => value !== null));
    const first = Math.min(...known.map((at) => (at < 0 ? Infinity : at)));
    const length = Object.values(history.series)[0]?.length ?? 0;
    const skipped = Math.max(0, Math.min(first - 1, length - least));
    const cut = (values) => values.slice(skipped);
    const series = Object.fromEntries(Object.entries(history.series).map(([name, values]) => [name, cut(values)]));
    return { ...history, from: history.from + skipped * history.step_s, series };
}

/** Counts of a bucket as a rate per second. A bucket that is not over says too little; its rate is left as it is. */
export function perSecond(history, name) {
    const values = history.series[name] ?? [];
    return values.map((value) => (value === null || value === undefined ? null : value / history.step_s));
}

/** `[{ label, tone, values }]` from `[[label, values], ...]`. */
export function seriesOf(pairs) {
    return pairs.map(([label, values], at) => ({ label, tone: (at % 6) + 1, values }));
}
