/** Pages that failed: the page without scripts, its source, and why. All of it may be hostile. */

import { get, of } from "../api.js";
import { showDialog } from "../dialog.js";
import { h } from "../dom.js";
import { time } from "../page.js";
import { linkToStory } from "../router.js";
import { complain } from "../toast.js";
import { DataTable } from "./table.js";

export function failedTable(job) {
    return new DataTable({
        label: "Pages that failed",
        keyOf: (row) => row.fingerprint,
        sort: { column: "Failed", isDown: true },
        columns: [
            {
                label: "URL",
                kind: "wide",
                value: (row) => row.url,
                show: ({ url, fingerprint }) => h("a", { href: linkToStory(job, url, fingerprint) }, url),
            },
            { label: "Reason", kind: "wide", value: (row) => row.reason },
            { label: "Status", kind: "number", value: (row) => row.status },
            { label: "Failed", value: (row) => row.at, show: ({ at }) => time(at) },
            {
                label: "",
                kind: "actions",
                value: () => 0,
                show: (_, row) => h("button", { class: "slim", onclick: () => look(job, row()) }, "Look"),
            },
        ],
    });
}

async function look(job, { fingerprint }) {
    try {
        await show(await get(of(job, "failed", fingerprint)));
    } catch (error) {
        complain(error);
    }
}

async function show(page) {
    // Without `allow-scripts` nothing runs; the policy of this document holds in there, too.
    const frame = h("iframe", { class: "failed", sandbox: true, title: "The page, without scripts", srcdoc: page.body });
    await showDialog(
        "Page that failed",
        h("p", { class: "break" }, page.reason),
        frame,
        folded("Source", page.body),
        folded("Headers", Object.entries(page.headers).map((pair) => pair.join(": ")).join("\n")),
        page.traceback && folded("Traceback", page.traceback),
    );
}

function folded(title, text) {
    return h("details", {}, h("summary", {}, title), h("pre", { class: "json", tabindex: "0" }, text));
}
