// How times, amounts and states are said. Lengths of time are the two largest units, or one in lists.

let offsetS = 0; // of the gateway's clock from this browser's

export function setServerTime(unixS) {
  offsetS = unixS - Date.now() / 1000;
}

export function now() {
  return Date.now() / 1000 + offsetS;
}

const two = (number) => String(number).padStart(2, "0");

// `14:32`, with the day if it is not today's.
export function clock(unixS, { seconds = false } = {}) {
  const at = new Date(unixS * 1000);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}${seconds ? `:${two(at.getSeconds())}` : ""}`;
  if (at.toDateString() === new Date(now() * 1000).toDateString()) return time;
  const day = at.toLocaleDateString("en", { weekday: "short", day: "numeric", month: "short" });
  return `${day} ${time}`;
}

// With seconds where minutes would say nothing.
function until(unixS) {
  return clock(unixS, { seconds: unixS - now() < 120 });
}

export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const [minutes, second] = [Math.floor(whole / 60), whole % 60];
  const [hours, minute] = [Math.floor(minutes / 60), minutes % 60];
  const [day, hour] = [Math.floor(hours / 24), hours % 24];
  if (day) return `${day} d ${hour} h`;
  if (hour) return `${hour} h ${minute} min`;
  return minute ? `${minute} min ${second} s` : `${second} s`;
}

export function short(seconds) {
  return duration(seconds).split(" ").slice(0, 2).join(" ");
}

export function ago(unixS) {
  const age = now() - unixS;
  return age < 2 ? "now" : `${short(age)} ago`;
}

export function count(number) {
  return number.toLocaleString("en");
}

export function counted(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

export function bytes(size) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) [size, unit] = [size / 1024, unit + 1];
  return `${unit && size < 100 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}

export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return "–";
  return perSecond < 10 ? perSecond.toFixed(1) : count(Math.round(perSecond));
}

export function percent(share) {
  return `${share > 0 && share < 0.01 ? "<1" : Math.round(share * 100)} %`;
}

// SenML's names of units, as people write them.
const UNITS = { Cel: "°C", "%RH": "%", "%EL": "%", degC: "°C", lx: "lx", count: "" };

export function value({ value, unit }) {
  if (typeof value === "boolean") return value ? "on" : "off";
  if (typeof value !== "number") return value;
  const shown = UNITS[unit] ?? unit;
  const number = Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(5)));
  return shown ? `${number} ${shown}` : number;
}

// What a client is doing: `kind` for the colour and the sign, `text` for people.
export function presence(client) {
  const at = now();
  const isOverdue = client.due_at !== null && at > client.due_at;
  if (isOverdue && ["active", "asleep", "awake"].includes(client.state)) {
    return { kind: "overdue", text: `overdue by ${short(at - client.due_at)}` };
  }
  switch (client.state) {
    case "asleep":
      return { kind: "asleep", text: client.due_at === null ? "asleep" : `asleep until ${until(client.due_at)}` };
    case "lost":
      return { kind: "lost", text: client.away_since === null ? "lost" : `lost ${ago(client.away_since)}` };
    case "disconnected":
      return { kind: "left", text: client.away_since === null ? "left" : `left ${ago(client.away_since)}` };
    default:
      return { kind: client.state, text: client.state };
  }
}
