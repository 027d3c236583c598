/** The entry point: log in, then show the page in the address. */

import { asSteered } from "./actions.js";
import { get, of, post, Refused } from "./api.js";
import { h } from "./dom.js";
import { listenForKeys } from "./keys.js";
import { Live } from "./live.js";
import { empty } from "./page.js";
import { PAGES } from "./pages.js";
import { logInPage } from "./pages/login.js";
import { here } from "./router.js";
import { Shell } from "./shell.js";
import { store, UNREAD } from "./store.js";
import { applyTheme } from "./theme.js";
import { listenForTips } from "./tip.js";
import { icon } from "./icons.js";

const app = document.querySelector("#app");
const RETRY_MS = 2000;
const JOBS_EVERY_MS = 60_000;
let session = null; // aborts everything started for this log-in
let live = null;
let isLinkUsed = false;

applyTheme();
listenForTips();
listenForKeys();
store.follow("me", (me) => (me ? begin() : end()));
enter();

/** Check whether we are logged in; retry while the server is away. */
async function enter() {
    try {
        store.set("me", (await logInByLink()) ?? (await get("api/me")));
    } catch (error) {
        if (error instanceof Refused && error.status === 401) app.replaceChildren(logInPage({ isLinkUsed }));
        else {
            app.replaceChildren(
                h(
                    "main",
                    {},
                    empty(
                        icon("away"),
                        "The server does not answer",
                        error.message,
                        " Retrying every 2 seconds.",
                    ),
                ),
            );
            setTimeout(enter, RETRY_MS);
        }
    }
}

/** `skitter serve` prints a link that logs in once: `#token=...`. It is removed from the address. */
async function logInByLink() {
    const code = location.hash.match(/^#token=(.+)$/)?.[1];
    if (!code) return null;
    history.replaceState(null, "", "#/");
    try {
        return await post("api/login", { token: code });
    } catch (error) {
        isLinkUsed = error.status === 401;
        return null;
    }
}

function begin() {
    session = new AbortController();
    store.set("isOver", false);
    const { signal } = session;
    const shell = new Shell({ signal });
    app.replaceChildren(shell.element);
    const show = () => showPlace(shell);
    addEventListener("hashchange", show, { signal });
    show();
    store.follow("link", (link) => link === "live" && catchUp(), { signal });
    const look = setInterval(loadJobs, JOBS_EVERY_MS); // also in the background: the title counts them
    signal.addEventListener("abort", () => clearInterval(look));
}

function end() {
    if (!session) return; // not logged in yet
    session.abort();
    session = null;
    live?.close();
    live = null;
    store.set("job", null);
    store.set("overview", null);
    store.set("jobs", UNREAD);
    app.replaceChildren(logInPage({ isOver: store.get("isOver") }));
}

async function showPlace(shell) {
    const place = here();
    if (place.page === "home") return openHome();
    if (place.job !== store.get("job") || !live) openJob(place.job);
    const Page = PAGES[place.job || place.page === "runs" ? place.page : "jobs"] ?? PAGES.missing;
    shell.show(place, new Page(place));
    document.querySelector("h1")?.focus({ preventScroll: true });
    scrollTo(0, 0);
}

/** Open the only job; if there are several, list them. */
async function openHome() {
    const jobs = await loadJobs();
    if (here().page !== "home") return; // somebody went on meanwhile
    const running = jobs.filter(({ state }) => state === "running");
    const only = jobs.length === 1 ? jobs[0] : running.length === 1 ? running[0] : null;
    const target = only ? `#/jobs/${encodeURIComponent(only.job)}/overview` : "#/jobs";
    history.replaceState(null, "", target);
    dispatchEvent(new HashChangeEvent("hashchange"));
}

function openJob(job) {
    live?.close();
    store.set("job", job);
    store.set("overview", null);
    live = new Live(job, hear);
    catchUp();
}

function hear(event, data) {
    if (event === "overview") take(asSteered(data));
    else if (event === "jobs") store.set("jobs", data.rows ?? data);
    else if (event === "log") dispatchEvent(new CustomEvent("log", { detail: data }));
    else if (event === "change") dispatchEvent(new CustomEvent("noted", { detail: data })); // inputs have "change"
}

/** A job that was purged and made again is another one: its page begins anew. */
function take(overview) {
    if (overview.job !== store.get("job")) return;
    const before = store.get("overview");
    store.set("overview", overview);
    if (before && before.life !== overview.life) dispatchEvent(new HashChangeEvent("hashchange"));
}

/** Read the current state, which the stream does not repeat. */
async function catchUp() {
    const job = store.get("job");
    loadJobs();
    dispatchEvent(new CustomEvent("catch-up"));
    try {
        const [me, overview] = await Promise.all([get("api/me"), job ? get(of(job)) : null]);
        if (me.version !== (store.get("me") ?? me).version) location.reload(); // the server was upgraded
        if (overview) take(overview);
    } catch {
        // The banner says so.
    }
}

async function loadJobs() {
    try {
        store.set("jobs", (await get("api/jobs")).rows);
    } catch {
        // The banner says that the server is away.
    }
    return store.get("jobs");
}
