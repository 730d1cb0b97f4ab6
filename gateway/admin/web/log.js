// The last lines of the log, as they come, from a level on.

import { bar, el, setText } from "./dom.js";

const LINES_MAX = 500;
const LEVELS = [["debug", "Debug"], ["info", "Info"], ["warning", "Warnings"], ["error", "Errors"]];
const SHAPE = /^(\S+) (\S+) +(\S+) ([\s\S]*)$/;

export class Log {
  title = "Log";

  constructor(page, parameters) {
    this.page = page;
    this.level = LEVELS.some(([level]) => level === parameters.get("level")) ? parameters.get("level") : "info";
    this.last = 0;
    this.lines = el("ol", { class: "lines", tabindex: 0, "aria-label": "Log lines" });
    this.follow = el("input", { type: "checkbox" });
    this.follow.checked = true;
    this.none = el("p", { class: "none", text: "No line of this level yet." });
    this.nodes = [
      el("h1", { text: "Log" }),
      el("div", { class: "row tools" }, bar("From this level on", LEVELS, this.level, (level) => this.#choose(level)).node,
        el("label", { class: "check" }, this.follow, "Follow")),
      el("div", { class: "card flush" }, this.none, this.lines),
    ];
    this.lines.addEventListener("scroll", () => {
      const isAtEnd = this.lines.scrollHeight - this.lines.scrollTop - this.lines.clientHeight < 40;
      if (!isAtEnd && this.isFollowing) this.follow.checked = false;
      this.isFollowing = isAtEnd;
    });
  }

  asked() {
    return { view: "log", level: this.level };
  }

  hear(name, body) {
    if (name !== "log") return;
    if (body.last < this.last) this.lines.replaceChildren(); // the gateway was restarted
    const fresh = body.lines.filter((line) => line.number > this.last || body.last < this.last);
    this.last = body.last;
    this.lines.append(...fresh.map(line));
    while (this.lines.children.length > LINES_MAX) this.lines.firstElementChild.remove();
    this.none.hidden = this.lines.children.length > 0;
    if (this.follow.checked) this.lines.scrollTop = this.lines.scrollHeight;
  }

  #choose(level) {
    this.level = level;
    this.last = 0;
    this.lines.replaceChildren();
    this.page.go("/log", { level }, { replace: true });
    this.page.look(this.asked());
  }
}

function line({ level, text }) {
  const [, time, word, logger, message] = SHAPE.exec(text) ?? [null, "", level, "", text];
  const item = el("li", { class: level });
  const clock = time.replace(/^.*T/, "").replace(/\..*$/, "");
  item.append(el("time", { title: time, text: clock }), " ", el("span", { class: "level", text: word }), " ", el("span", { class: "quiet", text: logger.replace(/^tidegate\.?/, "") }), " ");
  setText(item.appendChild(el("span", { class: "message" })), message);
  return item;
}
