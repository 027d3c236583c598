/** What limits a crawl: a host's delay, formatted by `shown`, or something more obvious. */

import { isFetching } from "./stepper.js";

export function limitOf({ finished, state, pending, delayed, leased, workers, bound }, shown) {
    if (finished) return pending ? "max_pages" : "nothing: the job is finished";
    if (state === "paused" || state === "cancelled") return `nothing: the job is ${state}`;
    if (!(pending || delayed || leased)) return "nothing: no URL is waiting";
    if (!workers?.some(isFetching)) return "no worker is running";
    return bound ? shown(bound) : "the speed of workers and hosts";
}
