/** All options of the job, which a running crawl obeys; previews a change before making it. */

import { attempt } from "../actions.js";
import { get, of, patch, post } from "../api.js";
import { ask } from "../dialog.js";
import { h, set, setText } from "../dom.js";
import { count, quoted, some } from "../format.js";
import { Page, searchField, skeleton } from "../page.js";
import { may } from "../store.js";
import { withTip } from "../tip.js";
import { complain } from "../toast.js";

/** @typedef {{name: string, table: string, value: any, default: any, by: string, help: string, takes: string,
 *  kind: "number" | "text" | "switch" | "choice", choices: string[]}} Option */

const WHO = { operator: "an operator", configuration: "the configuration" };

export class SettingsPage extends Page {
    #fields = new Map(); // name -> { option, input }
    #list = h("div", { class: "stack" }, skeleton(8));
    #search = searchField("Filter settings", "Filter by name or meaning");
    #count = h("span", { class: "small muted", role: "status" });
    #apply = h("button", { class: "primary", disabled: true, onclick: () => this.#change() }, "Preview and apply …");

    build() {
        this.#search.addEventListener("input", () => this.#filter());
        withTip(this.#apply, { says: "Workers obey at once.", cli: `skitter set ${quoted(this.job)} --delay 2` });
        return [h("div", { class: "tools" }, this.#search, this.#count, this.#apply), this.#list];
    }

    start() {
        this.again = this.load(
            0,
            (signal) => get(of(this.job, "settings"), {}, signal),
            ({ rows }) => this.#show(rows),
        );
    }

    /** @param {Option[]} options */
    #show(options) {
        this.#fields.clear();
        const groups = Map.groupBy(options, ({ table }) => table);
        const cards = [...groups].map(([group, members]) =>
            h(
                "section",
                { class: "card", "data-group": group },
                h("h2", {}, titled(group)),
                h(
                    "div",
                    { class: "settings" },
                    members.map((one) => this.#row(one)),
                ),
            ),
        );
        this.#list.replaceChildren(...cards);
        this.#mark();
        this.#filter();
    }

    #row(option) {
        const id = `set-${option.name}`;
        const input = inputFor(option, id);
        input.disabled = !may("operate");
        input.addEventListener("input", () => this.#mark());
        this.#fields.set(option.name, { option, input });
        const label = h("label", { for: id }, h("code", {}, option.name));
        const origin =
            option.by === "default" ? null : `set by ${WHO[option.by]}; default: ${shown(option.default)}`;
        return h(
            "div",
            { class: "setting", "data-kind": option.kind, "data-words": `${option.table} ${option.name} ${option.help}`.toLowerCase() },
            h("div", {}, label, h("p", { class: "small muted" }, withCode(option.help))),
            h("div", { class: "setting-value" }, input, origin && h("span", { class: "small faint" }, origin)),
        );
    }

    get #changes() {
        const changed = [...this.#fields.values()].filter(
            ({ option, input }) => !same(valueOf(input, option), option.value),
        );
        return Object.fromEntries(changed.map(({ option, input }) => [option.name, valueOf(input, option)]));
    }

    #mark() {
        const changes = this.#changes;
        const number = Object.keys(changes).length;
        for (const [name, { input }] of this.#fields) set(input, "data-changed", name in changes);
        this.#apply.disabled = !number;
        setText(this.#count, number ? some(number, "change") : "");
    }

    #filter() {
        const words = this.#search.value.toLowerCase();
        for (const row of this.#list.querySelectorAll(".setting")) row.hidden = !row.dataset.words.includes(words);
        for (const card of this.#list.querySelectorAll("[data-group]"))
            card.hidden = !card.querySelector(".setting:not([hidden])");
    }

    async #change() {
        const changes = this.#changes;
        let preview;
        try {
            preview = (await post(of(this.job, "settings", "preview"), changes)).rows;
        } catch (error) {
            return complain(error);
        }
        const lines = Object.entries(changes).map(([name, value]) =>
            h("li", {}, h("code", {}, name), `: ${shown(this.#fields.get(name).option.value)} → ${shown(value)}`),
        );
        const sure = await ask({
            title: `Change ${this.job}?`,
            says: [h("ul", { class: "changes" }, lines), ...effects(preview)],
            yes: "Apply",
            cli: commandOf(this.job, changes),
        });
        if (!sure) return null;
        await attempt(
            () => patch(of(this.job, "settings"), changes),
            `${this.job}: ${some(lines.length, "setting")} changed; workers obey at once.`,
        );
        return this.again();
    }
}

/** Help text with its `code` marked up. */
function withCode(text) {
    return text.split("`").map((part, at) => (at % 2 ? h("code", {}, part) : part));
}

/** What the change would do to the queue. */
function effects(preview) {
    const felt = preview.filter(({ urls }) => urls);
    if (!felt.length) return ["No known URL is affected."];
    return felt.map(({ option, urls, says, exact }) =>
        h("p", { class: "notice" }, h("code", {}, option), `: ${exact ? "" : "at least "}${count(urls)} ${says}.`),
    );
}

/** Flags that are not named after their option. */
const FLAGS = { delay_s: "--delay", max_in_flight: "--in-flight", base_s: "--retry-base", cap_s: "--retry-cap" };

function commandOf(job, changes) {
    const words = Object.entries(changes).map(([name, value]) => {
        const flag = FLAGS[name] ?? `--${name.replace(/_s$/, "").replaceAll("_", "-")}`;
        if (typeof value === "boolean") return value ? flag : flag.replace("--", "--no-");
        return `${flag} ${value === null ? "none" : quoted(value)}`;
    });
    return `skitter set ${quoted(job)} ${words.join(" ")}`;
}

function inputFor({ value, takes, kind, choices }, id) {
    const names = kind === "switch" ? ["true", "false"] : choices;
    if (names.length)
        return h(
            "select",
            { id },
            names.map((one) => h("option", { value: one, selected: one === String(value) }, one)),
        );
    return h("input", {
        id,
        type: kind === "text" ? "text" : "number",
        step: "any",
        value: value ?? "",
        title: takes,
        placeholder: kind === "text" ? "none" : "no limit",
    });
}

/** A field's value, converted to the option's type. */
function valueOf(input, { kind }) {
    if (kind === "switch") return input.value === "true";
    const text = input.value.trim();
    if (!text) return null;
    return kind === "number" ? Number(text) : text;
}

function same(a, b) {
    return JSON.stringify(a ?? null) === JSON.stringify(b ?? null);
}

function shown(value) {
    return value === null || value === undefined ? "none" : String(value);
}

function titled(group) {
    return group.charAt(0).toUpperCase() + group.slice(1).replaceAll("_", " ");
}
