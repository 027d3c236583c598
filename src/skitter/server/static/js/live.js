/** Live events of one job, or of all. Browsers open about six connections to a server, so tabs share one: the tab that
 * holds the lock reads the stream and forwards it to the others. A hidden tab releases the lock. */

import { address, get, of } from "./api.js";
import { store } from "./store.js";

const EVENTS = ["overview", "log", "change", "jobs", "gone", "away", "back", "tick"];
const RETRY_MS = [1000, 2000, 4000, 8000, 15000];
/** The server ends a stream now and then, and the browser reconnects: not worth a banner. */
const GRACE_MS = 2000;
/** The server sends something at least every 5 seconds, unless it hangs. */
const SILENT_MS = 12000;
/** How often to look at the clock: timers stand still while a laptop sleeps. */
const LOOK_MS = 1000;

export class Live {
    #job;
    #tell;
    #channel;
    #source = null;
    #release = null; // releases the lock
    #waiting = null; // aborts the wait for it
    #failures = 0;
    #retry = 0;
    #grace = 0;
    #heardAt = 0;
    #look = 0;
    #closed = new AbortController();

    /**
     * @param {string | null} job null: all jobs
     * @param {(event: string, data: any) => void} tell
     */
    constructor(job, tell) {
        this.#job = job;
        this.#tell = tell;
        if (store.get("link") === "gone") store.set("link", "connecting"); // that was another job
        this.#channel = new BroadcastChannel(this.#name);
        this.#channel.onmessage = ({ data }) => this.#hear(data);
        document.addEventListener("visibilitychange", () => this.#turn(), { signal: this.#closed.signal });
        this.#turn();
    }

    close() {
        this.#closed.abort();
        this.#pause();
        this.#channel.close();
    }

    get #name() {
        return `skitter ${address("")} ${this.#job ?? ""}`;
    }

    #turn() {
        if (document.hidden) this.#pause();
        else if (!this.#waiting) this.#queueUp();
    }

    #queueUp() {
        const waiting = (this.#waiting = new AbortController());
        this.#channel.postMessage({ name: "ask" }); // the tab that reads the stream answers with the state
        if (!navigator.locks) {
            this.#open(); // no locks over plain HTTP from another machine
            return;
        }
        const turn = () =>
            waiting.signal.aborted
                ? null
                : new Promise((release) => {
                      this.#release = release;
                      this.#open();
                  });
        navigator.locks.request(this.#name, { signal: waiting.signal }, turn).catch(() => {});
    }

    #pause() {
        this.#waiting?.abort();
        this.#waiting = null;
        clearTimeout(this.#retry);
        clearTimeout(this.#grace);
        this.#stop();
        this.#release?.();
        this.#release = null;
        if (document.hidden && store.get("link") === "live") store.set("link", "connecting"); // until it is heard again
    }

    #stop() {
        clearInterval(this.#look);
        this.#source?.close();
        this.#source = null;
    }

    #open() {
        const source = (this.#source = new EventSource(address("api/events", { job: this.#job })));
        source.onopen = () => {
            this.#failures = 0;
            clearTimeout(this.#grace);
            this.#grace = 0;
        };
        source.onerror = () => this.#failed(source);
        for (const name of EVENTS) {
            source.addEventListener(name, (event) => this.#read(name, event));
        }
        this.#heardAt = Date.now();
        this.#look = setInterval(() => this.#listen(), LOOK_MS);
    }

    /** A hanging server keeps its connections open: only silence gives it away. */
    #listen() {
        if (Date.now() - this.#heardAt < SILENT_MS) return;
        this.#share("link", "lost");
        this.#stop();
        this.#open();
    }

    /** The browser itself reconnects after a lost connection, but not after a refusal. */
    #failed(source) {
        this.#grace ||= setTimeout(() => this.#share("link", "lost"), GRACE_MS);
        if (source.readyState !== EventSource.CLOSED) return;
        this.#stop();
        this.#askWhy();
        this.#openLater();
    }

    /** Leads to the log-in if the session has expired. */
    async #askWhy() {
        try {
            await get(this.#job ? of(this.#job) : "api/me");
        } catch (error) {
            if (error.status === 404) this.#miss();
        }
    }

    /** There is no such job: it was purged, or has not started yet. */
    #miss() {
        clearTimeout(this.#grace);
        this.#grace = 0;
        this.#share("link", "gone");
    }

    #openLater() {
        const wait = RETRY_MS[Math.min(this.#failures++, RETRY_MS.length - 1)];
        this.#retry = setTimeout(() => this.#open(), wait);
    }

    #read(name, event) {
        this.#heardAt = Date.now();
        if (name === "tick") return;
        if (name === "gone") {
            this.#stop();
            this.#miss();
            this.#openLater();
            return;
        }
        if (name === "away" || name === "back") this.#share("link", name === "away" ? "away" : "live");
        else this.#share(name, parsed(event.data));
    }

    #share(name, data) {
        const message = { name, data };
        this.#channel.postMessage(message);
        this.#hear(message);
    }

    #answer() {
        const link = store.get("link");
        if (this.#source && link !== "connecting") this.#channel.postMessage({ name: "link", data: link });
    }

    #hear({ name, data }) {
        if (name === "link") store.set("link", data);
        else if (name === "ask") this.#answer();
        else if (data !== null) this.#tell(name, data);
    }
}

function parsed(text) {
    try {
        return JSON.parse(text);
    } catch {
        return null;
    }
}
