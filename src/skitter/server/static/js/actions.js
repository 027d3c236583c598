/** Everything that changes a job: its label, its confirmation, and the equivalent command. */

import { of, post, put, remove } from "./api.js";
import { ask } from "./dialog.js";
import { h } from "./dom.js";
import { quoted, some } from "./format.js";
import { icon } from "./icons.js";
import { go } from "./router.js";
import { may, store } from "./store.js";
import { withTip } from "./tip.js";
import { complain, toast } from "./toast.js";

/** Do something and report the outcome. Resolves to the answer, or null. */
export async function attempt(work, says) {
    try {
        const answer = await work();
        toast(typeof says === "function" ? says(answer) : says);
        return answer;
    } catch (error) {
        complain(error);
        return null;
    }
}

/** A button that changes a job; disabled for read-only tokens. */
export function actionButton({ label, drawing, says = "", cli, kind = "", run }) {
    const allowed = may("operate");
    const button = h("button", { class: kind, disabled: !allowed, onclick: run }, drawing && icon(drawing), label);
    return withTip(button, { says: allowed ? says : "Your token is read-only.", cli });
}

const FRESH_MS = 3000;
let steered = null; // what a job was told last

async function steer(job, verb, done) {
    const answer = await attempt(() => post(of(job, verb)), `${job}: ${done}.`);
    if (!answer) return;
    steered = { job, state: answer.state, at: performance.now() };
    const overview = store.get("overview");
    if (overview?.job === job) store.set("overview", asSteered(overview));
}

/** An overview that was on its way already does not undo what the answer said. */
export function asSteered(overview) {
    const isLate = steered?.job === overview.job && performance.now() - steered.at < FRESH_MS;
    if (!isLate) return overview;
    return { ...overview, wanted: steered.state, state: shown(overview, steered.state) };
}

function shown(overview, state) {
    return overview.finished && state !== "cancelled" ? "finished" : state;
}

export const pause = (job) => steer(job, "pause", "paused; pages in flight are finished");
export const resume = (job) => steer(job, "resume", "running");

export async function drain(job) {
    const says = ["Workers finish the queue; new URLs are refused until you resume the job."];
    if (await ask({ title: `Drain ${job}?`, says, yes: "Drain", cli: `skitter drain ${job}` }))
        await steer(job, "drain", "draining");
}

export async function cancel(job) {
    const says = ["Workers stop; new URLs are refused. The queue stays: resume continues, purge removes it."];
    const sure = await ask({
        title: `Cancel ${job}?`,
        says,
        yes: "Cancel the job",
        cli: `skitter cancel ${job}`,
        isDangerous: true,
    });
    if (sure) await steer(job, "cancel", "cancelled");
}

export async function purge(job) {
    const overview = store.get("overview");
    const numbers =
        overview?.job === job
            ? ` ${some(overview.seen, "URL")} and ${some(overview.items, "item")} that wait are lost.`
            : "";
    const sure = await ask({
        title: `Purge ${job}?`,
        says: [
            `This removes the job with its queue, history and items, and cannot be undone.${numbers} What is in your database stays.`,
        ],
        yes: "Purge",
        cli: `skitter purge ${job}`,
        type: job,
        isDangerous: true,
    });
    if (!sure) return;
    if (await attempt(() => remove(of(job), { confirm: job }), `${job}: removed.`)) go(null, "jobs");
}

export function scale(job, workers, perMachine = false) {
    const unit = perMachine ? "per machine" : "in all";
    const says = workers ? `${job}: ${some(workers, "worker")} ${unit}.` : `${job}: the number of workers is automatic.`;
    return attempt(() => put(of(job, "workers"), { workers, per_machine: perMachine }), says);
}

/** Whether nothing is left to fetch and nobody waits for more: there is nothing to stop. */
export function isOver({ finished, workers }) {
    return finished && !workers?.length;
}

/** The buttons in a job's header, and which states of the job they fit. */
export function jobActions(job) {
    const name = quoted(job);
    const steps = [
        {
            label: "Pause",
            drawing: "pause",
            says: "Stop handing out URLs; new ones are still accepted.",
            cli: `skitter pause ${name}`,
            run: () => pause(job),
            fits: (overview) => !isOver(overview) && ["running", "draining"].includes(overview.wanted),
        },
        {
            label: "Resume",
            drawing: "resume",
            says: "Continue.",
            cli: `skitter resume ${name}`,
            kind: "primary",
            run: () => resume(job),
            fits: ({ wanted }) => wanted !== "running",
        },
        {
            label: "Drain",
            drawing: "drain",
            says: "Finish the queue; accept no new URLs. New links are lost: Pause keeps them.",
            cli: `skitter drain ${name}`,
            run: () => drain(job),
            fits: (overview) => !isOver(overview) && ["running", "paused"].includes(overview.wanted),
        },
        {
            label: "Cancel",
            drawing: "stop",
            says: "Stop. The queue stays.",
            cli: `skitter cancel ${name}`,
            kind: "danger",
            run: () => cancel(job),
            fits: (overview) => !isOver(overview) && overview.wanted !== "cancelled",
        },
        {
            label: "Purge",
            says: "Remove the job and everything in it.",
            cli: `skitter purge ${name}`,
            kind: "danger",
            run: () => purge(job),
            fits: (overview) => isOver(overview) || overview.wanted === "cancelled",
        },
    ];
    return steps.map((step) => ({ button: actionButton(step), fits: step.fits }));
}
