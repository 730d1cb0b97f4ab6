// The page: which view is shown, the head above it, and the one live connection that feeds both.

import { el, setClass, setText } from "./dom.js";
import { duration, setServerTime } from "./format.js";
import { Live } from "./live.js";
import { current, mayLook, onSession, refresh, signIn, signOut } from "./session.js";
import { Buffer } from "./buffer.js";
import { Configuration } from "./configuration.js";
import { Device } from "./device.js";
import { Devices } from "./devices.js";
import { Log } from "./log.js";
import { Overview } from "./overview.js";
import { Topics } from "./topics.js";

const VIEWS = { overview: Overview, devices: Devices, device: Device, topics: Topics, buffer: Buffer, log: Log, configuration: Configuration };

const main = document.getElementById("main");
const button = document.getElementById("session");
let view = null;
let status = null;
let saying = 0;

// What every view is given.
const page = {
  look: (asked) => live.look(asked),
  status: () => status,
  say(text) {
    const said = document.getElementById("said");
    clearTimeout(saying);
    setText(said, text);
    said.classList.toggle("shown", Boolean(text));
    saying = setTimeout(() => said.classList.remove("shown"), 6000);
  },
  // Changes the address without leaving the view: `Back` takes one where one was.
  go(path, parameters = {}, { replace = false } = {}) {
    const rest = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value));
    const hash = `#${path}${rest.size ? `?${rest}` : ""}`;
    if (replace) history.replaceState(null, "", hash);
    else location.hash = hash;
  },
};

const live = new Live(onEvent, onState);

function onEvent(name, body) {
  if (name === "status") {
    status = body;
    setServerTime(body.time);
    showHead();
  }
  view?.hear(name, body);
}

function onState(state) {
  document.body.classList.toggle("away", state !== "open");
  if (state !== "open") {
    setClass(document.getElementById("pulse"), "pill lost");
    setText(document.getElementById("pulse-text"),
      state === "full" ? "too many pages are open" : "no word from the gateway");
  } else if (status) showHead();
}

function showHead() {
  setText(document.getElementById("gateway"), status.gateway);
  setText(document.getElementById("up"), `up ${duration(status.uptime_s)}`);
  const trouble = status.alarms.length;
  const kind = !status.upstream_connected ? "lost" : trouble ? "overdue" : "active";
  const words = !status.upstream_connected ? "broker away" : trouble ? `${trouble} to look at` : "all is well";
  setClass(document.getElementById("pulse"), `pill ${kind}`);
  setText(document.getElementById("pulse-text"), words);
  document.title = `${trouble ? `(${trouble}) ` : ""}${view?.title ?? "Overview"} – ${status.gateway}`;
}

// An address that somebody typed may be anything.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function show() {
  const [path, rest] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...more] = path.split("/");
  const parameters = new URLSearchParams(rest);
  let key = name || "overview";
  let id = "";
  if (key === "devices" && more.length) [key, id] = ["device", decoded(more.join("/"))];
  if (!(key in VIEWS)) key = "overview";
  view?.close?.();
  main.replaceChildren();
  if (!mayLook()) {
    view = null;
    live.rest();
    setText(document.getElementById("gateway"), "Tidegate");
    setText(document.getElementById("up"), "sign in to look");
    setText(document.getElementById("pulse-text"), "not signed in");
    document.title = "Tidegate";
    return;
  }
  view = new VIEWS[key](page, parameters, id);
  main.append(...view.nodes);
  for (const link of document.querySelectorAll("nav a")) {
    const isHere = link.dataset.view === (key === "device" ? "devices" : key);
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  page.look(view.asked());
  if (status) {
    view.hear("status", status);
    showHead();
  }
}

let couldLook = true;

onSession((session) => {
  button.hidden = !session.can_sign_in;
  setText(button, session.signed_in ? `Sign out ${session.user}` : "Sign in");
  // What was shown is gone with who was signed in; the next one sees it all again.
  if (couldLook !== mayLook()) {
    couldLook = mayLook();
    show();
    if (!couldLook) signIn();
  }
});
button.addEventListener("click", () => (current().signed_in ? signOut() : signIn()));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", () => {
  show();
  scrollTo(0, 0);
  main.focus({ preventScroll: true });
});
setInterval(() => status && view?.tick?.(), 1000);
document.body.append(el("span", { id: "ready", hidden: true }));
refresh().finally(show);
