/** The base of all pages: an element whose polls and listeners end when it leaves. */

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

    /** Call `tell` with a value of the store, now and whenever it changes. */
    follow(name, tell) {
        store.follow(name, tell, { signal: this.signal });
    }

    /** Call `tell` with the job's overview, once there is one. */
    watch(tell) {
        this.follow("overview", (overview) => overview && tell(overview));
    }

    /** Load something now and every few seconds; errors are shown above it. The element `covers` stays hidden until
     * the first answer. */
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
    const isGone = error.status === 404 && store.get("link") === "gone";
    return isGone || error instanceof Unreachable || error.status === 503;
}

/** An empty state: why there is nothing to show, and what to do next. */
export function empty(drawing, title, ...says) {
    return h("div", { class: "empty" }, drawing, h("strong", {}, title), says.length ? h("p", {}, ...says) : null);
}

/** A placeholder while something loads. */
export function skeleton(lines = 3) {
    const line = () => h("span", { class: "skeleton" });
    return h(
        "div",
        { class: "stack", "aria-busy": "true" },
        h("span", { class: "unseen" }, "Loading"),
        Array.from({ length: lines }, line),
    );
}

/** A time in words; its tooltip is exact. */
export function time(at, text = moment(at)) {
    return h("time", { title: exact(at) }, text);
}

/** A search field; `/` focuses the first one of a page. */
export function searchField(label, placeholder = label) {
    return h("input", { type: "search", class: "grow", placeholder, "aria-label": label, "data-search": true });
}

/** A term and its value, for lists of facts. */
export function fact(term, value, { wide = false } = {}) {
    return h(
        "div",
        { class: wide ? "wide" : null },
        h("dt", {}, term),
        h("dd", { class: wide ? "long" : null }, value),
    );
}
