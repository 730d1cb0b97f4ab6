// One device: what it does, what it said, what it is subscribed to, and what can be done with it.

import { Keyed, card, el, facts, field, setClass, setText } from "./dom.js";
import { ago, bytes, clock, count, counted, duration, presence, value } from "./format.js";
import { act, ask, hint, isViewer, mayAct, onSession } from "./session.js";
import { sign, spark } from "./sign.js";

export class Device {
  constructor(page, _parameters, id) {
    this.page = page;
    this.id = id;
    this.title = id;
    this.client = null;
    this.state = el("p", { class: "state large", text: "" });
    this.heard = el("span");
    this.facts = el("section", { class: "card", "aria-label": "About it" });
    this.values = el("div", { class: "strands" });
    this.strands = new Keyed(this.values, strand);
    this.silent = el("p", { class: "none", text: "It has said nothing since the gateway started." });
    this.known = el("div", { class: "columns" });
    this.missing = el("p", { class: "none", hidden: true, text: "No such device is known, or not any more." });
    this.actions = el("div", { class: "row" });
    this.hint = el("p", { class: "quiet" });
    this.whole = el("div", { class: "stack" }, this.state, this.facts, card("What it said last", this.silent, this.values), this.known, card("Act", this.actions, this.hint));
    this.nodes = [
      el("p", {}, el("a", { href: "#/devices", text: "← Devices" })),
      el("h1", { text: id, class: "name" }),
      this.missing,
      this.whole,
    ];
    this.stop = onSession(() => this.#showActions());
  }

  close() {
    this.stop();
  }

  asked() {
    return { view: "device", id: this.id };
  }

  hear(name, body) {
    if (name !== "client" || body.id !== this.id) return;
    this.client = body.client;
    this.missing.hidden = Boolean(this.client);
    this.whole.hidden = !this.client;
    if (!this.client) return;
    const latest = new Map(body.latest.map((each) => [each.topic, each]));
    this.silent.hidden = latest.size > 0;
    this.strands.show([...latest.keys()], (topic) => latest.get(topic));
    this.latest = latest;
    this.#showFacts(this.client);
    this.#showKnown(this.client);
    this.tick();
  }

  tick() {
    if (!this.client) return;
    const is = presence(this.client);
    setClass(this.state, `state large ${is.kind}`);
    const said = `${is.text}, last heard ${ago(this.client.heard_at)}`;
    if (this.said !== said) {
      this.said = said;
      this.state.replaceChildren(sign(is.kind), el("span", { text: said }));
    }
    this.strands.each((part, topic) => part.update(this.latest.get(topic)));
  }

  #showFacts(client) {
    const will = client.will && `${client.will.topic}, QoS ${client.will.qos}${client.will.retain ? ", retained" : ""}`;
    const waiting = client.queued_messages ? `${counted(client.queued_messages, "message")}, ${bytes(client.queued_bytes)}` : "nothing";
    this.facts.replaceChildren(facts([
      ["Link", `${client.link} ${client.address}`],
      ["Waits for it", waiting],
      ["Never acknowledged", client.given_up_messages ? `${counted(client.given_up_messages, "message")}, given up after three rounds of repeats; the last on ${client.given_up_topic}` : null],
      ["Speaks at least every", client.keep_alive_s ? duration(client.keep_alive_s) : "said nothing of it"],
      ["Sleeps for", client.sleep_s ? duration(client.sleep_s) : null],
      ["Session", client.clean ? "ends with its connection" : "stays while it is away"],
      ["Will", will],
    ], ["Never acknowledged", "Will"]));
  }

  #showKnown(client) {
    const topics = [...(client.topic_ids ?? []), ...(client.predefined_topic_ids ?? [])];
    const shown = JSON.stringify([topics, client.subscribed]);
    if (shown === this.shown) return;
    this.shown = shown;
    this.known.replaceChildren(
      list("Topics it may name by number", ["Id", "Topic"], topics.map(({ id, topic }) => [id, topic])),
      list("Subscribed to", ["QoS", "Filter"], (client.subscribed ?? []).map(({ qos, filter }) => [qos, filter])));
  }

  // Actions

  #showActions() {
    const may = mayAct();
    this.actions.hidden = isViewer();
    this.actions.replaceChildren(
      el("button", { type: "button", class: "main", disabled: !may, text: "Send a message", on: { click: () => this.#publish() } }),
      el("button", { type: "button", class: "grave", disabled: !may, text: "Forget", on: { click: () => this.#forget() } }));
    setText(this.hint, hint("act"));
  }

  async #publish() {
    const known = [...(this.client?.subscribed ?? [])].map(({ filter }) => filter).filter((filter) => !/[+#]/.test(filter));
    const topic = el("input", { type: "text", required: true, value: known[0] ?? "", autocomplete: "off", spellcheck: "false" });
    const payload = el("textarea", { rows: 3, spellcheck: "false" });
    const qos = el("select", {}, [0, 1, 2].map((each) => el("option", { value: each, text: String(each), selected: each === 1 })));
    const hex = el("input", { type: "checkbox" });
    const said = await ask({
      title: `A message for ${this.id}`,
      text: "It takes the way of every message: a device that sleeps gets it when it wakes up.",
      fields: [field("Topic", topic), field("Message", payload), el("div", { class: "row" }, field("QoS", qos), el("label", { class: "check" }, hex, "hexadecimal"))],
      yes: "Send",
      done: () => act("publish", { client: this.id, topic: topic.value, payload: payload.value, qos: Number(qos.value), hex: hex.checked }),
    });
    if (said) this.page.say(`The message is ${said}.`.replace("is waits", "waits"));
  }

  async #forget() {
    const said = await ask({
      title: `Forget ${this.id}?`,
      text: "Its session, topic ids, subscriptions and what waits for it are removed. Readings on disk still go to the broker. If it is alive, it connects again as a new device.",
      yes: "Forget",
      isGrave: true,
      done: () => act("forget", { client: this.id }),
    });
    if (!said) return;
    this.page.say(`${this.id}: ${said}`);
    this.page.go("/devices");
  }
}

function strand(topic) {
  const [when, numbers] = [el("span", { class: "quiet" }), el("div", { class: "numbers" })];
  let shown = "";
  return {
    node: el("section", { class: "strand" }, el("h3", { text: topic }), when, numbers),
    update(latest) {
      setText(when, `${ago(latest.heard_at)}, at ${clock(latest.heard_at, { seconds: true })}, QoS ${latest.qos}${latest.retain ? ", retained" : ""}, ${counted(latest.bytes, "byte")}`);
      const now = JSON.stringify(latest.values);
      if (now === shown) return;
      shown = now;
      numbers.replaceChildren(...latest.values.map(figure));
    },
  };
}

function figure(one) {
  const past = one.past;
  const label = past.length > 1 ? `${one.name || "value"}, the last ${past.length}: from ${Math.min(...past)} to ${Math.max(...past)}` : "";
  return el("figure", {},
    el("figcaption", {}, one.name && el("span", { class: "quiet", text: one.name }), el("strong", { text: value(one) })),
    past.length > 1 && spark(past, { width: 240, height: 56, label }),
    past.length > 1 && el("small", { class: "quiet range" }, el("span", { text: `least ${value({ ...one, value: Math.min(...past) })}` }), el("span", { text: `most ${value({ ...one, value: Math.max(...past) })}` })));
}

function list(title, heads, rows) {
  if (!rows.length) return card(title, el("p", { class: "none", text: "none" }));
  return card(`${title} (${count(rows.length)})`, el("div", { class: "scroll tall" }, el("table", { class: "plain" },
    el("thead", {}, el("tr", {}, heads.map((text) => el("th", { scope: "col", text })))),
    el("tbody", {}, rows.map((cells) => el("tr", {}, cells.map((text) => el("td", { text: String(text) }))))))));
}
