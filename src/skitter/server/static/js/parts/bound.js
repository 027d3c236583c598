/** What a crawl is limited by: a host's delay, as `shown`, or else something plainer. */

import { isFetching } from "./stepper.js";

export function limitOf({ finished, state, pending, delayed, leased, workers, bound }, shown) {
    if (finished) return "nothing: the job is finished";
    if (state === "paused" || state === "cancelled") return `nothing: the job is ${state}`;
    if (!(pending || delayed || leased)) return "nothing: no URL is waiting";
    if (!workers?.some(isFetching)) return "no worker is at work";
    return bound ? shown(bound) : "the speed of workers and hosts";
}
