/** Elements without HTML strings: data from the server is inserted as text. */

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * An element: `h("button", { class: "quiet", onclick: close }, "Close")`.
 * @param {string} tag
 * @param {Record<string, any>} [attributes] functions become listeners; false and null are skipped
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes, ...children) {
    return filled(document.createElement(tag), attributes, children);
}

/** The same for SVG. @returns {SVGElement} */
export function s(tag, attributes, ...children) {
    return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes ?? {})) set(element, name, value);
    element.append(...children.flat(Infinity).filter(isShown));
    return element;
}

function isShown(child) {
    return child !== null && child !== undefined && child !== false;
}

/** Set, change or (with null or false) remove an attribute. */
export function set(element, name, value) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value === null || value === undefined || value === false) element.removeAttribute(name);
    else if (name.startsWith("--")) element.style.setProperty(name, value);
    else if (name === "value") element.value = value;
    else if (name === "href") element.setAttribute(name, safeAddress(value));
    else element.setAttribute(name, value === true ? "" : value);
}

/** The address if it is safe to open; "#" if it could run code. */
export function safeAddress(address) {
    const text = String(address);
    const isOurs = /^(#|\.?\/|api\/)/.test(text);
    return isOurs || /^https?:\/\//i.test(text) ? text : "#";
}

/** Change an element's text, unless it is the same already. */
export function setText(element, text) {
    const value = text === null || text === undefined ? "" : String(text);
    if (element.textContent !== value) element.textContent = value;
}

/** Text whose URLs break between their parts, and inside a part only if it does not fit. */
export function breakable(text) {
    return String(text ?? "")
        .split(/(?<=[^/:][/?&])(?=[^/])/)
        .flatMap((part, at) => (at ? [h("wbr"), part] : part));
}

/** Three lines of a text; the rest is in its tooltip. */
export function clamped(text, shown = text) {
    return h("span", { class: "clamp", title: text }, shown);
}

/** Its site: the last two labels, or three as in example.co.uk, with the port. */
const SITE = /([^.]+\.)?[^.]{1,3}\.[^.]{2}(:\d+)?$|[^.]+\.[^.]+$/;

/** A host on one line; if it is long, its site on a second, and what is too long cut. The tooltip has all of it. */
export function hostName(host) {
    const name = String(host);
    const at = /^[\d.:[\]]*$/.test(name) ? 0 : Math.max(0, name.search(SITE));
    const parts = [name.slice(0, at), name.slice(at)].filter(Boolean);
    return h(
        "bdi",
        { class: "host", title: name },
        parts.map((part) => h("span", {}, part)),
    );
}

/** Binds texts and attributes to a value; `show` updates them. */
export class View {
    #bindings = [];

    /** A text node that `read` computes from the value. */
    text(read) {
        const node = document.createTextNode("");
        this.bind((value) => {
            const text = String(read(value) ?? "");
            if (node.data !== text) node.data = text;
        });
        return node;
    }

    /** An attribute that `read` computes from the value. */
    attribute(element, name, read) {
        this.bind((value) => set(element, name, read(value)));
        return element;
    }

    /** Any other update. */
    bind(show) {
        this.#bindings.push(show);
    }

    show(value) {
        for (const show of this.#bindings) show(value);
    }
}
