/** A success rate: a bar, a number and a colour that grades it. */

import { h } from "../dom.js";
import { NONE, percent } from "../format.js";

/** A row's share of successes; null: nothing has ended yet. */
export function shareOf({ ok = 0, failed = 0 }) {
    return ok + failed ? ok / (ok + failed) : null;
}

export function toneOf(share) {
    if (share === null || share === undefined) return null;
    return share >= 0.95 ? null : share >= 0.8 ? "warn" : "bad";
}

export function successBar(share) {
    if (share === null || share === undefined) return h("span", { class: "faint" }, NONE);
    return h(
        "span",
        {},
        h("span", { class: "bar", "data-tone": toneOf(share), "--share": share }),
        " ",
        percent(share),
    );
}
