/** Ask again and again: while the page is open and somebody may be looking. */

/**
 * @param {object} what
 * @param {(signal: AbortSignal) => Promise<any>} what.load
 * @param {(value: any) => void} what.show
 * @param {(error: Error) => void} what.fail
 * @param {number} what.every seconds; 0: once
 * @param {AbortSignal} what.signal ends it
 * @returns {() => void} ask now
 */
export function poll({ load, show, fail, every, signal }) {
    let timer = 0;
    let turn = 0;

    async function ask() {
        clearTimeout(timer);
        const mine = ++turn;
        const isLatest = () => mine === turn && !signal.aborted;
        try {
            if (document.hidden && mine > 1) return;
            const value = await load(signal);
            if (isLatest()) show(value);
        } catch (error) {
            if (isLatest() && error.name !== "AbortError") fail(error);
        } finally {
            if (isLatest() && every) timer = setTimeout(ask, every * 1000);
        }
    }

    document.addEventListener("visibilitychange", () => document.hidden || ask(), { signal });
    signal.addEventListener("abort", () => clearTimeout(timer));
    ask();
    return ask;
}
