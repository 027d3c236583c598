/** Numbers, times and sizes for people. Pure. */

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 });
const STEPS = [
    [86_400, "d"],
    [3_600, "h"],
    [60, "min"],
    [1, "s"],
];
const SIZES = ["B", "KB", "MB", "GB", "TB", "PB"];
export const NONE = "–";

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** 12,345 */
export function count(value) {
    return isNumber(value) ? whole.format(value) : NONE;
}

/** 12.3K */
export function compact(value) {
    return isNumber(value) ? short.format(value) : NONE;
}

/** 0.25, 4.1, 312: fewer decimals for larger numbers. */
export function rate(value) {
    if (!isNumber(value)) return NONE;
    if (value === 0) return "0";
    if (value < 0.01) return "< 0.01";
    return value < 1 ? value.toFixed(2) : value < 100 ? value.toFixed(1) : whole.format(value);
}

/** 12 ms, 4.2 s, 3 min 12 s, 2 h 5 min: the two largest units. */
export function duration(seconds) {
    if (!isNumber(seconds)) return NONE;
    if (seconds === 0) return "0 s";
    if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
    if (seconds < 10) return `${trim(seconds.toFixed(1))} s`;
    let rest = Math.round(seconds);
    const parts = [];
    for (const [size, unit] of STEPS) {
        const number = Math.floor(rest / size);
        rest -= number * size;
        if (number) parts.push(`${whole.format(number)} ${unit}`);
        if (parts.length === 2 || (parts.length && !number)) break;
    }
    return parts.join(" ");
}

/** about 40 s, about 4 min: for estimates, which are not exact to the second. */
export function roughly(seconds) {
    return `about ${duration(seconds < 120 ? Math.round(seconds) : Math.round(seconds / 60) * 60)}`;
}

/** about 4 min left for the URLs known so far, and how fast that grows. */
export function timeLeft({ eta_s: eta, found_per_s: found, pages_per_s: pages }) {
    if (eta === null || eta === undefined) return "";
    const grows = found > 0.05 * Math.max(pages ?? 0, 0.2) ? `, which grow by ${rate(found)}/s` : "";
    return `${roughly(eta)} left for the URLs known so far${grows}`;
}

function trim(digits) {
    return digits.replace(/\.0$/, "");
}

/** 1.4 MB, in steps of 1,024. */
export function bytes(value) {
    if (!isNumber(value)) return NONE;
    let size = value;
    let step = 0;
    while (size >= 1023.5 && step < SIZES.length - 1) [size, step] = [size / 1024, step + 1];
    return `${step && size < 100 ? size.toFixed(1) : whole.format(size)} ${SIZES[step]}`;
}

/** 98.2%; never rounded up to 100% or down to 0%. */
export function percent(share) {
    if (!isNumber(share)) return NONE;
    if (share === 1 || share === 0) return `${share * 100}%`;
    const shown = Math.min(99.9, Math.max(0.1, share * 100));
    return `${shown < 99 && shown >= 10 ? shown.toFixed(0) : shown.toFixed(1)}%`;
}

/** Without a currency: it is the price list's, and we know only the number. */
export function money(value) {
    const maximumFractionDigits = value < 10 ? 4 : 2;
    return isNumber(value) ? value.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits }) : NONE;
}

/** 14:03:21, in the reader's time zone. */
export function clock(at) {
    return isNumber(at) ? new Date(at * 1000).toLocaleTimeString("en-GB") : NONE;
}

/** 14:03 today, 12 Nov 14:03 on another day. */
export function moment(at, now = Date.now() / 1000) {
    if (!isNumber(at) || at <= 0) return NONE;
    const [then, today] = [new Date(at * 1000), new Date(now * 1000)];
    const time = then.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
    if (then.toDateString() === today.toDateString()) return time;
    return `${then.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${time}`;
}

/** 2026-11-16 14:03:21 UTC, for tooltips. */
export function exact(at) {
    return isNumber(at) && at > 0
        ? new Date(at * 1000)
              .toISOString()
              .replace("T", " ")
              .replace(/\.\d+Z/, " UTC")
        : "";
}

/** 12 s ago */
export function ago(at, now) {
    if (!isNumber(at) || at <= 0) return NONE;
    const seconds = Math.max(0, now - at);
    return seconds < 1.5 ? "just now" : `${duration(Math.round(seconds))} ago`;
}

/** 1 page, 2 pages, 1,204 pages */
export function some(number, one, many = `${one}s`) {
    return `${count(number)} ${number === 1 ? one : many}`;
}

/** /books/1?page=2: what differs between the pages of a host. */
export function withoutHost(url) {
    return String(url).replace(/^https?:\/\/[^/?#]+(?=[/?#]..)/i, "");
}

/** A shell word, quoted if necessary. */
export function quoted(word) {
    const text = String(word);
    return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
