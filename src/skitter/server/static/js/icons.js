/** Icons, 16 by 16, in the colour of the surrounding text. */

import { s } from "./dom.js";

const PATHS = {
    overview: "M2 9.5 5.5 6l3 3L14 3.5M10.5 3.5H14V7M2 13.5h12",
    pipeline: "M1.5 5.5h4v5h-4zM10.5 5.5h4v5h-4zM5.5 8h5M8.7 6.2 10.5 8 8.7 9.8",
    charts: "M2.5 2v11.5H14M5 10.5l2.5-3 2.5 2 3.5-5",
    hosts: "M2 3h12v4H2zM2 9h12v4H2zM4.5 5h.01M4.5 11h.01",
    workers: "M5 5h6v6H5zM6.5 2.5V5M9.5 2.5V5M6.5 11v2.5M9.5 11v2.5M2.5 6.5H5M2.5 9.5H5M11 6.5h2.5M11 9.5h2.5",
    dead: "M8 1.8 14.5 13.5h-13zM8 6.5v3.2M8 11.6h.01",
    items: "M2.5 3h11v10h-11zM2.5 6.5h11M6.5 6.5V13",
    url: "M7 11.5A4.5 4.5 0 1 0 7 2.5a4.5 4.5 0 0 0 0 9zM10.3 10.3 14 14",
    log: "M3 3.5h10M3 6.5h7M3 9.5h10M3 12.5h5",
    settings: "M2.5 4.5h6M11.5 4.5h2M2.5 11.5h2M7.5 11.5h6M10 3v3M6 10v3",
    schedule: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 4.8V8l2.2 1.6",
    routes: "M3.5 13.5v-4a2 2 0 0 1 2-2h5a2 2 0 0 0 2-2v-3M10.5 4.3 12.5 2.5l2 1.8M3.5 13.5h.01",
    runs: "M2.5 3h11v10h-11zM6.5 5.8v4.4L10.2 8z",
    jobs: "M2.5 2.5H7V7H2.5zM9 2.5h4.5V7H9zM2.5 9H7v4.5H2.5zM9 9h4.5v4.5H9z",
    pause: "M5.5 3.5v9M10.5 3.5v9",
    resume: "M5 3.2v9.6L12.5 8z",
    drain: "M8 2.5v7M5 7l3 3 3-3M3 13.5h10",
    stop: "M4 4h8v8H4z",
    more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
    theme: "M13.5 9.6A6 6 0 1 1 6.4 2.5a4.8 4.8 0 0 0 7.1 7.1z",
    keys: "M1.5 4.5h13v7h-13zM4 7h.01M6.7 7h.01M9.3 7h.01M12 7h.01M5 9.5h6",
    leave: "M9.5 3H3v10h6.5M7 8h7M11.5 5.5 14 8l-2.5 2.5",
    extract: "M2.5 2.5h6l3 3v2M2.5 2.5v11h4M8.5 2.5v3h3M9 11.5h5.5M12.3 9.3l2.2 2.2-2.2 2.2",
    queue: "M2.5 4h11M2.5 8h11M2.5 12h11",
    database:
        "M13 4c0 1.1-2.2 2-5 2s-5-.9-5-2 2.2-2 5-2 5 .9 5 2zM3 4v8c0 1.1 2.2 2 5 2s5-.9 5-2V4M3 8c0 1.1 2.2 2 5 2s5-.9 5-2",
    away: "M2 2l12 12M4.5 11.5a3 3 0 0 1-.3-6M7 3.6a4 4 0 0 1 4.8 3.1 2.6 2.6 0 0 1 1.6 3.8",
};

/** @returns {SVGElement} */
export function icon(name) {
    return s(
        "svg",
        {
            viewBox: "0 0 16 16",
            fill: "none",
            stroke: "currentColor",
            "stroke-width": 1.5,
            "stroke-linecap": "round",
            "stroke-linejoin": "round",
            "aria-hidden": "true",
        },
        s("path", { d: PATHS[name] }),
    );
}

/** The mark: a body with six legs. */
export function mark() {
    return s(
        "svg",
        {
            viewBox: "0 0 32 32",
            fill: "none",
            stroke: "currentColor",
            "stroke-width": 2.4,
            "stroke-linecap": "round",
            "stroke-linejoin": "round",
            "aria-hidden": "true",
        },
        s("path", { d: "M11 13 6 10 4 4M10 17H3M11 20l-5 3-2 6M21 13l5-3 2-6M22 17h7M21 20l5 3 2 6" }),
        s("circle", { cx: 16, cy: 17, r: 5.6, fill: "currentColor" }),
    );
}
