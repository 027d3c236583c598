/** Dialogs: native ones, so that focus and Escape work. */

import { h } from "./dom.js";

/** Open a dialog; resolves to its return value when it closes. */
export function open(dialog) {
    document.body.append(dialog);
    dialog.showModal();
    return new Promise((resolve) => {
        dialog.addEventListener("close", () => {
            dialog.remove();
            resolve(dialog.returnValue);
        });
    });
}

/** The equivalent command line. */
export function cliLine(command) {
    return command && h("div", { class: "cli" }, h("code", {}, command));
}

/**
 * Ask for confirmation.
 * @param {object} question
 * @param {string} question.title
 * @param {(string | Node)[]} question.says
 * @param {string} question.yes what the button says
 * @param {string} [question.cli]
 * @param {string} [question.type] what has to be typed to confirm
 * @param {boolean} [question.isDangerous]
 * @returns {Promise<boolean>}
 */
export async function ask({ title, says, yes, cli, type, isDangerous = false }) {
    const sure = h(
        "button",
        { class: isDangerous ? "primary danger" : "primary", value: "yes", disabled: Boolean(type) },
        yes,
    );
    const typed = type && typedField(type, sure);
    const form = h(
        "form",
        { method: "dialog", class: "dialog-body" },
        h("h2", { id: "dialog-title" }, title),
        says.map((one) => (typeof one === "string" ? h("p", {}, one) : one)),
        typed,
        h(
            "div",
            { class: "dialog-foot" },
            cliLine(cli),
            h(
                "span",
                { class: "dialog-buttons" },
                h("button", { value: "", formnovalidate: true, type: "submit" }, "Go back"),
                sure,
            ),
        ),
    );
    form.addEventListener("submit", (event) => {
        if (event.submitter === sure && sure.disabled) event.preventDefault();
    });
    return (await open(h("dialog", { "aria-labelledby": "dialog-title" }, form))) === "yes";
}

function typedField(word, sure) {
    const input = h("input", { id: "dialog-typed", autocomplete: "off", spellcheck: "false" });
    input.addEventListener("input", () => (sure.disabled = input.value !== word));
    input.addEventListener("keydown", (event) => {
        if (event.key !== "Enter") return;
        event.preventDefault(); // Enter would press the form's first button, which goes back
        if (!sure.disabled) sure.click();
    });
    return h(
        "div",
        { class: "field" },
        h("label", { for: "dialog-typed" }, "Type ", h("code", {}, word), " to confirm"),
        input,
    );
}

/** Show something that needs no decision. */
export function showDialog(title, ...content) {
    const form = h(
        "form",
        { method: "dialog", class: "dialog-body" },
        h("h2", { id: "dialog-title" }, title),
        content,
        h("div", { class: "dialog-foot" }, h("button", { value: "" }, "Close")),
    );
    return open(h("dialog", { class: "is-wide", "aria-labelledby": "dialog-title" }, form));
}
