/** Keyboard shortcuts: one letter for frequent actions, `g` and a letter for pages. */

import { isOver, pause, resume } from "./actions.js";
import { showDialog } from "./dialog.js";
import { h } from "./dom.js";
import { go, here } from "./router.js";
import { may, store } from "./store.js";
import { nextTheme } from "./theme.js";
import { toast } from "./toast.js";

const OFF = "skitter.keys.off";
const WAIT_MS = 1500;

export const PAGE_KEYS = {
    o: ["overview", "Overview"],
    p: ["pipeline", "Pipeline"],
    c: ["charts", "Charts"],
    h: ["hosts", "Hosts"],
    w: ["workers", "Workers"],
    d: ["dead", "Dead letters"],
    i: ["items", "Items"],
    u: ["url", "URL lookup"],
    l: ["log", "Log"],
    s: ["settings", "Settings"],
    r: ["routes", "Routes"],
    t: ["schedule", "Schedule"],
    e: ["runs", "Runs"],
};

const KEYS = {
    "?": ["List the shortcuts", showKeys],
    "/": ["Search on this page", focusSearch],
    ".": ["Pause or resume the job", toggleJob],
    j: ["Choose another job", () => document.querySelector("#job-switcher")?.focus()],
    a: ["All jobs", () => go(null, "jobs")],
    m: ["Switch between light, dark and system", () => toast(`Theme: ${nextTheme()}`)],
};

let waitingSince = 0; // when g was pressed

export function listenForKeys() {
    document.addEventListener("keydown", (event) => {
        if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]"))
            return;
        if (localStorage.getItem(OFF) && event.key !== "?") return; // WCAG 2.1.4: single keys can be switched off
        if (press(event)) event.preventDefault();
    });
}

function press(event) {
    const isSecond = event.timeStamp - waitingSince < WAIT_MS && waitingSince;
    waitingSince = 0;
    if (isSecond && PAGE_KEYS[event.key]) {
        const { job } = here();
        if (job) go(job, PAGE_KEYS[event.key][0]);
        return true;
    }
    if (event.key === "g") waitingSince = event.timeStamp;
    KEYS[event.key]?.[1]();
    return event.key === "g" || event.key in KEYS;
}

function isTyping(event) {
    return event.target.closest?.("input:not([type=checkbox]), select, textarea");
}

function focusSearch() {
    document.querySelector("main [data-search]")?.focus();
}

function toggleJob() {
    const overview = store.get("overview");
    if (!overview || !may("operate")) return;
    if (overview.wanted !== "running") resume(overview.job);
    else if (!isOver(overview)) pause(overview.job);
}

export function showKeys() {
    const rows = [
        ...Object.entries(KEYS).map(([key, [says]]) => [[key], says]),
        ...Object.entries(PAGE_KEYS).map(([key, [, says]]) => [["g", key], says]),
        [["←", "→"], "Move the cursor of a chart"],
        [["Esc"], "Close a dialog or a tip"],
    ];
    const list = rows.map(([keys, says]) => [
        h(
            "dt",
            {},
            keys.flatMap((key, at) => [at ? " " : null, h("kbd", {}, key)]),
        ),
        h("dd", {}, says),
    ]);
    const box = h("input", { type: "checkbox", id: "keys-on" });
    box.checked = !localStorage.getItem(OFF);
    box.addEventListener("change", () => (box.checked ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, "1")));
    return showDialog(
        "Keyboard shortcuts",
        h("dl", { class: "keys" }, list),
        h("label", { class: "check", for: "keys-on" }, box, "Single-key shortcuts"),
    );
}
