/** The HTTP API: JSON in, JSON out, errors that say what to do. Addresses are relative: it works below any path. */

import { store } from "./store.js";

/** What the server refused, in its own words. */
export class Refused extends Error {
    /** @param {{title?: string, detail?: string, hint?: string, field?: string, status?: number}} problem */
    constructor(problem) {
        super([problem.detail || problem.title, problem.hint].filter(Boolean).map(asSentence).join(" "));
        this.status = problem.status ?? 0;
        this.field = problem.field;
    }
}

/** With a capital letter, unless it begins with a name such as `delay_s`. */
function asSentence(text) {
    return text.replace(/^[a-z]+(?= )/, (word) => word[0].toUpperCase() + word.slice(1));
}

/** The server does not answer at all. */
export class Unreachable extends Error {
    constructor() {
        super("The server does not answer.");
    }
}

/** An address relative to the page's own. */
export function address(path, query = {}) {
    const url = new URL(path, document.baseURI);
    for (const [name, value] of Object.entries(query)) {
        if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
    }
    return url;
}

/** A path below a job: `of("books", "hosts")`. */
export function of(job, ...parts) {
    return ["api/jobs", job, ...parts].map((part, at) => (at ? encodeURIComponent(part) : part)).join("/");
}

export const get = (path, query, signal) => send("GET", path, { query, signal });
export const post = (path, body, query) => send("POST", path, { body: body ?? {}, query });
export const put = (path, body) => send("PUT", path, { body });
export const patch = (path, body) => send("PATCH", path, { body });
export const remove = (path, query) => send("DELETE", path, { query });

async function send(method, path, { body, query, signal } = {}) {
    const response = await answer(address(path, query), {
        method,
        signal,
        credentials: "same-origin",
        headers: headersFor(method, body),
        body: body === undefined ? undefined : JSON.stringify(body),
    });
    const said = await read(response);
    if (response.ok) return said;
    if (response.status === 401 && path !== "api/login") {
        store.set("isOver", true);
        store.set("me", null);
    }
    throw new Refused({ title: `The server answered ${response.status}.`, ...said, status: response.status });
}

async function answer(url, options) {
    try {
        return await fetch(url, options);
    } catch (error) {
        if (error.name === "AbortError") throw error;
        throw new Unreachable();
    }
}

function headersFor(method, body) {
    const headers = { accept: "application/json" };
    if (body !== undefined) headers["content-type"] = "application/json";
    const csrf = store.get("me")?.csrf;
    if (method !== "GET" && csrf) headers["x-csrf-token"] = csrf;
    return headers;
}

async function read(response) {
    if (response.status === 204) return null;
    try {
        return JSON.parse(await response.text(), exactly);
    } catch {
        return null;
    }
}

/** Items may have numbers that JavaScript would round, such as ids of 19 digits: they stay as they were written. */
function exactly(_name, value, { source } = {}) {
    const isRounded = Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(source);
    return isRounded ? JSON.rawJSON(source) : value;
}
