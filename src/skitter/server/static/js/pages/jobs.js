/** All jobs on the server. */

import { h, setText } from "../dom.js";
import { duration, rate, some } from "../format.js";
import { icon } from "../icons.js";
import { empty, Page } from "../page.js";
import { progress } from "../parts/progress.js";
import { showState, statePill } from "../parts/pill.js";
import { linkTo } from "../router.js";

export class JobsPage extends Page {
    #cards = new Map(); // job -> { element, show }
    #grid = h("div", { class: "grid" });

    build() {
        return this.#grid;
    }

    start() {
        this.follow("jobs", (jobs) => this.#show(jobs));
    }

    #show(jobs) {
        const cards = [...jobs].sort(byActivity).map((job) => {
            if (!this.#cards.has(job.job)) this.#cards.set(job.job, jobCard(job.job));
            this.#cards.get(job.job).show(job);
            return this.#cards.get(job.job).element;
        });
        const isSame =
            cards.length === this.#grid.childElementCount &&
            cards.every((card, at) => card === this.#grid.children[at]);
        if (!cards.length)
            this.#grid.replaceChildren(
                empty(
                    icon("jobs"),
                    "There are no jobs yet",
                    "Start one: ",
                    h("code", {}, "skitter run SPIDER.py"),
                    " or ",
                    h("code", {}, "skitter crawl URL"),
                ),
            );
        else if (!isSame) this.#grid.replaceChildren(...cards);
    }
}

const ORDER = ["running", "draining", "paused", "cancelled", "finished"];

function byActivity(a, b) {
    return ORDER.indexOf(a.state) - ORDER.indexOf(b.state) || a.job.localeCompare(b.job);
}

function jobCard(name) {
    const pill = statePill("");
    const says = h("p", { class: "small muted" });
    const bar = progress({ isShort: true });
    const element = h(
        "a",
        { class: "card job-card", href: linkTo(name) },
        h("div", { class: "card-head" }, h("h2", {}, name), pill),
        says,
        bar.element,
    );
    const show = (job) => {
        showState(pill, job.state);
        setText(says, sentence(job));
        bar.show(job);
    };
    return { element, show };
}

function sentence({ pages_per_s: pages, eta_s: eta, stored, done, state }) {
    if (state === "finished") return `${some(done, "page")}, ${some(stored, "item")} stored`;
    const left = eta === null || eta === undefined ? "" : `, about ${duration(eta)} left`;
    return `${rate(pages ?? 0)} pages/s, ${some(stored, "item")} stored${left}`;
}
