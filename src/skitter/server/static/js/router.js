/** The current place: `#/jobs/books/dead?reason=404`. In the hash, so that it works below any path of a proxy. */

const MASK = "***"; // as in redact.py

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

/** A link to the page of a URL. If its secret is masked, the link uses the fingerprint; without one there is no
 * link. */
export function linkToStory(job, url, fingerprint = null) {
    const known = url?.includes(MASK) ? fingerprint : url;
    return known ? linkTo(job, "url", { url: known }) : null;
}

export function go(job, page, query) {
    location.hash = linkTo(job, page, query);
}

/** Keep a page's filters in its address, so that it can be shared. */
export function remember(query) {
    const { job, page } = here();
    history.replaceState(null, "", linkTo(job, page, query));
}

export function here() {
    return placeOf(location.hash);
}
