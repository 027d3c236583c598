/** The cluster's log, and who did what to the job. */

import { get, of } from "../api.js";
import { h } from "../dom.js";
import { Page, time } from "../page.js";
import { ClusterLog } from "../parts/log.js";
import { DataTable } from "../parts/table.js";

const ACTIONS_EVERY_S = 10;

export class LogPage extends Page {
    #actions = new DataTable({
        label: "Actions, newest first",
        keyOf: (row) => row.id,
        sort: { column: "When", isDown: true },
        columns: [
            { label: "When", value: (row) => row.at, show: ({ at }) => time(at) },
            { label: "Who", value: (row) => row.who },
            { label: "What", value: (row) => row.what },
            { label: "Detail", kind: "wide", value: (row) => row.detail },
        ],
    });

    build() {
        this.log = new ClusterLog(this.job);
        this.log.classList.add("is-tall");
        this.history = h(
            "section",
            { class: "stack", hidden: true },
            h("h2", {}, "Who did what"),
            this.#actions.element,
        );
        return h("div", { class: "stack" }, this.log, this.history);
    }

    start() {
        addEventListener("log", ({ detail }) => this.log.add([detail].flat()), { signal: this.signal });
        addEventListener("catch-up", () => this.log.fillGap(), { signal: this.signal });
        this.load(
            ACTIONS_EVERY_S,
            (signal) => get(of(this.job, "actions"), {}, signal),
            ({ rows }) => {
                this.history.hidden = !rows.length;
                this.#actions.show(rows);
            },
        );
    }
}
