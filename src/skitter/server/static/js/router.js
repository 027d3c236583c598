/** Where we are: `#/jobs/books/dead?reason=404`. The hash, so that any path of a proxy will do. */

/**
 * @typedef {object} Place
 * @property {string | null} job
 * @property {string} page
 * @property {Record<string, string>} query
 */

/** @returns {Place} */
export function placeOf(hash) {
    const [path, query] = hash.replace(/^#\/?/, "").split("?");
    const [root, job, page] = path.split("/").map(decoded);
    const words = Object.fromEntries(new URLSearchParams(query ?? ""));
    if (root === "jobs" && job) return { job, page: page || "overview", query: words };
    return { job: null, page: root || "home", query: words };
}

function decoded(part) {
    try {
        return decodeURIComponent(part);
    } catch {
        return part;
    }
}

/** The address of a page: `linkTo("books", "dead", { reason: "404" })`. */
export function linkTo(job, page = "overview", query = {}) {
    const words = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
    const path = job ? `#/jobs/${encodeURIComponent(job)}/${page}` : `#/${page}`;
    return words ? `${path}?${words}` : path;
}

export function go(job, page, query) {
    location.hash = linkTo(job, page, query);
}

/** Remember what a page is filtered by in its address, so that it can be sent to somebody. */
export function remember(query) {
    const { job, page } = here();
    history.replaceState(null, "", linkTo(job, page, query));
}

export function here() {
    return placeOf(location.hash);
}
