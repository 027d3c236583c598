/** A row of buttons, one of which is pressed. */

import { h } from "../dom.js";

/**
 * @param {string} label
 * @param {[string, any][]} choices label and value
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
