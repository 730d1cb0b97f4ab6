// The list of devices: found, filtered, sorted and cut into pages by the gateway, so that ten thousand
// of them cost the browser as much as fifty.

import { Keyed, bar, el, field, setClass, setText } from "./dom.js";
import { ago, clock, count, presence } from "./format.js";
import { act, ask, mayAct, onSession } from "./session.js";
import { readings, sign } from "./sign.js";

const PAGE = 50;
const TYPING_MS = 250;
const FILTERS = [["", "All"], ["overdue", "Overdue"], ["lost", "Lost"], ["asleep", "Asleep"], ["active", "Active"]];
const COLUMNS = [["id", "Device"], ["state", "State"], ["-heard", "Last heard"], [null, "Values"], ["queued", "Waiting"]];
const SORTS = ["id", "heard", "due", "state", "queued"].flatMap((sort) => [sort, `-${sort}`]);
const STATES = ["active", "awake", "asleep", "connecting", "disconnected", "lost", "overdue"];
const PERMIT_MINUTES = [5, 15, 60];
const JOIN_SECONDS = [120, 60, 254];

export class Devices {
  title = "Devices";

  constructor(page, parameters) {
    this.page = page;
    this.search = parameters.get("search") ?? "";
    this.state = known(STATES, parameters.get("state"), "");
    this.sort = known(SORTS, parameters.get("sort"), "id");
    this.offset = Math.max(0, Math.floor(Number(parameters.get("offset")) || 0));
    this.rows = new Map();
    this.total = null;
    this.body = el("tbody");
    this.keyed = new Keyed(this.body, deviceRow);
    this.shown = el("p", { class: "quiet", role: "status" });
    this.none = el("p", { class: "none", hidden: true });
    this.before = el("button", { type: "button", text: "Previous", on: { click: () => this.#turn(-PAGE) } });
    this.after = el("button", { type: "button", text: "Next", on: { click: () => this.#turn(PAGE) } });
    this.filter = bar("Show", FILTERS, this.state, (chosen) => this.#change({ state: chosen }));
    this.heads = COLUMNS.map(([sort, text]) => this.#head(sort, text));
    this.permit = el("button", { type: "button", hidden: true, text: "Let new devices in", on: { click: () => this.#askPermit() } });
    this.join = el("button", { type: "button", hidden: true, text: "Let new devices join", on: { click: () => this.#askJoin() } });
    this.waiters = el("ul", { class: "waiters" });
    this.waiting = el("section", { class: "card", hidden: true, "aria-label": "Waiting for approval" }, el("h2", { text: "Waiting for approval" }), this.waiters);
    this.waitingShown = "";
    this.nodes = [
      el("div", { class: "row head" }, el("h1", { text: "Devices" }), this.permit, this.join),
      this.waiting,
      el("div", { class: "row tools" }, this.#searchField(), this.filter.node, this.#sortField()),
      el("div", { class: "card flush" }, el("table", { class: "devices cards" },
        el("caption", { class: "unseen", text: "Devices" }),
        el("thead", {}, el("tr", {}, this.heads)), this.body), this.none),
      el("div", { class: "row paging" }, this.shown, this.before, this.after),
    ];
    this.stop = onSession(() => this.#showPermit());
  }

  close() {
    this.stop();
    clearTimeout(this.typing);
  }

  asked() {
    const asked = { view: "devices", sort: this.sort, limit: PAGE, offset: this.offset };
    if (this.search) asked.search = this.search;
    if (this.state) asked.state = this.state;
    return asked;
  }

  hear(name, body) {
    if (name === "status") {
      const states = body.clients_by_state;
      const total = Object.values(states).reduce((sum, one) => sum + one, 0);
      for (const [filter] of FILTERS) {
        const number = filter === "" ? total : filter === "overdue" ? body.clients_overdue : states[filter] ?? 0;
        this.filter.setCount(filter, count(number));
      }
      this.#showPermit();
      this.#showWaiting(body.waiting_clients);
    }
    if (name !== "clients") return;
    for (const [id, row] of Object.entries(body.rows)) this.rows.set(id, row);
    this.total = body.total;
    this.keyed.show(body.order, (id) => this.rows.get(id));
    for (const id of this.rows.keys()) if (!this.keyed.parts.has(id)) this.rows.delete(id);
    if (this.offset >= body.total && body.total) this.#turn(-PAGE);
    this.#showPaging(body);
  }

  tick() {
    this.keyed.each((part, id) => part.update(this.rows.get(id)));
  }

  // What is asked for

  #change(parts) {
    Object.assign(this, { offset: 0 }, parts);
    this.page.go("/devices", { search: this.search, state: this.state, sort: this.sort === "id" ? "" : this.sort, offset: this.offset }, { replace: true });
    this.#showSort();
    this.page.look(this.asked());
  }

  #turn(by) {
    this.#change({ offset: Math.max(0, this.offset + by) });
    scrollTo(0, 0);
  }

  #searchField() {
    const input = el("input", { type: "search", placeholder: "Search", value: this.search, autocomplete: "off", on: { input: () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.#change({ search: input.value.trim() }), TYPING_MS);
    } } });
    return field("Search devices", input, { hidden: true });
  }

  // On a phone the heads of the columns are not there.
  #sortField() {
    const options = COLUMNS.filter(([sort]) => sort).map(([sort, text]) => el("option", { value: sort, text: `By ${text.toLowerCase()}` }));
    this.select = el("select", { on: { change: () => this.#change({ sort: this.select.value }) } }, options);
    this.select.value = this.sort;
    const node = field("Sort", this.select, { hidden: true });
    node.classList.add("phone");
    return node;
  }

  #head(sort, text) {
    if (!sort) return el("th", { scope: "col", text });
    const other = sort.startsWith("-") ? sort.slice(1) : `-${sort}`;
    const button = el("button", { type: "button", class: "sort", text, on: { click: () => this.#change({ sort: this.sort === sort ? other : sort }) } });
    const head = el("th", { scope: "col", class: sort === "queued" ? "number" : null }, button);
    head.sortBy = [sort, other];
    this.#mark(head);
    return head;
  }

  #mark(head) {
    const [sort, other] = head.sortBy;
    const direction = this.sort === sort ? "ascending" : this.sort === other ? "descending" : null;
    if (direction) head.setAttribute("aria-sort", direction);
    else head.removeAttribute("aria-sort");
  }

  #showSort() {
    for (const head of this.heads) if (head.sortBy) this.#mark(head);
  }

  #showPaging({ order, total }) {
    this.none.hidden = order.length > 0;
    const isFiltered = this.search || this.state;
    setText(this.none, isFiltered ? "No device is like that." : "No device has come yet. Point one at the address under Links on the overview.");
    const last = this.offset + order.length;
    setText(this.shown, total > PAGE ? `${count(this.offset + 1)} to ${count(last)} of ${count(total)}` : "");
    this.before.hidden = this.after.hidden = total <= PAGE;
    this.before.disabled = this.offset === 0;
    this.after.disabled = last >= total;
  }

  // Letting new devices in

  #showPermit() {
    const left = this.page.status()?.permit_left_s;
    this.permit.hidden = left === null || left === undefined || !mayAct();
    setText(this.permit, left ? `New devices may come for ${Math.ceil(left / 60)} min` : "Let new devices in");
    setClass(this.permit, left ? "main" : "");
    const joining = this.page.status()?.join_left_s;
    this.join.hidden = this.permit.hidden;
    setText(this.join, joining ? `New devices may join for ${Math.ceil(joining)} s` : "Let new devices join");
    setClass(this.join, joining ? "main" : "");
  }

  // Built again only when another one waits, so that a button stays where the finger is.
  #showWaiting(clients) {
    const shown = JSON.stringify([clients, mayAct()]);
    if (shown === this.waitingShown) return;
    this.waitingShown = shown;
    this.waiting.hidden = clients.length === 0;
    this.waiters.replaceChildren(...clients.map((id) => this.#waiter(id)));
  }

  #waiter(id) {
    const answer = (name, text) => el("button", { type: "button", text, "aria-label": `${text} ${id}`, on: { click: () => this.#answer(name, id, text) } });
    const buttons = mayAct() ? [answer("join_approve", "Approve"), answer("join_reject", "Reject")] : [];
    return el("li", { class: "row" }, el("span", { text: id }), buttons);
  }

  async #answer(name, id, text) {
    const said = await ask({
      title: `${text} ${id}?`,
      text: "A client id is no proof of who it is: be sure that it is yours.",
      yes: text,
      done: () => act(name, { client: id }),
    });
    if (said) this.page.say(said);
  }

  async #askJoin() {
    const seconds = el("select", {}, JOIN_SECONDS.map((each) => el("option", { value: each, text: `${each} seconds` })), el("option", { value: 0, text: "no longer" }));
    const said = await ask({
      title: "Let new devices join",
      text: "Devices that are not in admission.listed may come in meanwhile, and can do nothing until you approve of them here.",
      fields: [field("For", seconds)],
      yes: "Let join",
      done: () => act("join", { seconds: Number(seconds.value) }),
    });
    if (said) this.page.say(said);
  }

  async #askPermit() {
    const minutes = el("select", {}, PERMIT_MINUTES.map((each) => el("option", { value: each, text: `${each} minutes` })), el("option", { value: 0, text: "no longer" }));
    const said = await ask({
      title: "Let new devices in",
      text: "Devices that are not in admission.listed may come in meanwhile, and stay known until they are forgotten.",
      fields: [field("For", minutes)],
      yes: "Let in",
      done: () => act("permit", { minutes: Number(minutes.value) }),
    });
    if (said) this.page.say(said);
  }
}

function known(words, word, otherwise) {
  return words.includes(word) ? word : otherwise;
}

function deviceRow(id) {
  const [state, heard, queued] = [el("span", { class: "state" }), el("time"), el("td", { class: "number", "data-name": "Waiting" })];
  const stateText = el("span");
  const link = el("small", { class: "quiet" });
  const values = el("td", { "data-name": "Values" });
  let [kind, shown] = ["", ""];
  return {
    node: el("tr", {}, el("th", { scope: "row" }, el("a", { href: `#/devices/${encodeURIComponent(id)}`, text: id }), link),
      el("td", { "data-name": "State" }, state), el("td", { "data-name": "Last heard" }, heard), values, queued),
    update(row) {
      const is = presence(row);
      if (is.kind !== kind) {
        kind = is.kind;
        state.replaceChildren(sign(kind), stateText);
        setClass(state, `state ${kind}`);
      }
      setText(stateText, is.text);
      setText(link, row.link);
      setText(heard, ago(row.heard_at));
      heard.title = clock(row.heard_at, { seconds: true });
      setText(queued, row.queued_messages ? count(row.queued_messages) : "");
      const now = JSON.stringify(row.values);
      if (now !== shown) {
        shown = now;
        values.replaceChildren(readings(row.values));
      }
    },
  };
}
