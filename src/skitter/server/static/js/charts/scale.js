/** Maps values to pixels and picks the ticks. Pure. */

/** @typedef {{(value: number): number, ticks: number[]}} Scale */

/** From 0 to a round number; for bytes, in steps of a power of two. @returns {Scale} */
export function linear(most, [from, to], { wanted = 4, ofBytes = false } = {}) {
    const rough = (most > 0 ? most : 1) / wanted; // a line of zeros is drawn below 1
    const step = ofBytes ? 2 ** Math.max(0, Math.ceil(Math.log2(rough))) : niceStep(rough);
    const top = step * Math.max(1, Math.ceil(most / step - 1e-9));
    const scale = (value) => from + (value / top) * (to - from);
    scale.ticks = Array.from({ length: Math.round(top / step) + 1 }, (_, at) => at * step);
    return scale;
}

/** By powers of ten: on a linear scale, p99 would flatten p50. @returns {Scale} */
export function logarithmic(least, most, [from, to]) {
    const low = Math.floor(Math.log10(Math.max(least, 1e-6)));
    const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(most, 1e-6))));
    const scale = (value) => from + ((Math.log10(Math.max(value, 10 ** low)) - low) / (high - low)) * (to - from);
    scale.ticks = Array.from({ length: high - low + 1 }, (_, at) => 10 ** (low + at));
    return scale;
}

/** 1, 2 or 5 times a power of ten. */
export function niceStep(rough) {
    const power = 10 ** Math.floor(Math.log10(rough));
    return power * ([1, 2, 5].find((step) => step * power >= rough * 0.999) ?? 10);
}

/** None is over three times the one before it, so that a short range has labels too. */
const TIME_STEPS = [10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800];

/** Round times in a range, in the reader's time zone. */
export function timeTicks(from, to, wanted) {
    const step = TIME_STEPS.find((one) => (to - from) / one <= wanted) ?? 172800;
    const offset = new Date(from * 1000).getTimezoneOffset() * 60;
    const first = Math.ceil((from - offset) / step) * step + offset;
    const ticks = [];
    for (let at = first; at <= to; at += step) ticks.push(at);
    return { step, ticks };
}

/** 14:05, or Mon 16 if the steps are days. */
export function timeLabel(at, step) {
    const date = new Date(at * 1000);
    if (step >= 86400) return date.toLocaleDateString("en-GB", { weekday: "short", day: "numeric" });
    const time = date.toLocaleTimeString("en-GB", {
        hour: "2-digit",
        minute: "2-digit",
        second: step < 60 ? "2-digit" : undefined,
    });
    const isMidnight = date.getHours() === 0 && date.getMinutes() === 0;
    return isMidnight ? date.toLocaleDateString("en-GB", { weekday: "short", day: "numeric" }) : time;
}
