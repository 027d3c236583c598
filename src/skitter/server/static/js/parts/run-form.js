/** Start a run: a spider that an agent offers, its arguments, and the settings of the pipeline. */

import { attempt } from "../actions.js";
import { get, post } from "../api.js";
import { ask, cliLine } from "../dialog.js";
import { h } from "../dom.js";
import { quoted } from "../format.js";
import { complain } from "../toast.js";

/** What the panel shows, by the key of the setting. All others are the spider's, or the agent's. */
const PANEL = [
    ["workers.processes", "Max workers", "--workers", "the agent's own"],
    ["politeness.delay_s", "Delay between requests to a host, in seconds", "--delay", "the spider's own"],
    ["limits.max_pages", "Max pages", "--max-pages", "no limit"],
    ["limits.max_depth", "Max depth", "--max-depth", "no limit"],
];

/** Ask what to run, and start it. Resolves to the run, or null. */
export async function askRun(job = null) {
    let offers;
    try {
        offers = await get("api/spiders");
    } catch (error) {
        complain(error);
        return null;
    }
    const able = offers.spiders.filter(({ error }) => !error);
    if (!able.length) return sayHow();
    const form = new RunForm(able, job);
    const says = offers.agents.length ? [] : ["No agent is running: the run waits for one."];
    const title = "Run a spider";
    if (!(await ask({ title, says: [...says, form.element], yes: "Run" }))) return null;
    return attempt(
        () => post("api/runs", form.body),
        (run) => `Run ${run.id} of ${run.spider} is started.`,
    );
}

async function sayHow() {
    const says = [
        "Crawls are started from here where an agent serves them. Start one in the folder of your spiders:",
        cliLine("skitter agent --spiders 'spiders/*.py'"),
    ];
    await ask({ title: "No agent offers a spider", says, yes: "Close" });
    return null;
}

class RunForm {
    #spider = h("select", { id: "run-spider" });
    #arguments = h("div", { class: "stack" });
    #others = h("input", { id: "run-others", placeholder: "name=value, name=value", spellcheck: "false" });
    #fresh = h("input", { type: "checkbox", id: "run-fresh" });
    #out = h("input", { id: "run-out", placeholder: "the agent's own", spellcheck: "false", pattern: "[\\w.\\-]+" });
    #outField = field("Output file", this.#out);
    #settings = PANEL.map(([key, , , placeholder]) => h("input", { id: `run-${key}`, placeholder, spellcheck: "false" }));
    #cli = h("code", {});

    constructor(offers, job) {
        this.offers = new Map(offers.map((offer) => [offer.name, offer]));
        this.#spider.append(
            ...offers.map(({ name, job: own }) => h("option", { value: name, selected: [name, own].includes(job) }, name)),
        );
        const panel = PANEL.map(([, label], at) => field(label, this.#settings[at]));
        this.element = h(
            "div",
            { class: "stack" },
            field("Spider", this.#spider),
            this.#arguments,
            ...panel,
            this.#outField,
            h("label", { class: "check", for: "run-fresh" }, this.#fresh, "Start over, without the earlier rows"),
            h("div", { class: "cli" }, this.#cli),
        );
        this.#spider.addEventListener("change", () => this.#showArguments());
        this.element.addEventListener("input", () => this.#showCommand());
        this.#showArguments();
    }

    #showArguments() {
        const { arguments: taken, takes_any: takesAny, settings } = this.offers.get(this.#spider.value);
        const inputs = taken.map((one) => field(`${one.name} (${one.type})`, inputFor(one)));
        this.#arguments.replaceChildren(...inputs, ...(takesAny ? [field("Other arguments", this.#others)] : []));
        this.#outField.hidden = settings.length > 0; // a Scrapy project says where items go
        this.#showCommand();
    }

    get #output() {
        return this.#outField.hidden ? "" : this.#out.value.trim();
    }

    #showCommand() {
        const words = ["skitter start", quoted(this.#spider.value)];
        for (const [name, value] of Object.entries(this.#given)) words.push(`-a ${quoted(`${name}=${value}`)}`);
        PANEL.forEach(([, , flag], at) => {
            const value = this.#settings[at].value.trim();
            if (value) words.push(`${flag} ${quoted(value)}`);
        });
        if (this.#output) words.push(`--out ${quoted(this.#output)}`);
        if (this.#fresh.checked) words.push("--fresh");
        this.#cli.textContent = words.join(" ");
    }

    /** The arguments that differ from the defaults. */
    get #given() {
        const inputs = [...this.#arguments.querySelectorAll("[data-argument]")];
        const named = inputs
            .filter(({ value, dataset }) => value !== (dataset.default ?? ""))
            .map(({ value, dataset }) => [dataset.argument, value]);
        return Object.fromEntries([...(this.#arguments.contains(this.#others) ? pairs(this.#others.value) : []), ...named]);
    }

    get body() {
        const settings = PANEL.map(([key], at) => [key, this.#settings[at].value.trim()]).filter(([, value]) => value);
        return {
            spider: this.#spider.value,
            arguments: this.#given,
            settings: Object.fromEntries(settings.map(([key, value]) => [key, numbered(key, value)])),
            out: this.#output,
            fresh: this.#fresh.checked,
        };
    }
}

/** `a=1, b=2` as pairs. */
function pairs(text) {
    const parts = text.split(",").map((part) => part.trim());
    return parts.filter(Boolean).map((part) => [part.split("=")[0].trim(), part.split("=").slice(1).join("=").trim()]);
}

/** Numbers as numbers; what is none is refused by the server, which says what it takes. */
function numbered(key, value) {
    return key !== "workers.processes" && Number.isFinite(Number(value)) ? Number(value) : value;
}

function inputFor({ name, default: given, choices }) {
    const about = { id: `run-a-${name}`, "data-argument": name, "data-default": given };
    if (choices.length)
        return h(
            "select",
            about,
            choices.map((one) => h("option", { value: one, selected: one === given }, one)),
        );
    return h("input", { ...about, value: given ?? "", required: given === null, spellcheck: "false" });
}

function field(label, input) {
    return h("div", { class: "field" }, h("label", { for: input.id }, label), input);
}
