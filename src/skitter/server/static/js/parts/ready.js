/** Before the first crawl: what to do now. It notices an agent that comes. */

import { actionButton } from "../actions.js";
import { get } from "../api.js";
import { h } from "../dom.js";
import { quoted, some } from "../format.js";
import { icon } from "../icons.js";
import { poll } from "../poll.js";
import { askRun } from "./run-form.js";

const EVERY_S = 3;
const NAMED = 6;

export class ReadyNote extends HTMLElement {
    #job;
    #then;
    #leaving = null;
    #shown = "";

    /** `then` is called when a run was started. */
    constructor(job = null, then = () => {}) {
        super();
        this.#job = job;
        this.#then = then;
    }

    connectedCallback() {
        this.classList.add("empty");
        this.#leaving = new AbortController();
        poll({
            load: async (signal) => (this.hidden && this.#shown ? null : get("api/spiders", {}, signal)),
            show: (offers) => offers && this.#show(offers),
            fail: () => {}, // the banner or the page says so
            every: EVERY_S,
            signal: this.#leaving.signal,
        });
    }

    disconnectedCallback() {
        this.#leaving.abort();
    }

    /** Only what is new is drawn: a button keeps its focus. */
    #show({ spiders, agents }) {
        const key = JSON.stringify([agents, spiders.map(({ name, error }) => [name, error])]);
        if (key === this.#shown) return;
        this.#shown = key;
        const broken = spiders.filter(({ error }) => error).map(({ target, error }) => `${target}: ${error}`);
        const names = spiders.filter(({ error }) => !error).map(({ name }) => name);
        this.replaceChildren(
            icon("runs"),
            ...(names.length ? this.#toRun(names, agents) : howToBegin()),
            ...broken.slice(0, 1).map((text) => h("p", { class: "small error clamp", title: text }, text)),
        );
    }

    #toRun(names, agents) {
        const more = names.length > NAMED ? `, and ${names.length - NAMED} more` : "";
        const known = `${some(names.length, "spider")}: ${names.slice(0, NAMED).join(", ")}${more}.`;
        const run = actionButton({
            label: "Run …",
            drawing: "resume",
            kind: "primary",
            cli: `skitter start ${this.#job ? quoted(this.#job) : "SPIDER"}`,
            run: async () => (await askRun(this.#job)) && this.#then(),
        });
        const gone = " No agent is running: a run waits for one.";
        return [
            h("strong", {}, "Ready: choose a spider and press Run"),
            h("p", { dir: "auto" }, known, agents.length ? "" : gone),
            run,
        ];
    }
}

function howToBegin() {
    return [
        h("strong", {}, "Nothing runs yet: start an agent"),
        h("p", {}, "In the folder of your spiders; this page then offers them:"),
        h("code", {}, "skitter agent --spiders 'spiders/*.py'"),
        h("p", {}, "Or, without an agent: ", h("code", {}, "skitter run SPIDER.py"), " or ", h("code", {}, "skitter crawl URL")),
    ];
}

customElements.define("ready-note", ReadyNote);

/** The note on a card, while a job has neither URLs nor workers. */
export function readyCard(view, job) {
    const note = new ReadyNote(job);
    const element = h("section", { class: "card", "aria-label": "Ready", hidden: true }, note);
    view.bind(({ workers = [], seen }) => (element.hidden = note.hidden = workers.length > 0 || seen > 0));
    return element;
}
