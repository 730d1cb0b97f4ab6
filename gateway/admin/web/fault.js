// What is wrong with the configuration, until it is right; then the page of the gateway takes over.

import { el, setClass, setText } from "./dom.js";

const AGAIN_MS = 1000;

const list = document.getElementById("faults");
let shown = "";

async function look() {
  const answer = await fetch("api/faults").catch(() => null);
  if (answer?.status === 404) {
    location.reload(); // the gateway itself answers: it has started
    return;
  }
  const body = answer?.ok ? await answer.json() : null;
  say(body ? "not started" : "starting, or ended");
  if (body) show(body);
  setTimeout(look, AGAIN_MS);
}

function say(words) {
  setText(document.getElementById("pulse-text"), words);
  setClass(document.getElementById("pulse"), "pill lost");
}

function show({ faults, left_out: leftOut, version }) {
  setText(document.getElementById("version"), version);
  setText(document.getElementById("title"), faults.length === 1 ? "One thing is wrong with the configuration" : `${faults.length + leftOut} things are wrong with the configuration`);
  setText(document.getElementById("more"), leftOut ? `and ${leftOut} more` : "");
  const now = JSON.stringify(faults);
  if (now === shown) return;
  shown = now;
  list.replaceChildren(...faults.map((fault) => el("li", {},
    el("p", { class: "where" }, where(fault)),
    el("p", {}, fault.key && el("code", { text: `${fault.key}: ` }), fault.message))));
}

function where({ source, line, column }) {
  return line === null ? source : `${source}, line ${line}, column ${column}`;
}

look();
