// The gateway at a glance: what needs attention, and the few numbers that say how it is doing.

import { Keyed, card, el, facts, setClass, setText, svg } from "./dom.js";
import { ago, bytes, count, counted, duration, percent, rate } from "./format.js";
import { Links } from "./links.js";
import { spark } from "./sign.js";

const POINTS_MAX = 60; // of the rate, a minute
const STATES = [["active", "active"], ["awake", "awake"], ["asleep", "asleep"], ["connecting", "connecting"], ["lost", "lost"], ["disconnected", "left"]];

export class Overview {
  title = "Overview";
  static rates = []; // outlives the view, so that the minute is there when one comes back

  constructor(page) {
    this.alarms = el("ul");
    this.calm = el("p", { class: "calm", hidden: true, text: "Nothing needs attention." }); // until it is known
    this.parts = { broker: tile("Broker"), devices: tile("Devices", "#/devices"), readings: tile("Readings"), buffer: tile("Buffer", "#/buffer"), waiting: tile("For devices") };
    this.links = new Links(page);
    this.notices = el("div");
    this.dropped = el("tbody");
    this.droppedRows = new Keyed(this.dropped, droppedRow);
    this.droppedCard = card("Dropped since the start", el("div", { class: "scroll" }, el("table", { class: "plain" },
      el("thead", {}, el("tr", {}, el("th", { text: "Why" }), el("th", { class: "number", text: "Messages" }))), this.dropped)));
    this.refused = el("tbody");
    this.refusedRows = new Keyed(this.refused, refusedRow);
    this.refusedCard = card("Refused by the rules of access", el("div", { class: "scroll" }, el("table", { class: "refused cards" },
      el("thead", {}, el("tr", {}, ["Device", "Known as", "What", "Topic"].map((text) => el("th", { text })),
        el("th", { class: "number", text: "Times" }), el("th", { class: "number", text: "Last" }))), this.refused)),
      el("p", { class: "quiet foot" }, "The newest first. ", el("code", { text: "tidegate access explain" }), " says which entry decides."));
    this.refusedCard.hidden = true;
    this.version = el("p", { class: "quiet foot" });
    this.nodes = [
      el("h1", { class: "unseen", text: "Overview" }),
      el("section", { class: "alarms", "aria-label": "What needs attention" }, this.calm, this.alarms),
      el("div", { class: "tiles" }, Object.values(this.parts).map((part) => part.node)),
      this.links.node,
      card("On MQTT", this.notices),
      this.refusedCard,
      this.droppedCard,
      this.version,
    ];
  }

  close() {
    this.links.close();
  }

  asked() {
    return { view: "overview" };
  }

  tick() {
    this.refusedRows.each((part) => part.tick());
  }

  hear(name, body) {
    if (name === "refused") this.#showRefused(body.refused);
    if (name !== "status") return;
    const status = body;
    this.#showAlarms(status.alarms);
    this.#showBroker(status);
    this.#showDevices(status);
    this.#showReadings(status);
    this.#showBuffer(status);
    const waiting = status.outbox_messages;
    this.parts.waiting.show(count(waiting), waiting === 1 ? "message waits for its device" : "messages wait for their devices",
      `${counted(status.subscriptions, "subscription")}, ${counted(status.retained_messages, "retained message")}`);
    this.links.show(status.links);
    this.#showNotices(status.notices);
    const dropped = Object.entries(status.counters.dropped).filter(([, number]) => number);
    this.droppedRows.show(dropped.map(([why]) => why), (why) => status.counters.dropped[why]);
    this.droppedCard.hidden = !dropped.length;
    setText(this.version, `Tidegate ${status.version}, up for ${duration(status.uptime_s)}`);
  }

  #showRefused(refused) {
    const rows = new Map(refused.map((each) => [JSON.stringify([each.client_id, each.action, each.topic]), each]));
    this.refusedRows.show([...rows.keys()], (key) => rows.get(key));
    this.refusedCard.hidden = !refused.length;
  }

  #showAlarms(alarms) {
    this.calm.hidden = alarms.length > 0;
    const now = alarms.join("\n");
    if (now === this.alarmsShown) return;
    this.alarmsShown = now;
    this.alarms.replaceChildren(...alarms.map(alarm));
  }

  #showBroker(status) {
    const [first, ...rest] = status.upstream_state.split(" after: ");
    const tile = this.parts.broker;
    tile.show(status.upstream_connected ? "connected" : "away", first.replace(/^connected to /, ""), rest.join(" after: "));
    setClass(tile.number, `number ${status.upstream_connected ? "good" : "bad"}`);
  }

  #showDevices(status) {
    const states = status.clients_by_state;
    const total = Object.values(states).reduce((sum, one) => sum + one, 0);
    const said = STATES.filter(([state]) => states[state]).map(([state, text]) => `${count(states[state])} ${text}`);
    if (status.clients_overdue) said.push(`${count(status.clients_overdue)} overdue`);
    this.parts.devices.show(count(total), said.join(", ") || "none has come yet", "");
    this.parts.devices.draw(shares(STATES.map(([state]) => [state, states[state] ?? 0]), total));
  }

  #showReadings(status) {
    const [rates, last] = [Overview.rates, Overview.last];
    const total = status.readings_by_qos.reduce((sum, one) => sum + one, 0);
    if (last && status.time > last.time && total >= last.total) {
      rates.push((total - last.total) / (status.time - last.time));
      if (rates.length > POINTS_MAX) rates.shift();
    }
    if (!last || status.time > last.time) Overview.last = { time: status.time, total };
    this.parts.readings.show(rate(status.readings_per_s), "a second up, in the last minute",
      `${rate(status.deliveries_per_s)} a second down, ${count(total)} readings in all`);
    this.parts.readings.draw(spark(rates, { width: 240, height: 36, fromZero: true, label: "Readings a second, in the last minute" }));
  }

  #showNotices(notices) {
    const now = JSON.stringify(notices);
    if (now === this.noticesShown) return;
    this.noticesShown = now;
    const isOff = notices.announced === null;
    this.notices.replaceChildren(facts([
      ["Presence of devices", notices.devices === null ? "off: presence.clients" : `${counted(notices.devices, "device")} told`],
      ["Home Assistant", isOff ? "off: home_assistant.enable" : `${counted(notices.announced, "device")} announced`],
      ["Still to be said", notices.waiting ? count(notices.waiting) : null],
      ["Refused by the broker", notices.refusal],
      ["Not noted", notices.error],
      ["Topic", `${notices.topic}/`],
    ]));
  }

  #showBuffer(status) {
    const journal = status.journal;
    const age = journal.oldest_age_s === null ? "" : `the oldest for ${duration(journal.oldest_age_s)}`;
    const drained = !journal.depth ? "" : status.drain_paused ? "paused" : journal.drain_s === null ? "does not drain now" : `drained in ${duration(journal.drain_s)}`;
    const room = `${bytes(journal.used_bytes)} of ${bytes(journal.budget_bytes)} used, ${percent(journal.fill)} full`;
    this.parts.buffer.show(count(journal.depth), journal.depth ? [age, drained].filter(Boolean).join(", ") : "nothing waits for the broker", room);
    this.parts.buffer.draw(el("meter", { min: 0, max: 1, high: 0.8, low: 0.6, optimum: 0, value: journal.fill, "aria-label": "Buffer full" }));
  }
}

// Where on this page more is to be seen of an alarm, by how it begins.
const PLACES = [["lost:", "#/devices?state=lost"], ["client id", "#/devices"], ["overdue:", "#/devices?state=overdue"], ["the drain", "#/buffer"], ["the journal", "#/buffer"], ["new sensors", "#/devices"]];

// What stands between backticks is something to type.
function alarm(text) {
  const words = text.split("`").map((part, index) => (index % 2 ? el("code", { text: part }) : part));
  const [, href] = PLACES.find(([start]) => text.startsWith(start)) ?? [];
  return el("li", {}, el("span", {}, words), href && el("a", { href, text: "Show", "aria-label": `Show: ${text.split(":")[0]}` }));
}

function tile(title, href = null) {
  const number = el("p", { class: "number", text: "–" });
  const text = el("p");
  const more = el("p", { class: "quiet" });
  const drawing = el("div", { class: "drawing" });
  const head = el("h2", {}, href ? el("a", { href, text: title }) : title);
  return {
    node: el("section", { class: "card tile" }, head, number, drawing, text, more),
    number,
    show(big, words, small) {
      setText(number, big);
      setText(text, words);
      setText(more, small);
    },
    draw: (picture) => drawing.replaceChildren(picture),
  };
}

// A bar whose parts are as wide as their shares; the numbers stand in words beside it.
function shares(parts, total) {
  const picture = svg("svg", { class: "shares", viewBox: "0 0 240 8", preserveAspectRatio: "none", "aria-hidden": "true" });
  let x = 0;
  for (const [state, number] of parts) {
    const width = total ? (number / total) * 240 : 0;
    if (width) picture.append(svg("rect", { class: state, x, y: 0, width, height: 8 }));
    x += width;
  }
  return picture;
}

function droppedRow(why) {
  const number = el("td", { class: "number" });
  return {
    node: el("tr", {}, el("th", { scope: "row", text: why.replaceAll("_", " ") }), number),
    update: (messages) => setText(number, count(messages)),
  };
}

function refusedRow() {
  const who = el("th", { scope: "row" });
  const [identity, what, topic, times, last] = [el("td"), el("td"), el("td", { class: "wide" }), el("td", { class: "number" }), el("td", { class: "number" })];
  let at = 0;
  const tick = () => setText(last, ago(at));
  return {
    node: el("tr", {}, who, identity, what, topic, times, last),
    update(row) {
      const id = row.client_id;
      if (who.textContent !== (id ?? "unknown")) {
        who.replaceChildren(id === null ? "unknown" : el("a", { href: `#/devices/${encodeURIComponent(id)}`, text: id }));
      }
      setText(identity, row.identity);
      setText(what, row.action.replaceAll("_", " "));
      setText(topic, row.topic);
      setText(times, count(row.count));
      at = row.last_at;
      tick();
    },
    tick,
  };
}
