/** The crawl's progress: one bar, split by the state of its URLs. */

import { h, set, View } from "../dom.js";
import { count, timeLeft } from "../format.js";

/** Every state of a URL, so that the bar is the whole crawl. The last ones are shown only if there are any. */
const PARTS = [
    ["done", "done", ({ done }) => done],
    ["leased", "being fetched", ({ leased }) => leased],
    ["delayed", "to be retried", ({ delayed }) => delayed],
    ["dead", "dead", ({ dead }) => dead],
    ["pending", "pending", ({ pending, shelved }) => Math.max(0, pending - (shelved ?? 0))],
    ["shelved", "over their host's budget", ({ shelved }) => shelved ?? 0],
    ["trapped", "held as a trap", ({ trapped }) => trapped ?? 0],
    ["unhandled", "held: no worker has the handler", ({ unhandled }) => unhandled ?? 0],
    ["excluded", "excluded", ({ excluded }) => excluded ?? 0],
];
const ALWAYS = 5;

/** The bar alone, of one moment. */
export function progressBar(overview) {
    const parts = PARTS.filter(([, , read]) => read(overview));
    const says = parts.map(([, label, read]) => `${count(read(overview))} ${label}`).join(", ");
    return h(
        "div",
        { class: "progress", title: says, role: "img", "aria-label": says || "empty" },
        parts.map(([name, , read]) => h("span", { class: name, "--share": share(read(overview), overview) })),
    );
}

/** `isShort`: skip zeros. @returns {{element: HTMLElement, show: (overview: object) => void}} */
export function progress({ isShort = false } = {}) {
    const view = new View();
    const bars = PARTS.map(([name, , read]) => {
        const bar = h("span", { class: name });
        view.bind((overview) => {
            set(bar, "--share", share(read(overview), overview));
            bar.hidden = !read(overview);
        });
        return bar;
    });
    const key = ([name, label, read], at) => {
        const element = h(
            "span",
            { class: `key ${name}` },
            h(
                "b",
                { "data-field": name },
                view.text((one) => count(read(one))),
            ),
            ` ${label}`,
        );
        if (isShort || at >= ALWAYS) view.bind((overview) => (element.hidden = !read(overview)));
        return element;
    };
    const element = h(
        "div",
        {},
        h(
            "div",
            { class: "how-far" },
            h("div", { class: "progress", "aria-hidden": "true" }, bars),
            h("span", {}, view.text(left)),
        ),
        h("div", { class: "legend" }, PARTS.map(key)),
    );
    return { element, show: (overview) => view.show(overview) };
}

function left(overview) {
    return overview.finished ? "" : timeLeft(overview);
}

function share(part, overview) {
    const whole = PARTS.reduce((sum, [, , read]) => sum + (read(overview) ?? 0), 0);
    return whole ? (part / whole).toFixed(4) : 0;
}
