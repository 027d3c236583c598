/** A sparkline: the last minutes as a line without axes. */

import { s } from "../dom.js";

const WIDTH = 100;
const HEIGHT = 40;

export class Spark {
    #line = s("path", { class: "line" });
    #area = s("path", { class: "area" });

    constructor(tone = 1) {
        this.element = s(
            "svg",
            {
                class: `spark tone-${tone}`,
                viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
                preserveAspectRatio: "none",
                "aria-hidden": "true",
            },
            this.#area,
            this.#line,
        );
    }

    /** @param {(number | null)[]} values oldest first */
    show(values) {
        const known = values.map((value) => value ?? 0);
        if (known.length === 1) known.push(known[0]); // a line from the start: nothing jumps
        const peak = Math.max(...known, 1e-9);
        const step = WIDTH / Math.max(1, known.length - 1);
        const points = known.map(
            (value, at) => `${(at * step).toFixed(2)} ${(HEIGHT - 2 - (value / peak) * (HEIGHT - 5)).toFixed(2)}`,
        );
        const path = points.length ? `M${points.join("L")}` : "";
        this.#line.setAttribute("d", path);
        this.#area.setAttribute("d", path && `${path}L${WIDTH} ${HEIGHT}L0 ${HEIGHT}Z`);
    }
}

/** The last `limit` values of something that changes. */
export class Recent {
    constructor(limit = 120) {
        this.limit = limit;
        this.values = [];
    }

    begin(values) {
        this.values = [...values.slice(-this.limit), ...this.values].slice(-this.limit);
    }

    add(value) {
        this.values.push(value);
        if (this.values.length > this.limit) this.values.shift();
        return this.values;
    }
}
