/** Poll while the page is open and visible. */

const RETRY_S = 5;

/**
 * @param {object} what
 * @param {(signal: AbortSignal) => Promise<any>} what.load
 * @param {(value: any) => void} what.show
 * @param {(error: Error) => void} what.fail
 * @param {number} what.every seconds; 0: until the first success
 * @param {AbortSignal} what.signal stops it
 * @returns {() => void} polls now
 */
export function poll({ load, show, fail, every, signal }) {
    let timer = 0;
    let turn = 0;
    let hasFailed = false;

    async function ask() {
        clearTimeout(timer);
        const mine = ++turn;
        const isLatest = () => mine === turn && !signal.aborted;
        try {
            if (document.hidden && mine > 1) return;
            const value = await load(signal);
            hasFailed = false;
            if (isLatest()) show(value);
        } catch (error) {
            hasFailed = true;
            if (isLatest() && error.name !== "AbortError") fail(error);
        } finally {
            const wait = every || (hasFailed && RETRY_S);
            if (isLatest() && wait) timer = setTimeout(ask, wait * 1000);
        }
    }

    document.addEventListener("visibilitychange", () => document.hidden || ask(), { signal });
    addEventListener("catch-up", () => hasFailed && ask(), { signal }); // the server is back
    signal.addEventListener("abort", () => clearTimeout(timer));
    ask();
    return ask;
}
