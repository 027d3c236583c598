/** Log in with a token. */

import { post } from "../api.js";
import { h, setText } from "../dom.js";
import { mark } from "../icons.js";
import { store } from "../store.js";

const USED = "This link works once, and was used or is too old. Log in with a token.";
const OVER = "Your log-in is over: it is too old, or its token was revoked or has expired.";

export function logInPage({ isLinkUsed = false, isOver = false } = {}) {
    const token = h("input", {
        id: "token",
        type: "password",
        name: "token",
        autocomplete: "current-password",
        required: true,
        "aria-describedby": "token-error",
    });
    const why = isLinkUsed ? USED : isOver && OVER;
    const wrong = h("p", { id: "token-error", class: "error small", role: "alert" }, why);
    const button = h("button", { class: "primary" }, "Log in");
    const form = h(
        "form",
        { class: "card" },
        h("h1", { class: "brand" }, mark(), "Skitter"),
        h("div", { class: "field" }, h("label", { for: "token" }, "Token"), token),
        wrong,
        button,
        h(
            "p",
            { class: "small muted" },
            h("code", {}, "skitter serve"),
            " printed one when it first started; ",
            h("code", {}, "skitter token new"),
            " makes another.",
        ),
    );
    form.addEventListener("submit", async (event) => {
        event.preventDefault();
        button.disabled = true;
        setText(wrong, "");
        try {
            store.set("me", await post("api/login", { token: token.value.trim() }));
        } catch (error) {
            setText(
                wrong,
                error.status === 401 ? "This token is mistyped or was revoked." : error.message,
            );
            token.setAttribute("aria-invalid", "true");
            token.select();
            token.focus();
        } finally {
            button.disabled = false;
        }
    });
    queueMicrotask(() => token.focus());
    return h("main", { class: "log-in" }, form);
}
