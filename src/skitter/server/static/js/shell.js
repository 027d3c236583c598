/** The frame around the pages: the user, the job, the navigation, and whether the figures are live. */

import { jobActions } from "./actions.js";
import { post } from "./api.js";
import { h, set, setText } from "./dom.js";
import { compact, moment } from "./format.js";
import { icon, mark } from "./icons.js";
import { PAGE_KEYS, showKeys } from "./keys.js";
import { showState, showTrouble, statePill } from "./parts/pill.js";
import { go, linkTo } from "./router.js";
import { store } from "./store.js";
import { nextTheme, theme } from "./theme.js";
import { withTip } from "./tip.js";
import { complain } from "./toast.js";

const GROUPS = [
    ["Watch", ["overview", "pipeline", "charts", "log"]],
    ["Inspect", ["hosts", "workers", "dead", "items", "url"]],
    ["Steer", ["runs", "settings", "schedule", "routes"]],
];
const NAMES = Object.fromEntries(Object.values(PAGE_KEYS));
const LINKS = {
    connecting: "Connecting …",
    live: "Live",
    lost: "The server does not answer",
    away: "Redis does not answer",
    gone: "There is no such job",
};
const WHY = {
    lost: "The server does not answer.",
    away: "The server runs, but Redis does not answer.",
    gone: "There is no such job: it was purged, or has not started yet.",
};

export class Shell {
    #pages = h("nav", { class: "pages", "aria-label": "Pages" });
    #switcher = h("select", { id: "job-switcher" });
    #link = h("div", { class: "link-state", role: "status" }, h("span"));
    #banner = h("div", { class: "banner", role: "alert", hidden: true });
    #head = h("header", { class: "head" });
    #content = h("div", { id: "content" });
    #job = null;
    #title = "Skitter";

    constructor({ signal }) {
        this.element = this.#build();
        new ResizeObserver(() => this.#centrePage()).observe(this.#pages); // runs at the first layout, too
        store.follow("jobs", () => this.#showJobs(), { signal });
        store.follow("link", (link) => this.#showLink(link), { signal });
        store.follow("overview", (overview) => this.#showOverview(overview), { signal });
        this.#switcher.addEventListener("change", () =>
            this.#switcher.value ? go(this.#switcher.value, "overview") : go(null, "jobs"),
        );
    }

    #build() {
        const toTop = h(
            "a",
            { class: "skip", href: "#content", onclick: (event) => this.#skip(event) },
            "Skip to the content",
        );
        const brand = h(
            "a",
            { class: "brand", href: "#/jobs", "aria-label": "Skitter: all jobs" },
            mark(),
            h("span", {}, "Skitter"),
        );
        const switcher = h(
            "div",
            { class: "switcher" },
            h("label", { class: "unseen", for: "job-switcher" }, "Job"),
            this.#switcher,
        );
        const side = h(
            "header",
            { class: "side" },
            brand,
            switcher,
            this.#pages,
            h("div", { class: "side-foot" }, this.#link, this.#tools()),
        );
        return h(
            "div",
            { class: "shell" },
            toTop,
            side,
            h("main", { class: "main", id: "main", tabindex: "-1" }, this.#banner, this.#head, this.#content),
        );
    }

    #skip(event) {
        event.preventDefault(); // the hash is the current page
        this.element.querySelector("main").focus();
    }

    #tools() {
        const tool = (label, name, run) =>
            withTip(h("button", { class: "quiet icon-only", "aria-label": label, onclick: run }, icon(name)), {
                says: label,
            });
        const themes = tool(`Theme: ${theme()}`, "theme", () => {
            const label = `Theme: ${nextTheme()}`;
            themes.setAttribute("aria-label", label);
            withTip(themes, { says: label });
        });
        return h(
            "div",
            { class: "side-tools" },
            themes,
            tool("Keyboard shortcuts", "keys", showKeys),
            tool("Log out", "leave", logOut),
        );
    }

    /** Show a page. @param {import("./router.js").Place} place @param {HTMLElement} page */
    show(place, page) {
        this.#job = place.job;
        this.#showPages(place);
        this.#showHead(place);
        this.#showJobs();
        this.#content.replaceChildren(page);
        this.#title = [NAMES[place.page] ?? "Jobs", place.job, "Skitter"].filter(Boolean).join(" · ");
        this.#showTitle();
    }

    #showPages({ job, page }) {
        const link = (name) =>
            h(
                "a",
                { href: linkTo(job, name), "aria-current": name === page ? "page" : null },
                icon(name),
                NAMES[name],
                name === "dead" ? h("span", { class: "badge", hidden: true }) : null,
            );
        const groups = job
            ? GROUPS.flatMap(([title, names]) => [h("h2", {}, title), ...names.map(link)])
            : [
                  h(
                      "a",
                      { href: "#/jobs", "aria-current": page === "runs" ? null : "page" },
                      icon("jobs"),
                      "All jobs",
                  ),
                  link("runs"),
              ];
        this.#pages.replaceChildren(...groups);
        this.#centrePage();
        this.#showOverview(store.get("overview"));
    }

    /** On a narrow screen the navigation is a row that scrolls: centre the current page. */
    #centrePage() {
        const current = this.#pages.querySelector("[aria-current]");
        if (!current) return;
        const [row, link] = [this.#pages.getBoundingClientRect(), current.getBoundingClientRect()];
        this.#pages.scrollLeft += link.left + link.width / 2 - row.left - row.width / 2;
    }

    #showHead({ job, page }) {
        const title = h(
            "h1",
            { tabindex: "-1" },
            job ? [job, h("span", { class: "of" }, ` ${NAMES[page] ?? ""}`)] : page === "runs" ? NAMES.runs : "All jobs",
        );
        this.pill = job ? statePill("") : null;
        this.trouble = job ? h("a", { class: "alarm", href: linkTo(job, "overview"), hidden: true }) : null;
        this.actions = job ? jobActions(job) : [];
        this.#head.replaceChildren(
            h("div", { class: "head-title" }, title, this.pill ?? "", this.trouble ?? ""),
            h(
                "div",
                { class: "head-actions" },
                this.actions.map(({ button }) => button),
            ),
        );
        this.#showOverview(store.get("overview"));
    }

    #showJobs() {
        const names = store.get("jobs").map(({ job }) => job);
        if (this.#job && !names.includes(this.#job)) names.push(this.#job);
        if (this.#switcher.dataset.names !== names.join("\n")) {
            this.#switcher.dataset.names = names.join("\n");
            this.#switcher.replaceChildren(
                h("option", { value: "" }, "All jobs"),
                ...names.map((name) => h("option", { value: name }, name)),
            );
        }
        this.#switcher.value = this.#job ?? "";
        this.#showTitle();
    }

    /** The title counts the jobs that need somebody: it is seen in a tab of the background, too. */
    #showTitle() {
        const { job, troubles = [] } = (!document.hidden && store.get("overview")) || {};
        const others = store.get("jobs").filter((one) => one.job !== job && one.troubles?.length);
        const number = others.length + (troubles.length ? 1 : 0);
        document.title = number ? `(${number}!) ${this.#title}` : this.#title;
    }

    #showOverview(overview) {
        this.#showTitle();
        const mine = overview?.job === this.#job ? overview : null;
        if (this.pill) this.pill.hidden = !mine;
        if (this.pill && mine) showState(this.pill, mine.state);
        if (this.trouble) showTrouble(this.trouble, mine?.troubles ?? []);
        for (const { button, fits } of this.actions ?? []) button.hidden = !mine || !fits(mine);
        const badge = this.#pages.querySelector(".badge");
        if (!badge) return;
        const isWider = badge.hidden && mine?.dead;
        badge.hidden = !mine?.dead;
        set(badge, "data-tone", mine?.dead ? "bad" : null);
        setText(badge, compact(mine?.dead ?? 0));
        if (isWider) this.#centrePage();
    }

    #showLink(link) {
        this.#link.dataset.link = link;
        setText(this.#link.firstChild, LINKS[link]);
        const why = WHY[link];
        for (const part of [this.#head, this.#content]) part.classList.toggle("is-stale", Boolean(why));
        this.#content.hidden = link === "gone" && store.get("overview")?.job !== this.#job;
        this.#banner.hidden = !why;
        if (!why) return;
        const next = link === "gone" ? "It is shown as soon as it starts." : "Retrying.";
        this.#banner.replaceChildren(h("strong", {}, why), h("span", {}, `${shownIs()} ${next}`));
    }
}

/** Says how old the figures are, if there are any. */
function shownIs() {
    const at = (store.get("overview") ?? store.get("jobs")[0])?.at;
    return at ? `The figures are those of ${moment(at)}.` : "";
}

async function logOut() {
    try {
        await post("api/logout");
        store.set("me", null);
    } catch (error) {
        complain(error);
    }
}
