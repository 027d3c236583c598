/** A choice of a few: one of them is pressed. */

import { h } from "../dom.js";

/**
 * @param {string} label
 * @param {[string, any][]} choices what it says, what it means
 * @param {any} chosen
 * @param {(value: any) => void} choose
 */
export function segments(label, choices, chosen, choose) {
    const buttons = choices.map(([text, value]) =>
        h("button", { "aria-pressed": String(value === chosen), onclick: () => press(value) }, text),
    );
    function press(value) {
        buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(choices[at][1] === value)));
        choose(value);
    }
    return h("div", { class: "segments", role: "group", "aria-label": label }, buttons);
}
