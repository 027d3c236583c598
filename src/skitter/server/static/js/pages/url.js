/** One URL: its state, the reason, and its history. */

import { get, of } from "../api.js";
import { h } from "../dom.js";
import { bytes, count, duration, moment, quoted, some } from "../format.js";
import { icon } from "../icons.js";
import { empty, Page, skeleton, time } from "../page.js";
import { go, linkToStory } from "../router.js";

const TONES = {
    done: "ok",
    dead: "bad",
    leased: "info",
    pending: "info",
    delayed: "warn",
    trapped: "warn",
    unhandled: "warn",
    refused: "warn",
    excluded: "warn",
};

export class UrlPage extends Page {
    build() {
        const input = h("input", {
            id: "url",
            class: "grow",
            inputmode: "url",
            placeholder: "https://…",
            value: this.place.query.url ?? "",
            spellcheck: "false",
            autocomplete: "off",
            "data-search": true,
        });
        const form = h(
            "form",
            { class: "tools", role: "search" },
            h("label", { class: "unseen", for: "url" }, "URL"),
            input,
            h("button", { class: "primary" }, "Look up"),
        );
        form.addEventListener("submit", (event) => {
            event.preventDefault();
            go(this.job, "url", { url: input.value.trim() });
        });
        this.story = h("div", { class: "stack", role: "status" });
        return [form, this.story];
    }

    start() {
        const { url } = this.place.query;
        if (!url) {
            this.story.replaceChildren(
                empty(
                    icon("url"),
                    "Which URL?",
                    "Any URL: fetched, queued, given up, excluded or never seen. The answer says where it is, and why.",
                ),
            );
            return;
        }
        this.story.replaceChildren(skeleton(4));
        this.load(
            5,
            (signal) => get(of(this.job, "url"), { url }, signal),
            (found) => this.#show([found].flat()),
        );
    }

    #show(found) {
        const said = JSON.stringify(found);
        if (said === this.said) return;
        this.said = said;
        const command = h(
            "p",
            { class: "cli" },
            h("code", {}, `skitter why ${quoted(this.job)} ${quoted(this.place.query.url)}`),
        );
        this.story.replaceChildren(...found.map((one) => this.#card(one)), command);
    }

    #card(one) {
        const pill = h("span", { class: "pill", "data-tone": TONES[one.state] ?? null }, one.state);
        const because = (one.because ?? []).map((reason) => h("li", {}, reason));
        return h(
            "section",
            { class: "card stack" },
            h("div", { class: "card-head" }, h("h2", { class: "break" }, one.url || one.canonical), pill),
            because.length ? h("ol", { class: "because" }, because) : null,
            h(
                "dl",
                { class: "rows" },
                this.#rows(one).map(([term, value]) => [h("dt", {}, term), h("dd", {}, value)]),
            ),
        );
    }

    #rows(one) {
        const link = (url) => h("a", { href: linkToStory(this.job, url) }, url);
        const rows = [
            ["Found on", one.found_on ? link(one.found_on) : null],
            ["Depth", one.depth === null || one.depth === undefined ? null : `${some(one.depth, "link")} from a seed`],
            ["Method", one.method && one.method !== "GET" ? one.method : null],
            ["Priority", one.priority || null],
            ["Failed", one.failures ? `${some(one.failures, "time")}; last: ${one.last_error}` : null],
            ["Lost with workers", one.losses || null],
            ...doneRows(one.done, link),
            ["Canonical form", one.canonical === one.url ? null : h("span", { class: "mono" }, one.canonical)],
            ["Host", one.host],
            ["Fingerprint", h("span", { class: "mono" }, one.fingerprint)],
            ["Read robots.txt as", one.robots_name],
        ];
        return rows.filter(([, value]) => value !== null && value !== undefined && value !== "");
    }
}

function doneRows(done, link) {
    if (!done) return [];
    return [
        ["Fetched", time(done.at, `${moment(done.at)} by ${done.worker}`)],
        ["Answer", `${done.status}, ${bytes(done.size_bytes)} in ${duration(done.elapsed_s)}`],
        ["Items", count(done.items)],
        ["Redirects to", done.redirects_to ? link(done.redirects_to) : null],
        ["Usage restrictions", done.usage],
        ["Note", done.note],
    ];
}
