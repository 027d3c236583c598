/** The number of workers: shows what would start and stop, and sends the number when it is confirmed. */

import { scale } from "../actions.js";
import { of, put } from "../api.js";
import { h, setText, View } from "../dom.js";
import { NONE, quoted, some } from "../format.js";
import { may } from "../store.js";
import { withTip } from "../tip.js";
import { complain } from "../toast.js";

const REST_MS = 200;
const MAX = 1000;

/** @returns {{element: HTMLElement, show: (overview: object) => void}} */
export function workerStepper(job) {
    const allowed = may("operate");
    const view = new View();
    let isChanged = false;
    let timer = 0;
    let last = {};
    const input = h("input", {
        id: "workers-wanted",
        type: "number",
        min: 0,
        max: MAX,
        inputmode: "numeric",
        placeholder: NONE,
        disabled: !allowed,
    });
    const each = h("input", { type: "checkbox", disabled: !allowed });
    const says = h("span", { class: "effect", role: "status" });
    const apply = h("button", { class: "primary", onclick: send }, "Apply");
    const undo = h("button", { onclick: reset }, "Undo");
    const question = h("div", { class: "plan", hidden: true }, says, h("span", { class: "together" }, apply, undo));
    const wish = () => ({ workers: Number(input.value || 0), per_machine: each.checked });
    const step = (by) => change(Number(input.value || 0) + by);

    function change(value) {
        input.value = Math.min(MAX, Math.max(0, Math.round(value) || 0));
        isChanged = true;
        question.hidden = false;
        setText(says, "");
        clearTimeout(timer);
        timer = setTimeout(look, REST_MS);
    }

    async function look() {
        try {
            const { workers, says: effect, machines } = await put(of(job, "workers"), { ...wish(), preview: true });
            setText(says, sentenceOf(workers, effect, machines));
        } catch (error) {
            complain(error);
        }
    }

    async function send() {
        const { workers, per_machine: perMachine } = wish();
        if (await scale(job, workers, perMachine)) {
            last = { ...last, wanted_workers: workers, wanted_per_machine: perMachine };
            reset();
        }
    }

    function reset() {
        clearTimeout(timer);
        isChanged = false;
        question.hidden = true;
        fill(last);
    }

    /** Without a number of the operator's, those at work. Not 0, which stands for automatic. */
    function fill({ wanted_workers: wanted, wanted_per_machine: perMachine, workers }) {
        const running = workers?.filter(isFetching).length;
        const value = String(wanted ?? (running || ""));
        if (input.value !== value) input.value = value;
        each.checked = Boolean(perMachine);
    }

    input.addEventListener("input", () => input.value !== "" && change(Number(input.value)));
    input.addEventListener("keydown", (event) => event.key === "Enter" && isChanged && send());
    each.addEventListener("change", () => change(Number(input.value)));
    view.bind((overview) => {
        last = overview;
        if (!isChanged && document.activeElement !== input) fill(overview);
    });
    view.bind((overview) => {
        for (const part of [less, input, more, each]) part.disabled = !allowed || isStartedByHand(overview);
    });
    const now = h("span", { class: "now" }, view.text(sentence));
    const less = h("button", { "aria-label": "One worker fewer", disabled: !allowed, onclick: () => step(-1) }, "−");
    const more = h("button", { "aria-label": "One worker more", disabled: !allowed, onclick: () => step(1) }, "+");
    const control = withTip(h("span", { class: "stepper" }, less, input, more), {
        says: "Workers in all, shared out over the machines. 0: automatic.",
        cli: `skitter scale ${quoted(job)} N`,
    });
    const perMachine = withTip(h("label", { class: "each" }, each, "per machine"), {
        says: "The number is for each machine, also for those that join later.",
        cli: `skitter scale ${quoted(job)} N --per-machine`,
    });
    const label = h("label", { for: "workers-wanted" }, "Workers wanted");
    const element = h("div", { class: "scale" }, label, control, perMachine, question, now);
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
    if (isStartedByHand({ workers })) return `${some(running, "Scrapy node")} running: start and stop them yourself`;
    if (wanted === 0) return `${some(running, "worker")} running, scaled automatically`;
    return `${some(running, "worker")} running`;
}

/** What a number would do. */
function sentenceOf(workers, effect, machines) {
    if (!workers) return "Each machine decides, by its queue and CPU.";
    if (effect) return `${effect}.`;
    return machines.length ? "Nothing starts or stops." : "No machine has joined yet: the number applies to those that do.";
}
