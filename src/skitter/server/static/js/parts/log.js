/** The cluster's log: filtered, following, limited to a few thousand lines. */

import { get, of } from "../api.js";
import { breakable, h, setText } from "../dom.js";
import { clock, exact, some } from "../format.js";
import { linkToStory } from "../router.js";

const LEVEL_NAMES = {
    debug: "Everything",
    info: "Info",
    warning: "Warnings",
    error: "Errors",
};
const LEVELS = Object.keys(LEVEL_NAMES);
const KEPT = 2000;
const SHOWN = 500;

export class ClusterLog extends HTMLElement {
    #job;
    #lines = []; // oldest first
    #ids = new Set();
    #isRead = false;
    #list = h("div", {
        class: "log-lines",
        tabindex: "0",
        role: "log",
        "aria-live": "off",
        "aria-label": "Cluster log",
    });
    #foot = h("span");
    #level = h(
        "select",
        { "aria-label": "Lowest level", title: "This level and above" },
        LEVELS.map((level) => h("option", { value: level }, LEVEL_NAMES[level])),
    );
    #words = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter the log", "data-search": true });
    #follow = h("input", { type: "checkbox", id: "log-follow", checked: true });

    constructor(job) {
        super();
        this.#job = job;
    }

    connectedCallback() {
        this.classList.add("log");
        this.#level.value = "info";
        const follow = h("label", { class: "check", for: "log-follow" }, this.#follow, "Follow");
        this.append(
            h("div", { class: "log-head" }, h("h2", {}, "Cluster log"), this.#level, this.#words),
            this.#list,
            h("div", { class: "log-foot" }, this.#foot, follow),
        );
        this.#level.addEventListener("change", () => this.#draw());
        this.#words.addEventListener("input", () => this.#draw());
        this.#follow.addEventListener("change", () => this.#keepUp());
        this.#list.addEventListener("scroll", () => this.#scrolled(), { passive: true });
        new ResizeObserver(() => this.#keepUp()).observe(this.#list); // a telephone is turned
        this.#draw();
        this.fillGap();
    }

    /** Load the lines that we missed: at the start, and after the server was away. */
    async fillGap() {
        try {
            const after = this.#lines.at(-1)?.id;
            const { rows } = await get(of(this.#job, "logs"), after ? { after, limit: 500 } : { limit: 500 });
            this.#isRead = true;
            this.add(rows);
        } catch {
            // The banner says that the server is away.
        }
    }

    /** @param {{id: string, at: number, level: string, worker: string, text: string, url: string}[]} rows */
    add(rows) {
        const fresh = rows.filter((row) => !this.#ids.has(row.id));
        if (!fresh.length && this.#lines.length) return;
        fresh.forEach((row) => this.#ids.add(row.id));
        this.#lines = [...this.#lines, ...fresh].sort((a, b) => a.at - b.at);
        for (const gone of this.#lines.splice(0, this.#lines.length - KEPT)) this.#ids.delete(gone.id);
        this.#draw();
    }

    #draw() {
        const lowest = LEVELS.indexOf(this.#level.value);
        const words = this.#words.value.trim().toLowerCase();
        const fits = (row) => LEVELS.indexOf(row.level) >= lowest && (!words || says(row).includes(words));
        const found = this.#lines.filter(fits);
        this.#patch(found.slice(-SHOWN));
        setText(
            this.#foot,
            this.#lines.length === found.length
                ? some(found.length, "line")
                : `${found.length} of ${some(this.#lines.length, "line")}`,
        );
        this.#keepUp();
    }

    /** Keep existing lines in place, so that reading and selecting are not interrupted. */
    #patch(rows) {
        const known = new Map([...this.#list.children].map((line) => [line.dataset.id, line]));
        const lines = rows.map((row) => known.get(row.id) ?? this.#line(row));
        const nothing = h(
            "p",
            { class: "empty" },
            this.#lines.length ? "No line matches the filter." : this.#isRead ? "Nothing was logged yet." : "",
        );
        const isSame =
            lines.length === this.#list.childElementCount &&
            lines.every((line, at) => line === this.#list.children[at]);
        if (!isSame || !lines.length) this.#list.replaceChildren(...(lines.length ? lines : [nothing]));
    }

    #line({ id, at, level, worker, text, url }) {
        const from = url ? [worker, " · ", h("a", { href: linkToStory(this.#job, url) }, url)] : worker;
        return h(
            "div",
            { class: "log-line", "data-level": level, "data-id": id },
            h("time", { title: exact(at) }, clock(at)),
            h("div", { class: "text clamp", title: text, onclick: unfold }, h("span", { class: "unseen" }, `${level}: `), breakable(text)),
            h("div", { class: "from clamp", title: url }, from),
        );
    }

    #keepUp() {
        if (this.#follow.checked) this.#list.scrollTop = this.#list.scrollHeight;
    }

    #scrolled() {
        const { scrollTop, scrollHeight, clientHeight } = this.#list;
        this.#follow.checked = scrollHeight - scrollTop - clientHeight < 24;
    }
}

/** All of a long line, or its beginning again; not when some of it was marked. */
function unfold({ currentTarget }) {
    if (getSelection().isCollapsed) currentTarget.classList.toggle("clamp");
}

function says({ text, worker, url }) {
    return `${text} ${worker} ${url}`.toLowerCase();
}

customElements.define("cluster-log", ClusterLog);
