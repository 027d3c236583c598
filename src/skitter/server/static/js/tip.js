/** Tooltips: what a button does, and the equivalent command line. They share one element. */

import { h } from "./dom.js";

const tip = h("div", { class: "tip", id: "tip", role: "tooltip", hidden: true });
let owner = null;

/** Give an element a tooltip. */
export function withTip(element, { says = "", cli = "" }) {
    element.dataset.says = says;
    element.dataset.cli = cli;
    return element;
}

/** Listen once for all elements with a tooltip. */
export function listenForTips() {
    document.body.append(tip);
    const show = (event) => showFor(event.target.closest?.("[data-cli], [data-says]"));
    document.addEventListener("pointerover", show);
    document.addEventListener("focusin", (event) => event.target.matches(":focus-visible") && show(event)); // no click
    document.addEventListener("focusout", hide);
    document.addEventListener("pointerdown", hide);
    document.addEventListener("scroll", hide, { capture: true, passive: true });
    document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
}

function showFor(element) {
    if (element === owner) return;
    hide();
    if (!element) return;
    owner = element;
    owner.setAttribute("aria-describedby", "tip");
    const { says, cli } = owner.dataset;
    tip.replaceChildren(...[says, cli && h("code", {}, cli)].filter(Boolean));
    (owner.closest("dialog") ?? document.body).append(tip); // a dialog covers it unless it is inside
    tip.hidden = !tip.childNodes.length;
    place(owner.getBoundingClientRect());
}

/** Above, if there is room: what a control leads to appears below it. */
function place(box) {
    const above = box.top - tip.offsetHeight - 6;
    const left = Math.min(Math.max(8, box.left), innerWidth - tip.offsetWidth - 8);
    tip.style.left = `${left}px`;
    tip.style.top = `${above > 4 ? above : box.bottom + 6}px`;
}

function hide() {
    owner?.removeAttribute("aria-describedby");
    owner = null;
    tip.hidden = true;
}
