// The configuration as it was loaded, table by table, and who gave each value.

import { bar, el, field, setText } from "./dom.js";

export class Configuration {
  title = "Settings";

  constructor(page, parameters) {
    this.page = page;
    this.only = parameters.get("only") ?? "given";
    this.search = "";
    this.tables = el("div", { class: "stack" });
    this.none = el("p", { class: "none", hidden: true });
    const input = el("input", { type: "search", placeholder: "Search keys and values", autocomplete: "off", on: { input: () => { this.search = input.value.trim().toLowerCase(); this.#show(); } } });
    this.nodes = [
      el("h1", { text: "Settings" }),
      el("p", { class: "quiet", text: "As they are in force. To change them, change the file and reload the service; its log names the keys that need a restart." }),
      el("div", { class: "row tools" }, field("Search keys and values", input, { hidden: true }),
        bar("Show", [["given", "What was set"], ["all", "Everything"]], this.only, (only) => { this.only = only; this.#show(); }).node),
      this.none,
      this.tables,
    ];
    this.#load();
  }

  asked() {
    return { view: "configuration" };
  }

  hear() {}

  async #load() {
    const answer = await fetch("api/configuration").catch(() => null);
    this.settings = answer?.ok ? (await answer.json()).settings : [];
    this.#show();
  }

  #show() {
    const shown = (this.settings ?? []).filter((one) => (this.only === "all" || one.is_given) && (!this.search || `${one.key} ${one.toml}`.toLowerCase().includes(this.search)));
    const tables = grouped(shown);
    this.tables.replaceChildren(...[...tables].map(([name, settings]) => el("section", { class: "card" }, el("h2", { text: `[${name}]` }),
      el("table", { class: "settings cards" }, el("caption", { class: "unseen", text: name }), el("tbody", {}, settings.map((one) => el("tr", { class: one.is_given ? "given" : null },
        el("th", { scope: "row", text: one.key.slice(name.length + 1) }),
        el("td", { "data-name": "Value" }, el("code", { text: one.toml ?? "not set" })),
        el("td", { class: "quiet", "data-name": "From", text: one.origin }))))))));
    this.none.hidden = shown.length > 0;
    setText(this.none, this.search ? "No key and no value is like that." : "Nothing was set: all defaults are in force.");
  }
}

function tableOf({ key }) {
  const at = key.search(/\.(?:"(?:[^"\\]|\\.)*"|[^."]+)$/);
  return at > 0 ? key.slice(0, at) : key;
}

function grouped(settings) {
  const tables = new Map();
  for (const one of settings) tables.set(tableOf(one), [...(tables.get(tableOf(one)) ?? []), one]);
  return tables;
}
