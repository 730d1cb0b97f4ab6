// Small drawings: the sign of a state, and the past of a number.

import { el, svg } from "./dom.js";
import { value } from "./format.js";

const SIGNS = {
  active: "M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3z",
  awake: "M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3z",
  connecting: "M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3zm0 2a3 3 0 1 1 0 6 3 3 0 0 1 0-6z",
  asleep: "M9.500 2.600A5.800 5.800 0 1 0 13.400 10 4.800 4.800 0 0 1 9.500 2.600z",
  overdue: "M8 2.200 14.300 13H1.700zM7.200 6v3.600h1.600V6zm0 4.500v1.400h1.600v-1.400z",
  lost: "m4.200 3 3.800 3.800L11.800 3 13 4.200 9.200 8l3.800 3.800-1.200 1.200L8 9.200 4.200 13 3 11.800 6.800 8 3 4.200z",
  left: "M3 7h10v2H3z",
};

// Values in one line, with the past of the first.
export function readings(values) {
  const [first] = values;
  return el("div", { class: "values" }, first?.past.length > 1 && spark(first.past), values.map((one) =>
    el("span", { class: "reading" }, el("span", { class: "amount", text: value(one) }), one.name && el("small", { class: "quiet", text: one.name }))));
}

export function sign(kind) {
  return svg("svg", { class: "sign", viewBox: "0 0 16 16", "aria-hidden": "true" },
    svg("path", { d: SIGNS[kind] ?? SIGNS.left, "fill-rule": "evenodd" }));
}

// Points from the oldest to the newest, over the whole width; nothing for less than two.
export function spark(points, { width = 96, height = 26, label = "", fromZero = false } = {}) {
  const box = { class: "spark", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none" };
  const name = label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" };
  const picture = svg("svg", { ...box, ...name });
  if (points.length < 2) return picture;
  const [least, most] = [fromZero ? 0 : Math.min(...points), Math.max(...points)];
  const [range, pad] = [most - least || 1, 3];
  const x = (index) => (index * (width - 2 * pad)) / (points.length - 1) + pad;
  const y = (point) => (most === least ? height / 2 : height - pad - ((point - least) * (height - 2 * pad)) / range);
  const line = points.map((point, index) => `${index ? "L" : "M"}${x(index).toFixed(1)} ${y(point).toFixed(1)}`).join("");
  const end = `L${x(points.length - 1).toFixed(1)} ${height}L${x(0).toFixed(1)} ${height}Z`;
  picture.append(
    svg("path", { class: "under", d: line + end }),
    svg("path", { class: "line", d: line, "vector-effect": "non-scaling-stroke" }),
  );
  return picture;
}
