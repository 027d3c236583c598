/** Short messages in a corner: what was done, or why it failed. */

import { h } from "./dom.js";

const SHOWN_MS = 6000;
let room = null;

export function toast(text, { tone = "ok" } = {}) {
    room ??= document.body.appendChild(h("div", { class: "toasts", role: "status", "aria-live": "polite" }));
    const close = () => note.remove();
    const note = h(
        "div",
        { class: "toast", "data-tone": tone },
        h("p", {}, text),
        h("button", { class: "quiet", "aria-label": "Close the message", onclick: close }, "×"),
    );
    room.append(note);
    if (tone === "ok") setTimeout(close, SHOWN_MS);
}

export function complain(error) {
    toast(error.message, { tone: "bad" });
}
