/** The four cards of the overview: a question, its answer in large type, and the facts behind it. */

import { h, hostName } from "../dom.js";
import { bytes, count, duration, money, NONE, percent, rate, some, timeLeft } from "../format.js";
import { linkTo } from "../router.js";
import { fact } from "../page.js";
import { limitOf } from "./bound.js";
import { Spark } from "./spark.js";
import { isFetching } from "./stepper.js";
import { shareOf, successBar, toneOf } from "./success.js";
import { DataTable } from "./table.js";

function card(question, ...content) {
    return h("section", { class: "card question" }, h("h2", {}, question), ...content);
}

function answer(view, read, small, tone = () => null) {
    const element = h("p", { class: "answer" }, h("span", {}, view.text(read)), h("small", {}, view.text(small)));
    return view.attribute(element, "data-tone", tone);
}

// --- is it moving?

export function movingCard(view) {
    const spark = new Spark();
    const now = h(
        "dl",
        { class: "facts" },
        fact(
            "Items",
            h(
                "span",
                { "data-field": "items_per_s" },
                view.text(({ items_per_s }) => `${rate(items_per_s ?? 0)}/s`),
            ),
        ),
        fact(
            "Running for",
            view.text(({ elapsed_s }) => (elapsed_s ? duration(Math.round(elapsed_s)) : NONE)),
        ),
        fact("Time left", view.text(left), { wide: true }),
        fact("Limited by", view.text(bound), { wide: true }),
    );
    const atLast = h(
        "dl",
        { class: "facts" },
        ["done", "stored", "seen"].map((name, at) =>
            fact(
                ["Pages done", "Items stored", "URLs found"][at],
                view.text((one) => count(one[name])),
            ),
        ),
    );
    view.bind(({ state }) => ([now.hidden, atLast.hidden] = [state === "finished", state !== "finished"]));
    const element = card("Is it moving?", answer(view, speed, pace), spark.element, now, atLast);
    return { element, showHistory: (values) => spark.show(values.slice(-91, -1)) };
}

function speed({ state, pages_per_s: pages }) {
    return state === "finished" ? "Finished" : `${rate(pages ?? 0)} pages/s`;
}

function pace({ state, pages_per_s: pages, workers, pending }) {
    if (state === "finished")
        return pending ? `at its limit of pages, with ${some(pending, "URL")} left` : "nothing is left to fetch";
    if (state !== "running" && state !== "draining") return state;
    if (pages) return "";
    return workers?.some(isFetching) ? "no page was done in the last seconds" : "no worker is running";
}

function left(overview) {
    return timeLeft(overview) || NONE;
}

function bound(overview) {
    const shown = ({ host, queued, delay_s, why }) =>
        `${host}: ${count(queued)} queued, one every ${duration(delay_s)} (${why})`;
    return limitOf(overview, shown);
}

// --- is it healthy?

/** The share of all attempts, then the hosts that are worst. */
export function healthCard(view, job) {
    const table = new DataTable({
        label: "Hosts, lowest success rate first",
        keyOf: (row) => row.host,
        columns: [
            {
                label: "Host",
                value: (row) => row.host,
                kind: "name",
                show: ({ host }) => hostName(host),
                fixed: true,
            },
            { label: "Success", value: shareOf, show: (row) => successBar(shareOf(row)), fixed: true },
            {
                label: "Pages",
                kind: "number",
                value: (row) => row.pages,
                show: ({ pages }) => count(pages),
                fixed: true,
            },
        ],
    });
    const element = card(
        "Is it healthy?",
        answer(
            view,
            (one) => (attempts(one) ? `${percent(one.done / attempts(one))} succeed` : NONE),
            (one) => (attempts(one) ? `of ${some(attempts(one), "attempt")}` : "no request has ended yet"),
            (one) => (attempts(one) ? toneOf(one.done / attempts(one)) : null),
        ),
        table.element,
        h("p", { class: "small" }, h("a", { href: linkTo(job, "hosts") }, "All hosts")),
    );
    const show = (rows) => {
        table.show(rows);
        table.element.hidden = !rows.length;
    };
    show([]);
    return { element, show };
}

function attempts({ done, retried, dead }) {
    return (done ?? 0) + (retried ?? 0) + (dead ?? 0);
}

// --- is it stuck?

export function stuckCard(view, job) {
    const dead = h(
        "a",
        { href: linkTo(job, "dead"), "data-field": "dead" },
        view.text((one) => (one.dead ? some(one.dead, "dead letter") : "none")),
    );
    const silent = h(
        "a",
        { href: linkTo(job, "workers") },
        view.text((one) => (one.silent_workers ? some(one.silent_workers, "worker") : "none")),
    );
    const help = h("p", { class: "small" }, h("code", {}, view.text((one) => one.troubles?.[0]?.command)));
    view.bind(({ troubles }) => (help.hidden = !troubles?.length));
    const facts = h(
        "dl",
        { class: "facts" },
        fact(
            "Oldest pending URL",
            view.text(({ oldest_pending_s: age }) => (age === null || age === undefined ? NONE : duration(age))),
        ),
        fact("Given up", dead),
        fact("Silent workers", silent),
        fact(
            "Retries so far",
            view.text((one) => count(one.retried)),
        ),
        fact(
            "Expired leases",
            view.text((one) => count(one.lost)),
        ),
        fact(
            "Block pages",
            view.text((one) => count(one.blocked)),
        ),
    );
    return {
        element: card(
            "Is it stuck?",
            answer(
                view,
                (one) => trouble(one)[0],
                (one) => trouble(one)[1],
                (one) => trouble(one)[2],
            ),
            help,
            facts,
        ),
    };
}

/** The worst problem: the answer, the reason, the tone. */
function trouble({ state, pending, delayed, leased, troubles, silent_workers: silent, dead, done }) {
    const isOpen = state === "running" || state === "draining";
    const isIdle = !(pending || delayed || leased);
    if (troubles?.length) return [["machine lost", "no handler"].includes(troubles[0].kind) ? "Partly" : "Yes", troubles[0].says, "bad"];
    if (silent) return ["Partly", `${some(silent, "worker")} fell silent`, "bad"];
    if (dead > done) return ["Partly", "more URLs were given up than done", "bad"];
    if (!isOpen) return ["No", `the job is ${state}`, null];
    return ["No", isIdle ? "no URL is waiting" : "URLs are handed out and finished", null];
}

// --- what does it cost?

function isKnown(value) {
    return value !== null && value !== undefined;
}

/** "none" instead of 0 for what a crawl did not use. */
function spent(value, format) {
    return isKnown(value) ? (value ? format(value) : "none") : NONE;
}

function moneyOf(sum, pages) {
    return pages ? `${money(sum)} (${money((1000 * sum) / pages)} per 1,000 pages)` : money(sum);
}

function archiveOf({ archived, archived_bytes, unarchived }) {
    const missed = unarchived ? `, ${count(unarchived)} not kept` : "";
    return `${bytes(archived_bytes)} (${some(archived, "page")}${missed})`;
}

export function costCard(view) {
    const facts = h(
        "dl",
        { class: "facts" },
        fact(
            "Average page",
            view.text(({ bytes: size, done }) => (done && size ? bytes(size / done) : NONE)),
        ),
        fact(
            "Browser time",
            view.text(({ browser_s }) => spent(browser_s, duration)),
        ),
        fact(
            "Proxies",
            view.text(({ proxy_money, done }) => spent(proxy_money, (sum) => moneyOf(sum, done))),
        ),
        fact(
            "Archive",
            view.text((one) => (one.archived || one.unarchived ? archiveOf(one) : NONE)),
        ),
    );
    const size = answer(
        view,
        (one) => bytes(one.bytes),
        (one) => (isKnown(one.bytes) ? "transferred" : "not measured yet"),
    );
    return { element: card("What does it cost?", size, facts) };
}
