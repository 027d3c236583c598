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

/** What a job needs somebody for, or else its state. */
export function jobPill({ state, troubles }) {
    return troubles?.length ? showTrouble(h("span", { class: "pill" }), troubles) : statePill(state);
}

/** The worst of a job's troubles; hidden if there are none. */
export function showTrouble(pill, troubles) {
    pill.hidden = !troubles.length;
    setText(pill, troubles[0]?.kind);
    set(pill, "title", troubles[0]?.says);
    set(pill, "data-tone", ["machine lost", "no handler"].includes(troubles[0]?.kind) ? "warn" : "bad");
    return pill;
}
