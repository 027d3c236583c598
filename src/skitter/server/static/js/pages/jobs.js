/** All jobs on the server, those that need somebody first. */

import { clamped, h, setText } from "../dom.js";
import { compact, count, duration, NONE, rate, some } from "../format.js";
import { Page, searchField } from "../page.js";
import { progressBar } from "../parts/progress.js";
import { jobPill } from "../parts/pill.js";
import { ReadyNote } from "../parts/ready.js";
import { counted, DataTable } from "../parts/table.js";
import { go, linkTo, remember } from "../router.js";
import { store, UNREAD } from "../store.js";

const FIRST = 50;

export class JobsPage extends Page {
    #search = searchField("Search jobs", "Search by name or state");
    #limit = FIRST;
    #jobs = [];
    #table = new DataTable({
        label: "Jobs",
        keyOf: (row) => row.job,
        columns: [
            { label: "Job", kind: "name", value: (row) => row.job, show: ({ job }) => jobLink(job) },
            { label: "State", kind: "reason", value: stateOf, show: (_, get) => reason(get) },
            { label: "Progress", kind: "optional", value: shareKey, show: (row) => progressBar(row) },
            { ...counted("Done", "done"), show: ({ done }) => short(done) },
            { ...counted("Left", "remaining"), show: ({ remaining }) => short(remaining) },
            { ...counted("Dead", "dead"), show: ({ dead }) => short(dead, dead ? "error" : null) },
            { ...counted("Stored", "stored"), show: ({ stored }) => short(stored) },
            {
                label: "Pages/s",
                kind: "number",
                value: (row) => row.pages_per_s ?? 0,
                show: ({ pages_per_s: pages, finished }) => (finished ? NONE : rate(pages ?? 0)),
            },
            {
                label: "Time left",
                kind: "number",
                value: (row) => row.eta_s,
                show: ({ eta_s: eta }) => (eta === null || eta === undefined ? NONE : duration(eta)),
            },
        ],
    });
    #foot = h("p", { class: "table-foot" }, h("span", { role: "status" }), h("button", {}, "Show all"));
    #none = new ReadyNote(null, () => go(null, "runs"));
    #bar = h("div", { class: "tools" }, this.#search);

    build() {
        this.#search.value = this.place.query.search ?? "";
        this.#search.addEventListener("input", () => {
            remember({ search: this.#search.value });
            this.#draw();
        });
        this.#foot.lastChild.addEventListener("click", () => {
            this.#limit = Infinity;
            this.#draw();
        });
        return h("div", { class: "stack" }, this.#bar, this.#none, this.#table.element, this.#foot);
    }

    start() {
        this.follow("jobs", (jobs) => {
            this.#jobs = [...jobs].sort(worstFirst);
            this.#draw();
        });
    }

    #draw() {
        const wanted = this.#search.value.trim().toLowerCase();
        const found = this.#jobs.filter((job) => `${job.job} ${stateOf(job)}`.toLowerCase().includes(wanted));
        const shown = found.slice(0, this.#limit);
        this.#table.show(shown);
        this.#none.hidden = this.#jobs.length > 0 || store.get("jobs") === UNREAD;
        this.#bar.hidden = this.#table.element.hidden = !this.#jobs.length;
        this.#foot.hidden = shown.length === this.#jobs.length;
        this.#foot.lastChild.hidden = shown.length === found.length;
        setText(this.#foot.firstChild, `${count(shown.length)} of ${some(found.length, "job")}${wanted ? " that match" : ""}`);
    }
}

const ORDER = ["running", "draining", "paused", "cancelled", "finished"];
const WORST = ["server full", "no workers", "output away", "stuck", "no handler", "machine lost"];

/** Jobs in trouble, the worst kind first; then by what they do. */
function worstFirst(a, b) {
    return rank(a) - rank(b) || a.job.localeCompare(b.job, undefined, { numeric: true });
}

function rank({ troubles, state }) {
    return troubles?.length ? WORST.indexOf(troubles[0].kind) : WORST.length + ORDER.indexOf(state);
}

function stateOf({ state, troubles }) {
    return [state, ...(troubles ?? []).map(({ kind, says }) => `${kind} ${says}`)].join(" ");
}

function jobLink(job) {
    return h("a", { href: linkTo(job), class: "job-link", dir: "auto" }, clamped(job));
}

/** The state, and if somebody is needed, why, and the command that helps. */
function reason(get) {
    const { troubles } = get();
    const pill = jobPill(get());
    if (!troubles?.length) return pill;
    const [{ says, command }] = troubles;
    const more = troubles.length > 1 ? ` (and ${troubles.length - 1} more)` : "";
    const line = h("code", { class: "small line", title: command }, command);
    return h("div", {}, pill, h("p", { class: "small" }, clamped(`${says}${more}`)), line);
}

function short(value, tone = null) {
    return h("span", { title: count(value), class: tone }, compact(value));
}

function shareKey({ done, pending, leased, delayed, dead, trapped, unhandled, excluded, shelved }) {
    return [done, pending, leased, delayed, dead, trapped, unhandled, excluded, shelved].join(" ");
}
