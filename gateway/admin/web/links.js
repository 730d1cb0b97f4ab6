// The links to sensors, and letting another program have a serial port for a while.

import { Keyed, card, el, field, setClass, setText } from "./dom.js";
import { count, counted } from "./format.js";
import { act, ask, mayAct, onSession } from "./session.js";

const MINUTES = [5, 15, 60];

export class Links {
  constructor(page) {
    this.page = page;
    const body = el("tbody");
    this.rows = new Keyed(body, (name) => this.#row(name));
    this.node = card("Links", el("div", { class: "scroll" }, el("table", { class: "links cards" },
      el("thead", {}, el("tr", {}, ["Link", "Where", "State"].map((text) => el("th", { text })),
        ["Received", "Sent"].map((text) => el("th", { class: "number", text })))), body)));
    this.links = new Map();
    this.stop = onSession(() => this.#update());
  }

  close() {
    this.stop();
  }

  show(links) {
    this.links = new Map(links.map((link) => [link.name, link]));
    this.#update();
  }

  #update() {
    this.rows.show([...this.links.keys()], (name) => this.links.get(name));
  }

  #row(name) {
    const [where, state, received, sent] = [el("td", { class: "wide" }), el("span"), el("td", { class: "number" }), el("td", { class: "number" })];
    const lend = el("button", { type: "button", on: { click: () => this.#lend(this.links.get(name)) } });
    const row = el("p", { class: "row" }, lend);
    return {
      node: el("tr", {}, el("th", { scope: "row", text: name }), where, el("td", {}, state, row), received, sent),
      update(link) {
        setText(where, link.listening_on);
        setText(state, said(link));
        setClass(state, link.line?.problem || link.group_joined === false ? "bad" : "good");
        setText(received, count(link.datagrams_received));
        setText(sent, count(link.datagrams_sent));
        row.hidden = !link.line || !mayAct();
        setText(lend, link.line?.released_s ? "Take it back" : "Release the port");
      },
    };
  }

  async #lend(link) {
    try {
      const answer = link.line.released_s ? await act("release", { line: link.name, minutes: 0 }) : await this.#ask(link);
      if (answer) this.page.say(answer);
    } catch (problem) {
      this.page.say(problem.message);
    }
  }

  #ask(link) {
    const minutes = el("select", {}, MINUTES.map((each) => el("option", { value: each, text: `${each} minutes` })));
    return ask({
      title: `Release ${link.name}`,
      text: "Another program can have the port meanwhile, to flash its board or to look at it. For its sensors it is as if the cable were pulled. The gateway opens it again by itself.",
      fields: [field("For", minutes)],
      yes: "Release",
      done: () => act("release", { line: link.name, minutes: Number(minutes.value) }),
    });
  }
}

function said(link) {
  if (link.line) {
    if (link.line.released_s) return `released for ${Math.ceil(link.line.released_s / 60)} min more`;
    const damaged = Object.entries(link.line.frames).reduce((sum, [kind, number]) => sum + (kind === "good" ? 0 : number), 0);
    const words = link.line.problem ?? (link.line.is_open ? "open" : "closed");
    return damaged ? `${words}, ${counted(damaged, "frame")} damaged` : words;
  }
  if (link.dtls) {
    const refused = Object.values(link.dtls.refused).reduce((sum, number) => sum + number, 0);
    const more = [counted(link.dtls.sessions, "DTLS session")];
    if (link.dtls.half_open) more.push(`${count(link.dtls.half_open)} half open`);
    if (refused) more.push(`${counted(refused, "handshake")} refused`);
    return `listens, ${more.join(", ")}${tooFast(link)}`;
  }
  return (link.group_joined === false ? "listens, but its group is not joined" : "listens") + tooFast(link);
}

function tooFast(link) {
  return link.receive_buffer_drops ? `, ${count(link.receive_buffer_drops)} came too fast` : "";
}
