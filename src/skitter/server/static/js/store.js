/** State shared by all parts of the page, with subscriptions to its changes. */

/**
 * @typedef {object} Known
 * @property {{name: string, scopes: string[], csrf: string, server: string, version: string} | null} me
 * @property {boolean} isOver the server ended the session
 * @property {object[]} jobs overviews of all jobs, without workers; UNREAD before they are known
 * @property {string | null} job the job on screen
 * @property {object | null} overview of that job
 * @property {"connecting" | "live" | "lost" | "away" | "gone"} link to the server; away: its Redis does not answer;
 *   gone: there is no such job
 */

export class Store {
    #known;
    #listeners = new Map();

    /** @param {Known} known */
    constructor(known) {
        this.#known = known;
    }

    get(name) {
        return this.#known[name];
    }

    set(name, value) {
        if (Object.is(this.#known[name], value)) return;
        this.#known[name] = value;
        for (const tell of [...(this.#listeners.get(name) ?? [])]) tell(value);
    }

    /** Call `tell` with the value now and whenever it changes, until the signal aborts. */
    follow(name, tell, { signal } = {}) {
        if (signal?.aborted) return;
        if (!this.#listeners.has(name)) this.#listeners.set(name, new Set());
        const listeners = this.#listeners.get(name).add(tell);
        signal?.addEventListener("abort", () => listeners.delete(tell), { once: true });
        tell(this.#known[name]);
    }
}

export const UNREAD = [];
export const store = new Store({ me: null, isOver: false, jobs: UNREAD, job: null, overview: null, link: "connecting" });

/** Whether the user's token has a scope: `operate` implies the others. */
export function may(scope) {
    const scopes = store.get("me")?.scopes ?? [];
    return scopes.includes(scope) || scopes.includes("operate");
}
