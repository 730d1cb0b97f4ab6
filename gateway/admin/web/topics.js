// Live topics: what was said last on each, by whom, the newest first.

import { Keyed, el, field, setText } from "./dom.js";
import { ago, clock, count } from "./format.js";
import { readings } from "./sign.js";

const LIMIT = 100;
const TYPING_MS = 250;

export class Topics {
  title = "Topics";

  constructor(page, parameters) {
    this.page = page;
    this.search = parameters.get("search") ?? "";
    this.body = el("tbody");
    this.rows = new Map();
    this.keyed = new Keyed(this.body, topicRow);
    this.shown = el("p", { class: "quiet", role: "status" });
    this.none = el("p", { class: "none", hidden: true });
    const input = el("input", { type: "search", placeholder: "Search topics and devices", value: this.search, autocomplete: "off", on: { input: () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.#find(input.value.trim()), TYPING_MS);
    } } });
    this.nodes = [
      el("h1", { text: "Topics" }),
      el("div", { class: "row tools" }, field("Search topics and devices", input, { hidden: true })),
      el("div", { class: "card flush" }, el("table", { class: "topics cards" },
        el("caption", { class: "unseen", text: "What was said last on each topic" }),
        el("thead", {}, el("tr", {}, ["Topic", "Values", "Device", "When"].map((text) => el("th", { scope: "col", text })), el("th", { scope: "col", class: "number", text: "Heard" }))),
        this.body), this.none),
      this.shown,
    ];
  }

  close() {
    clearTimeout(this.typing);
  }

  asked() {
    return { view: "topics", limit: LIMIT, search: this.search };
  }

  hear(name, body) {
    if (name !== "latest") return;
    this.rows = new Map(body.latest.map((each) => [`${each.client}\n${each.topic}`, each]));
    this.keyed.show([...this.rows.keys()], (key) => this.rows.get(key));
    this.none.hidden = this.rows.size > 0;
    setText(this.none, this.search ? "No topic and no device is called so." : "No device has said anything since the gateway started.");
    setText(this.shown, body.total > LIMIT ? `the newest ${LIMIT} of ${count(body.total)}; search to see others` : "");
  }

  tick() {
    this.keyed.each((part, key) => part.update(this.rows.get(key)));
  }

  #find(search) {
    this.search = search;
    this.page.go("/topics", { search }, { replace: true });
    this.page.look(this.asked());
  }
}

function topicRow(key) {
  const [client, topic] = key.split("\n");
  const [values, when, heard] = [el("td", { "data-name": "Values" }), el("time"), el("td", { class: "number", "data-name": "Heard" })];
  const device = client ? el("a", { href: `#/devices/${encodeURIComponent(client)}`, text: client }) : el("span", { class: "quiet", text: "without a session" });
  let shown = "";
  return {
    node: el("tr", {}, el("th", { scope: "row", class: "wide", text: topic }), values, el("td", { "data-name": "Device" }, device), el("td", { "data-name": "When" }, when), heard),
    update(latest) {
      setText(when, ago(latest.heard_at));
      when.title = clock(latest.heard_at, { seconds: true });
      setText(heard, count(latest.count));
      const now = JSON.stringify(latest.values);
      if (now === shown) return;
      shown = now;
      values.replaceChildren(readings(latest.values.slice(0, 4)));
    },
  };
}
