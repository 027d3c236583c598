/** A job's state as a coloured word. */

import { h, set, setText } from "../dom.js";

const TONES = { running: "ok", paused: "warn", draining: "info", cancelled: "bad", finished: "" };

export function statePill(state) {
    return showState(h("span", { class: "pill" }), state);
}

export function showState(pill, state) {
    setText(pill, state);
    set(pill, "data-tone", TONES[state] || null);
    return pill;
}
