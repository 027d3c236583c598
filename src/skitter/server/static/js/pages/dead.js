/** Dead letters: what was given up and why; retry or drop the matches. */

import { actionButton, attempt } from "../actions.js";
import { get, of, post } from "../api.js";
import { ask, showDialog } from "../dialog.js";
import { clamped, h, setText } from "../dom.js";
import { count, quoted, some } from "../format.js";
import { icon } from "../icons.js";
import { empty, Page, searchField, time } from "../page.js";
import { failedTable } from "../parts/failed.js";
import { counted, DataTable } from "../parts/table.js";
import { linkToStory, remember } from "../router.js";
import { complain } from "../toast.js";

const EVERY_S = 10;
const PAGE = 200;
const REST_MS = 300;

export class DeadPage extends Page {
    #url = searchField("Filter by URL", "URL contains, or a pattern with * and ?");
    #reason = searchField("Filter by reason", "Reason contains");
    #more = []; // the pages after the first
    #next = null;
    #foot = h("div", { class: "table-foot" }, h("span", { role: "status" }), h("button", { class: "slim" }, "Show more"));
    #none = empty(
        icon("dead"),
        "No dead letters",
        "Nothing was given up. URLs that fail permanently are listed here, with the reason.",
    );
    #noMatch = empty(icon("url"), "No dead letter matches");

    build() {
        this.#url.value = this.place.query.url ?? "";
        this.#reason.value = this.place.query.reason ?? "";
        this.groups = this.#groupTable();
        this.letters = this.#letterTable();
        this.failed = failedTable(this.job);
        this.failedCard = h("section", {}, h("h2", {}, "Pages that failed"), this.failed.element);
        this.#foot.lastChild.addEventListener("click", () => this.#showMore());
        for (const input of [this.#url, this.#reason]) input.addEventListener("input", () => this.#filterSoon());
        const retry = actionButton({
            label: "Retry matching …",
            says: "Make them pending again.",
            cli: `skitter dead retry ${quoted(this.job)} --match … --reason …`,
            run: () => this.#apply("retry"),
        });
        const drop = actionButton({
            label: "Drop matching …",
            kind: "danger",
            says: "Remove them permanently.",
            cli: `skitter dead drop ${quoted(this.job)} --match … --reason …`,
            run: () => this.#apply("drop"),
        });
        this.tools = h("div", { class: "tools" }, this.#url, this.#reason, retry, drop);
        this.groupCard = h("section", {}, h("h2", { class: "unseen" }, "By reason"), this.groups.element);
        return h(
            "div",
            { class: "stack" },
            this.groupCard,
            h(
                "section",
                {},
                h("h2", { class: "unseen" }, "Dead letters"),
                this.tools,
                this.letters.element,
                this.#foot,
                this.#noMatch,
            ),
            this.#none,
            this.failedCard,
        );
    }

    start() {
        const load = (signal) =>
            Promise.all([
                get(of(this.job, "dead", "groups"), {}, signal),
                get(of(this.job, "dead"), { ...this.#filter, limit: PAGE }, signal),
                get(of(this.job, "failed"), {}, signal),
            ]);
        const show = ([groups, letters, failed]) => {
            this.#show(groups.rows, letters);
            this.failed.show(failed.rows);
            this.failedCard.hidden = !failed.rows.length;
        };
        this.again = this.load(EVERY_S, load, show, { covers: this.firstElementChild });
    }

    get #filter() {
        return Object.fromEntries(
            [
                ["url", this.#url.value.trim()],
                ["reason", this.#reason.value.trim()],
            ].filter(([, value]) => value),
        );
    }

    #filterSoon() {
        clearTimeout(this.timer);
        this.timer = setTimeout(() => {
            this.#more = [];
            remember(this.#filter);
            this.again();
        }, REST_MS);
    }

    #show(groups, { rows, next }) {
        this.groups.show(groups);
        this.letters.show(rows);
        this.#none.hidden = groups.length > 0;
        for (const part of [this.groupCard, this.tools, this.#foot]) part.hidden = !groups.length;
        this.letters.element.hidden = !rows.length;
        this.#noMatch.hidden = rows.length > 0 || !groups.length;
        const last = this.#more.at(-1);
        this.#next = last ? last.next : next;
        const all = [...rows, ...this.#more.flatMap((page) => page.rows)];
        this.letters.show(all);
        setText(this.#foot.firstChild, this.#next ? `The first ${count(all.length)}, oldest first` : some(all.length, "dead letter"));
        this.#foot.lastChild.hidden = !this.#next;
    }

    /** The next page. A page in which nothing matches is not the end. */
    async #showMore() {
        const query = { ...this.#filter, limit: PAGE, after: this.#next };
        try {
            this.#more.push(await get(of(this.job, "dead"), query));
            this.again();
        } catch (error) {
            complain(error);
        }
    }

    #groupTable() {
        return new DataTable({
            label: "Dead letters by reason",
            keyOf: (row) => row.reason,
            sort: { column: "Count", isDown: true },
            columns: [
                counted("Count", "count"),
                { label: "Reason", kind: "wide", value: (row) => row.reason + row.example, show: groupReason },
                { label: "First", value: (row) => row.first_at, show: ({ first_at: at }) => time(at) },
                { label: "Last", value: (row) => row.last_at, show: ({ last_at: at }) => time(at) },
                { label: "", kind: "actions", value: () => 0, show: (_, row) => this.#groupButtons(row) },
            ],
        });
    }

    #groupButtons(row) {
        const only = h("button", { class: "slim", onclick: () => this.#choose(row().reason) }, "Show");
        const href = linkToStory(this.job, row().sample_url);
        const sample = h("a", { class: "button slim", href, hidden: !href }, "Sample");
        const retry = actionButton({
            label: "Retry …",
            kind: "slim",
            cli: `skitter dead retry ${quoted(this.job)} --reason ${quoted(row().reason)}`,
            run: () => this.#apply("retry", { reason: row().reason }),
        });
        return fragment(only, " ", sample, " ", retry);
    }

    #choose(reason) {
        this.#reason.value = reason;
        this.#url.value = "";
        this.#filterSoon();
    }

    #letterTable() {
        return new DataTable({
            label: "Dead letters",
            keyOf: (row) => row.fingerprint,
            sort: { column: "Given up", isDown: true },
            columns: [
                {
                    label: "URL",
                    kind: "name",
                    value: (row) => row.url,
                    show: ({ url, fingerprint }) =>
                        h("a", { href: linkToStory(this.job, url, fingerprint) }, clamped(url || "(a message)")),
                },
                { label: "Reason", kind: "wide", value: (row) => row.reason, show: ({ reason }) => clamped(reason) },
                { label: "Tries", kind: "number", value: (row) => row.failures + row.losses },
                { label: "Given up", value: (row) => row.at, show: ({ at }) => time(at) },
                { label: "", kind: "actions", value: () => 0, show: (_, row) => this.#letterButtons(row) },
            ],
        });
    }

    #letterButtons(row) {
        const show = h("button", { class: "slim", onclick: () => this.#open(row()) }, "Show");
        const one = (verb) => ({
            cli: `skitter dead ${verb} ${quoted(this.job)} ${row().fingerprint}`,
            run: () => this.#applyTo(verb, row()),
        });
        return fragment(
            show,
            " ",
            actionButton({ label: "Retry", kind: "slim", ...one("retry") }),
            " ",
            actionButton({ label: "Drop", kind: "slim danger", ...one("drop") }),
        );
    }

    async #open({ fingerprint }) {
        try {
            const letter = await get(of(this.job, "dead", fingerprint));
            await showDialog(
                "Dead letter",
                h("pre", { class: "json", tabindex: "0" }, JSON.stringify(letter, null, 2)),
            );
        } catch (error) {
            await attempt(() => Promise.reject(error));
        }
    }

    async #applyTo(verb, { fingerprint, url }) {
        const drops = verb === "drop";
        if (
            drops &&
            !(await ask({
                title: "Drop this dead letter?",
                says: [h("p", { class: "break" }, url), "It is not fetched again, unless it is also forgotten."],
                yes: "Drop",
                cli: `skitter dead drop ${quoted(this.job)} ${fingerprint}`,
                isDangerous: true,
            }))
        )
            return;
        await attempt(
            () => post(of(this.job, "dead", verb), { fingerprints: [fingerprint] }),
            `${url}: ${drops ? "dropped" : "pending again"}.`,
        );
        this.again();
    }

    /** Count, ask for confirmation, then act. */
    async #apply(verb, filter = this.#filter) {
        const chosen = { ...filter, all: !Object.keys(filter).length };
        const preview = await attempt(
            () => post(of(this.job, "dead", verb), { ...chosen, preview: true }),
            ({ matched }) => `${some(matched, "dead letter matches", "dead letters match")}.`,
        );
        if (!preview?.matched) return;
        const letters = some(preview.matched, "dead letter");
        const flags =
            [filter.url && ` --match ${quoted(filter.url)}`, filter.reason && ` --reason ${quoted(filter.reason)}`]
                .filter(Boolean)
                .join("") || " --all";
        const sure = await ask({
            title: verb === "drop" ? `Drop ${letters}?` : `Retry ${letters}?`,
            says: [
                verb === "drop"
                    ? "They are removed permanently and not fetched again."
                    : "They become pending again, with a clean record.",
            ],
            yes: verb === "drop" ? "Drop" : "Retry",
            cli: `skitter dead ${verb} ${quoted(this.job)}${flags}`,
            isDangerous: verb === "drop",
        });
        if (!sure) return;
        await attempt(
            () => post(of(this.job, "dead", verb), chosen),
            ({ changed }) => `${some(changed, "dead letter")} ${verb === "drop" ? "dropped" : "pending again"}.`,
        );
        this.again();
    }
}

/** What they have in common; then one of them in full, if it says more. */
function groupReason({ reason, example }) {
    const more = example ? h("p", { class: "small muted" }, clamped(`for example: ${example}`)) : null;
    return h("div", {}, clamped(reason), more);
}

function fragment(...nodes) {
    const all = document.createDocumentFragment();
    all.append(...nodes);
    return all;
}
