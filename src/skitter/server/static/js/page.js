/** What all pages have in common: they are elements, and what they started ends when they leave. */

import { Unreachable } from "./api.js";
import { h } from "./dom.js";
import { exact, moment } from "./format.js";
import { poll } from "./poll.js";
import { store } from "./store.js";

export class Page extends HTMLElement {
    #leaving = new AbortController();

    /** @param {import("./router.js").Place} place */
    constructor(place) {
        super();
        this.place = place;
        this.job = place.job;
    }

    get signal() {
        return this.#leaving.signal;
    }

    connectedCallback() {
        this.append(...[this.build()].flat());
        this.start?.();
    }

    disconnectedCallback() {
        this.#leaving.abort();
    }

    /** Tell something that the store knows, now and whenever it changes. */
    follow(name, tell) {
        store.follow(name, tell, { signal: this.signal });
    }

    /** Tell the overview of the job, once there is one. */
    watch(tell) {
        this.follow("overview", (overview) => overview && tell(overview));
    }

    /** Load something now and every few seconds; what goes wrong is shown above it. `covers` is an element that says
     * nothing true before there is something to show. */
    load(every, load, show, { covers = null } = {}) {
        const trouble = this.insertBefore(h("div", { role: "alert" }), this.firstChild);
        const waiting = skeleton(5);
        if (covers) {
            covers.hidden = true;
            covers.before(waiting);
        }
        const again = poll({
            load,
            every,
            signal: this.signal,
            show: (value) => {
                trouble.replaceChildren();
                waiting.remove();
                if (covers) covers.hidden = false;
                show(value);
            },
            fail: (error) => {
                if (isAway(error)) return; // the banner says so
                waiting.remove();
                const retry = h("button", { class: "slim", onclick: () => again() }, "Try again");
                trouble.replaceChildren(h("p", { class: "notice", "data-tone": "bad" }, error.message, retry));
            },
        });
        return again;
    }
}

function isAway(error) {
    return error instanceof Unreachable || error.status === 503;
}

/** Nothing to show, said with a reason and a way on. */
export function empty(drawing, title, ...says) {
    return h("div", { class: "empty" }, drawing, h("strong", {}, title), says.length ? h("p", {}, ...says) : null);
}

/** What is on its way. */
export function skeleton(lines = 3) {
    const line = () => h("span", { class: "skeleton" });
    return h(
        "div",
        { class: "stack", "aria-busy": "true" },
        h("span", { class: "unseen" }, "Loading"),
        Array.from({ length: lines }, line),
    );
}

/** A moment in words; the tip has it exactly. */
export function time(at, text = moment(at)) {
    return h("time", { title: exact(at) }, text);
}

/** Where to type what to look for; `/` puts the cursor into the first of a page. */
export function searchField(label, placeholder = label) {
    return h("input", { type: "search", class: "grow", placeholder, "aria-label": label, "data-search": true });
}

/** A term with its value, for lists of facts. */
export function fact(term, value, { wide = false } = {}) {
    return h(
        "div",
        { class: wide ? "wide" : null },
        h("dt", {}, term),
        h("dd", { class: wide ? "long" : null }, value),
    );
}
