/** A stream between two stages: dots whose speed shows the rate. They stand still under prefers-reduced-motion. */

import { h, s, setText } from "../dom.js";
import { rate } from "../format.js";

const PERIOD = 28; // pixels between the dots of a lane
/** Height, offset of the first dot, radius. */
const LANES = [
    [10, 4, 1.6],
    [23, 18, 2.2],
    [37, 0, 3.4],
    [51, 11, 2.2],
    [64, 22, 1.6],
];
/** Pixels per second at 1/s; each factor of ten adds as much again, so that 1/s and 1,000/s both look right. */
const SPEED = 26;
const still = matchMedia("(prefers-reduced-motion: reduce)");

export class Flow {
    #number = h("span", { class: "flow-rate" });
    #dots;
    #motion = null;

    constructor(unit, tone) {
        const dots = LANES.flatMap(([y, shift, r]) =>
            Array.from({ length: 40 }, (_, at) =>
                s("circle", { cx: at * PERIOD + shift, cy: y, r, fill: "currentColor", opacity: r / 4 }),
            ),
        );
        this.#dots = s("svg", { "aria-hidden": "true" }, dots);
        this.element = h(
            "div",
            { class: `flow tone-${tone}`, "data-still": "true" },
            this.#number,
            h("div", { class: "flow-band" }, this.#dots),
            h("span", { class: "flow-unit" }, unit),
        );
    }

    show(perSecond) {
        setText(this.#number, rate(perSecond));
        const speed = perSecond > 0 && !still.matches ? SPEED * Math.log10(1 + 9 * perSecond) : 0;
        this.element.dataset.still = String(!(perSecond > 0));
        this.#motion ??= this.#dots.animate([{ transform: "none" }, { transform: `translateX(${PERIOD}px)` }], {
            duration: 1000,
            iterations: Infinity,
        });
        if (speed) {
            this.#motion.updatePlaybackRate(Math.max(0.15, speed / PERIOD));
            this.#motion.play();
        } else this.#motion.pause();
    }
}
