/** SVG paths for a series. Gaps (null) stay gaps. Pure. */

/**
 * @param {(number | null)[]} values
 * @param {(at: number) => number} x
 * @param {(value: number) => number} y
 */
export function linePath(values, x, y) {
    return runs(values)
        .map((run) => `M${run.map((at) => point(at, values, x, y)).join("L")}`)
        .join("");
}

/** The same, closed along the bottom. */
export function areaPath(values, x, y, bottom) {
    const closed = (run) => {
        const line = run.map((at) => point(at, values, x, y)).join("L");
        return `M${x(run[0]).toFixed(1)} ${bottom}L${line}L${x(run.at(-1)).toFixed(1)} ${bottom}Z`;
    };
    return runs(values).map(closed).join("");
}

function point(at, values, x, y) {
    return `${x(at).toFixed(1)} ${y(values[at]).toFixed(1)}`;
}

/** Runs of consecutive indexes without a gap. */
export function runs(values) {
    const found = [];
    values.forEach((value, at) => {
        if (value === null || value === undefined) return;
        if (found.length && found.at(-1).at(-1) === at - 1) found.at(-1).push(at);
        else found.push([at]);
    });
    return found;
}

/** At most `most` indexes, evenly spaced, including the newest. */
export function thinned(length, most) {
    const step = Math.max(1, Math.ceil(length / most));
    const places = [];
    for (let at = length - 1; at >= 0; at -= step) places.push(at);
    return places;
}
