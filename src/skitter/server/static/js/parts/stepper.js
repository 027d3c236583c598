/** The "max workers" control: sends the number once it stops changing. */

import { scale } from "../actions.js";
import { h, View } from "../dom.js";
import { NONE, quoted, some } from "../format.js";
import { may } from "../store.js";
import { withTip } from "../tip.js";

const REST_MS = 500;
const MAX = 1000;

/** @returns {{element: HTMLElement, show: (overview: object) => void}} */
export function workerStepper(job) {
    const allowed = may("operate");
    const view = new View();
    let timer = 0;
    const input = h("input", {
        id: "max-workers",
        type: "number",
        min: 0,
        max: MAX,
        inputmode: "numeric",
        placeholder: NONE,
        disabled: !allowed,
    });
    const step = (by) => change(Number(input.value || 0) + by);

    function change(value) {
        input.value = Math.min(MAX, Math.max(0, Math.round(value) || 0));
        clearTimeout(timer);
        timer = setTimeout(send, REST_MS);
    }

    async function send() {
        timer = 0;
        await scale(job, Number(input.value));
    }

    input.addEventListener("input", () => input.value !== "" && change(Number(input.value)));
    view.bind(({ wanted_workers: wanted, workers }) => {
        if (timer || document.activeElement === input) return;
        const running = workers?.filter(isFetching).length;
        const value = String(wanted ?? (running || "")); // not 0, which stands for automatic
        if (input.value !== value) input.value = value;
    });
    view.bind((overview) => {
        for (const part of [less, input, more]) part.disabled = !allowed || isStartedByHand(overview);
    });
    const now = h("span", { class: "now" }, view.text(sentence));
    const less = h("button", { "aria-label": "One worker fewer", disabled: !allowed, onclick: () => step(-1) }, "−");
    const more = h("button", { "aria-label": "One worker more", disabled: !allowed, onclick: () => step(1) }, "+");
    const control = withTip(h("span", { class: "stepper" }, less, input, more), {
        says: "Workers per machine. 0: automatic.",
        cli: `skitter scale ${quoted(job)} N`,
    });
    const element = h("div", { class: "scale" }, h("label", { for: "max-workers" }, "Max workers"), control, now);
    return { element, show: (overview) => view.show(overview) };
}

export function isFetching(worker) {
    return worker.kind !== "loader";
}

/** Scrapy's nodes do not follow the number. */
function isStartedByHand({ workers }) {
    const fetching = (workers ?? []).filter(isFetching);
    return fetching.length > 0 && fetching.every(({ kind }) => kind === "scrapy");
}

function sentence({ workers, wanted_workers: wanted }) {
    const running = workers?.filter(isFetching).length ?? 0;
    if (isStartedByHand({ workers })) return `${some(running, "Scrapy node")} at work: start and stop them yourself`;
    if (wanted === 0) return `${some(running, "worker")} at work, scaled automatically`;
    return `${some(running, "worker")} at work`;
}
