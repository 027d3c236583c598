/** A stream between two stages: streaks whose speed shows the rate. They stand still under prefers-reduced-motion. */

import { h, s, setText } from "../dom.js";
import { compact, rate } from "../format.js";

const PERIOD = 36; // pixels between the streaks of a lane
/** Height of the lane, offset of its first streak, length and thickness. */
const LANES = [
    [7, 20, 10, 2],
    [16, 4, 15, 3],
    [26, 24, 20, 4],
    [36, 10, 15, 3],
    [45, 28, 10, 2],
];
/** Pixels per second at 1/s; each factor of ten adds as much again, so that 1/s and 1,000/s both look right. */
const SPEED = 26;
const still = matchMedia("(prefers-reduced-motion: reduce)");
let flows = 0;

export class Flow {
    #number = h("span", { class: "flow-rate" });
    #streaks;
    #motion = null;

    /** `from` and `to`: the tones of the stages that it joins. */
    constructor(unit, from, to) {
        const fill = `flow-${++flows}`;
        const streaks = LANES.flatMap(([y, shift, width, height]) =>
            Array.from({ length: 40 }, (_, at) =>
                s("rect", {
                    x: at * PERIOD + shift - width,
                    y: y - height / 2,
                    rx: height / 2,
                    width,
                    height,
                    fill: `url(#${fill})`,
                    opacity: 0.35 + height / 6,
                }),
            ),
        );
        this.#streaks = s("svg", { "aria-hidden": "true" }, fading(fill), streaks);
        this.element = h(
            "div",
            { class: `flow tone-${to}`, "--before": `var(--series-${from})`, "data-still": "true" },
            this.#number,
            h("div", { class: "flow-band" }, this.#streaks),
            h("span", { class: "flow-unit" }, unit),
        );
    }

    show(perSecond) {
        setText(this.#number, perSecond < 10_000 ? rate(perSecond) : compact(perSecond));
        const speed = perSecond > 0 && !still.matches ? SPEED * Math.log10(1 + 9 * perSecond) : 0;
        this.element.dataset.still = String(!(perSecond > 0));
        this.#motion ??= this.#streaks.animate([{ transform: "none" }, { transform: `translateX(${PERIOD}px)` }], {
            duration: 1000,
            iterations: Infinity,
        });
        if (speed) {
            this.#motion.updatePlaybackRate(Math.max(0.15, speed / PERIOD));
            this.#motion.play();
        } else this.rest();
    }

    rest() {
        this.#motion?.pause();
    }
}

/** A streak's tail: it shows the direction even when nothing moves. */
function fading(id) {
    const stop = (offset, opacity) => s("stop", { offset, "stop-color": "currentColor", "stop-opacity": opacity });
    return s("defs", {}, s("linearGradient", { id }, stop(0, 0), stop(0.75, 1)));
}
