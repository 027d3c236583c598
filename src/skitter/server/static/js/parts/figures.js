/** Every count in `skitter status`, for a closer look. */

import { h, setText } from "../dom.js";
import { count } from "../format.js";

const FIGURES = [
    ["seen", "URLs seen"],
    ["pending", "Pending"],
    ["delayed", "Delayed"],
    ["leased", "Leased"],
    ["done", "Done"],
    ["dead", "Dead"],
    ["items", "Items waiting"],
    ["stored", "Items stored"],
    ["updated", "Rows updated"],
    ["rejected", "Items rejected"],
    ["duplicates", "Duplicates"],
    ["retried", "Retries"],
    ["lost", "Expired leases"],
    ["late", "Late results"],
    ["blocked", "Block pages"],
    ["incidents", "Hosts slowed down"],
    ["excluded", "Waiting URLs excluded"],
    ["kept_out", "Links excluded"],
    ["refused", "Links refused"],
    ["hosts", "Hosts"],
    ["cached", "Pages from the archive"],
    ["skipped", "Pages skipped"],
    ["today", "Today, of a limit"],
    ["shelved", "Shelved"],
    ["trapped", "Held as traps"],
    ["unhandled", "Held: no worker has the handler"],
    ["looks", "Shapes to recheck"],
    ["dropped", "Dead letters dropped"],
    ["capped", "Pages capped"],
    ["undeclared", "Values left out"],
    ["reopened", "Pages reopened"],
    ["damaged", "Damaged records"],
    ["again", "Pages of further rounds"],
    ["revisits", "To visit again"],
    ["due", "To visit now"],
    ["new", "New"],
    ["changed", "Changed"],
    ["unchanged", "Unchanged"],
    ["missing", "Not found, once"],
    ["gone", "Gone"],
    ["changes", "Changes noted"],
    ["fed", "Fed messages"],
];

/** Excluded links are counted by kind. */
const total = (value = 0) => (typeof value === "object" ? Object.values(value).reduce((sum, one) => sum + one, 0) : value);

const QUOTAS = {
    max_jobs: "Jobs",
    max_pending: "URLs waiting",
    max_pages_per_day: "Pages begun since 00:00 UTC",
};

/** What all jobs of a tenant use of its quotas. @param {import("../dom.js").View} view */
export function quotas(view) {
    const list = h("dl", { class: "facts" });
    const cli = h("code", {});
    const element = h(
        "section",
        { class: "card", hidden: true },
        h("div", { class: "card-head" }, h("h2", {}, "Quotas"), h("span", { class: "more faint" }, "kept with others of these names: ", cli)),
        list,
    );
    view.bind(({ quotas: uses = [] }) => {
        element.hidden = !uses.length;
        setText(cli, [...new Set(uses.map(({ tenant }) => tenant))].join(" "));
        list.replaceChildren(
            ...uses.map(({ quota, used, limit }) =>
                h(
                    "div",
                    {},
                    h("dt", {}, QUOTAS[quota] ?? quota),
                    h("dd", { class: used < limit ? null : "error" }, `${count(used)} of ${count(limit)}`),
                ),
            ),
        );
    });
    return element;
}

/** @param {import("../dom.js").View} view */
export function figures(view) {
    const one = ([name, label]) =>
        h(
            "div",
            {},
            h("dt", {}, label),
            h(
                "dd",
                { "data-field": name },
                view.text((overview) => count(total(overview[name]))),
            ),
        );
    return h(
        "section",
        { class: "card" },
        h(
            "div",
            { class: "card-head" },
            h("h2", {}, "All counts"),
            h("span", { class: "more faint" }, "as in ", h("code", {}, "skitter status")),
        ),
        h("dl", { class: "facts" }, FIGURES.map(one)),
    );
}
