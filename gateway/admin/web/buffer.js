// The buffer: the same numbers as `tidegate buffer`, the next readings to go, and the drain.

import { card, el, facts, setClass, setText } from "./dom.js";
import { bytes, count, counted, duration, percent, rate } from "./format.js";
import { act, ask, hint, isViewer, mayAct, onSession, signIn } from "./session.js";

const ASIDE_SHOWN = 50;

export class Buffer {
  title = "Buffer";

  constructor(page) {
    this.page = page;
    this.depth = el("p", { class: "number", id: "depth", text: "–" });
    this.words = el("p");
    this.meter = el("meter", { min: 0, max: 1, low: 0.6, high: 0.8, optimum: 0, value: 0, "aria-label": "Buffer full" });
    this.facts = el("div");
    this.dropped = el("div");
    this.drain = el("button", { type: "button", on: { click: () => this.#turn() } });
    this.export = el("a", { class: "button", href: "api/buffer/export", download: true, text: "Export" });
    this.hint = el("p", { class: "quiet" });
    this.next = el("div");
    this.aside = el("div");
    this.asideCard = card("Set aside", el("p", { class: "quiet", text: "Readings that the broker does not take. They wait here until they are sent again or deleted." }), this.aside);
    this.asideCard.hidden = true;
    this.nodes = [
      el("h1", { text: "Buffer" }),
      el("section", { class: "card tile" }, el("h2", { text: "Waiting for the broker" }), this.depth, el("div", { class: "drawing" }, this.meter), this.words, this.facts,
        el("div", { class: "row" }, this.drain, this.export), this.hint),
      this.asideCard,
      card("Dropped", this.dropped),
      card("Next to go", el("p", { class: "row" }, el("button", { type: "button", text: "Read from the disk", on: { click: () => this.#peek() } })), this.next),
    ];
    this.stop = onSession(() => this.#showActions());
  }

  close() {
    this.stop();
  }

  asked() {
    return { view: "buffer" };
  }

  hear(name, body) {
    if (name !== "buffer") return;
    this.body = body;
    setText(this.depth, count(body.depth));
    setText(this.words, this.#said(body));
    this.meter.value = body.fill;
    this.facts.replaceChildren(facts([
      ["Journal", body.error ? `${body.condition}: ${body.error}` : body.condition],
      ["Broker", body.upstream_state],
      ["Used", `${bytes(body.used_bytes)} of ${bytes(body.budget_bytes)}, ${percent(body.fill)} full`],
      ["Rate", `${rate(body.in_per_s)} in and ${rate(body.out_per_s)} out a second`],
      ["Of these on disk alone", count(body.parked)],
      ["Disk", body.sync_s_p99 === null ? null : `${(body.sync_s_p99 * 1000).toFixed(1)} ms for 99 % of its writes, ${(body.sync_s_worst * 1000).toFixed(1)} ms at worst`],
      ["Lost to damage", body.lost ? counted(body.lost, "reading") : null],
    ]));
    this.#hearAside(body.aside);
    const dropped = Object.entries(body.dropped).filter(([, number]) => number);
    this.dropped.replaceChildren(dropped.length ? facts(dropped.map(([why, number]) => [why.replaceAll("_", " "), count(number)])) : el("p", { class: "none", text: "nothing" }));
    this.#showActions();
  }

  #said(body) {
    if (!body.depth) return "Nothing waits: what comes goes to the broker at once.";
    const drained = body.drain_paused ? "the drain is paused" : body.drain_s === null ? "does not drain at this rate" : `drained in ${duration(body.drain_s)}`;
    const age = body.oldest_age_s === null ? "" : `the oldest for ${duration(body.oldest_age_s)}, `;
    return `${body.depth === 1 ? "reading" : "readings"}, ${age}${drained}`;
  }

  #showActions() {
    const isPaused = this.body?.drain_paused ?? false;
    setText(this.drain, isPaused ? "Let it drain" : "Pause the drain");
    setClass(this.drain, isPaused ? "main" : "");
    this.drain.hidden = isViewer();
    this.drain.disabled = !mayAct();
    this.export.hidden = !mayAct();
    setText(this.hint, hint("pause the drain or to export"));
  }

  #hearAside(aside) {
    this.asideCard.hidden = !aside.readings;
    const mark = JSON.stringify([aside.readings, aside.set_aside, aside.subjects]);
    if (mark === this.asideMark) return;
    this.asideMark = mark;
    if (aside.readings) this.#readAside();
    else this.aside.replaceChildren();
  }

  async #readAside() {
    const answer = await fetch("api/buffer/aside").catch(() => null);
    const body = await answer?.json().catch(() => null);
    if (!answer?.ok || !body) return;
    const head = ["Device", "Topic", "QoS", "Set aside", "Payload", "Why", ""];
    this.aside.replaceChildren(
      el("div", { class: "row" },
        el("button", { type: "button", text: "Send all again", on: { click: () => this.#actAside("aside_send", "all") } }),
        el("button", { type: "button", text: "Delete all", on: { click: () => this.#deleteAll(body.readings.length) } })),
      el("div", { class: "scroll" }, el("table", {},
        el("thead", {}, el("tr", {}, head.map((text) => el("th", { scope: "col", text })))),
        el("tbody", {}, body.readings.slice(0, ASIDE_SHOWN).map((one) => this.#asideRow(one))))));
    if (body.readings.length > ASIDE_SHOWN) this.aside.append(el("p", { class: "quiet", text: `The first ${ASIDE_SHOWN} of ${body.readings.length}; tidegate buffer aside lists them all.` }));
  }

  #asideRow(one) {
    return el("tr", {}, el("th", { scope: "row", text: one.client }), el("td", { text: one.topic }), el("td", { text: String(one.qos) }),
      el("td", { text: new Date(one.set_aside_ms).toLocaleString() }), el("td", { class: "payload", text: one.shown }), el("td", { text: one.reason }),
      el("td", { class: "row" },
        el("button", { type: "button", text: "Send", on: { click: () => this.#actAside("aside_send", [one.number]) } }),
        el("button", { type: "button", text: "Delete", on: { click: () => this.#actAside("aside_delete", [one.number]) } })));
  }

  async #deleteAll(number) {
    if (!mayAct() && !(await signIn())) return;
    const said = await ask({
      title: `Delete ${counted(number, "reading")}?`,
      text: "They are gone for good. tidegate buffer aside export keeps a copy.",
      yes: "Delete",
      isGrave: true,
      done: () => act("aside_delete", { numbers: "all" }),
    });
    if (said) this.page.say(said);
  }

  async #actAside(action, numbers) {
    if (!mayAct()) {
      signIn();
      return;
    }
    try {
      this.page.say(await act(action, { numbers }));
      this.asideMark = null;
    } catch (problem) {
      this.page.say(problem.message);
    }
  }

  async #turn() {
    try {
      this.page.say(await act(this.body?.drain_paused ? "resume" : "pause"));
    } catch (problem) {
      this.page.say(problem.message);
      if (!mayAct()) signIn();
    }
  }

  async #peek() {
    this.next.replaceChildren(el("p", { class: "none", text: "reading ..." }));
    const answer = await fetch("api/buffer/peek").catch(() => null);
    const body = await answer?.json().catch(() => null);
    const readings = body?.readings ?? [];
    if (!answer?.ok || !readings.length) {
      this.next.replaceChildren(el("p", { class: "none", text: answer?.ok ? "nothing waits" : body?.error ?? "the gateway does not answer" }));
      return;
    }
    this.next.replaceChildren(el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, ["Device", "Topic", "QoS", "Age", "Payload"].map((text) => el("th", { scope: "col", text })))),
      el("tbody", {}, readings.map((one) => el("tr", {}, el("th", { scope: "row", text: one.client }), el("td", { text: one.topic }), el("td", { text: String(one.qos) }),
        el("td", { text: duration(one.age_s) }), el("td", { class: "payload", text: one.shown })))))));
  }
}
