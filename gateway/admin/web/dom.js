// Making and changing elements, no more than the page needs. Text is always text, never markup: what
// a sensor chose to call itself cannot become a part of the page.

const SVG = "http://www.w3.org/2000/svg";

// Attributes by name; `text` is the content, `on` are listeners by event, false and null are left out.
export function el(tag, attributes = {}, ...children) {
  return made(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return made(document.createElementNS(SVG, tag), attributes, children);
}

function made(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") node.textContent = value;
    else if (name === "on") for (const [event, heard] of Object.entries(value)) node.addEventListener(event, heard);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

// Changes the text only if it is another one, so that a selection stays and nothing is laid out again.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setClass(node, name) {
  if (node.getAttribute("class") !== name) node.setAttribute("class", name);
}

// The children of `parent` by key, in order: rows that stay keep their element, and the focus in it.
export class Keyed {
  constructor(parent, make) {
    this.parent = parent;
    this.make = make; // (key) => {node, update(row)}
    this.parts = new Map();
  }

  show(order, rowOf) {
    const wanted = new Set(order);
    for (const [key, part] of this.parts) {
      if (!wanted.has(key)) {
        part.node.remove();
        this.parts.delete(key);
      }
    }
    let before = this.parent.firstElementChild;
    for (const key of order) {
      let part = this.parts.get(key);
      if (!part) this.parts.set(key, (part = this.make(key)));
      part.update(rowOf(key));
      if (part.node === before) before = before.nextElementSibling;
      else this.parent.insertBefore(part.node, before);
    }
  }

  each(visit) {
    for (const [key, part] of this.parts) visit(part, key);
  }
}

// A list of names and what belongs to them; nothing for what is null.
// `long`: names of those that have a line of their own.
export function facts(pairs, long = []) {
  return el("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined).map(
    ([name, value]) => el("div", { class: long.includes(name) ? "long" : null }, el("dt", { text: name }), el("dd", {}, value))));
}

export function card(title, ...children) {
  return el("section", { class: "card" }, title && el("h2", { text: title }), children);
}

let counted = 0;

// A label and its control, joined.
export function field(label, control, { hidden = false } = {}) {
  control.id ||= `field-${++counted}`;
  return el("div", { class: "field" },
    el("label", { for: control.id, text: label, class: hidden ? "unseen" : null }), control);
}

// A choice of one among a few, as radio buttons that look like one bar. `choices`: [value, text].
export function bar(legend, choices, chosen, change) {
  const name = `bar-${++counted}`;
  const counts = new Map();
  const items = choices.map(([value, text]) => {
    const count = el("span", { class: "count" });
    counts.set(value, count);
    const input = el("input", { type: "radio", name, value, on: { change: () => change(value) } });
    input.checked = value === chosen;
    return el("label", {}, input, el("span", { class: "face" }, text, " ", count));
  });
  const node = el("fieldset", { class: "bar" }, el("legend", { class: "unseen", text: legend }), items);
  return { node, setCount: (value, count) => setText(counts.get(value), count) };
}
