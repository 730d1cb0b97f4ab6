// Signing in, and asking the gateway to do something. A viewer sees no buttons; without a password in
// the configuration the page only shows, and says so where something could be done.

import { el, field } from "./dom.js";

let session = { can_sign_in: false, signed_in: false, token: null, user: null, role: "viewer" };
const hearers = new Set();

export function current() {
  return session;
}

// Whether buttons are of use.
export function mayAct() {
  return session.role === "operator";
}

// Who may never act sees no buttons; who may after signing in sees them without a use.
export function isViewer() {
  return session.signed_in && !mayAct();
}

// Whether anything is shown at all.
export function mayLook() {
  return session.role !== "none";
}

// Why there are no buttons, or "".
export function hint(what) {
  if (mayAct()) return "";
  if (session.signed_in) return "You may only look.";
  if (session.can_sign_in) return `Sign in to ${what}.`;
  return "To act from here, make a user with `tidegate password`.";
}

export function onSession(hear) {
  hearers.add(hear);
  hear(session);
  return () => hearers.delete(hear);
}

export async function refresh() {
  const answer = await fetch("api/session").catch(() => null);
  if (answer?.ok) set(await answer.json());
}

function set(changed) {
  session = { ...session, ...changed };
  for (const hear of hearers) hear(session);
}

// What the gateway says of it, or an Error with its sentence.
async function send(method, path, body) {
  const headers = { "Content-Type": "application/json", "X-Tidegate-Token": session.token ?? "" };
  const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body) }).catch(() => null);
  if (!answer) throw new Error("the gateway does not answer");
  const said = await answer.json().catch(() => ({}));
  if (answer.status === 401) await refresh();
  if (!answer.ok) throw new Error(said.error ?? `the gateway answers ${answer.status}`);
  return said;
}

export async function act(name, body = {}) {
  return (await send("POST", `api/actions/${name}`, body)).done;
}

export async function signOut() {
  await send("DELETE", "api/session").catch(() => null);
  await refresh();
}

export function signIn() {
  const password = el("input", { type: "password", autocomplete: "current-password", required: true });
  const user = el("input", { type: "text", autocomplete: "username", value: "tidegate", required: true, maxlength: 64 });
  return ask({
    title: "Sign in",
    text: "A user of the configuration, or tidegate with the password of admin.password_file. It is asked for again after an hour of silence.",
    fields: [field("User", user), field("Password", password)],
    yes: "Sign in",
    async done() {
      try {
        await send("POST", "api/session", { user: user.value, password: password.value });
        await refresh();
      } catch (problem) {
        password.value = "";
        throw problem;
      }
      return "signed in";
    },
  });
}

// A question in a dialog. `done` is tried when it is answered with yes; what it throws is shown there.
// Resolves to what `done` says, or null.
export function ask({ title, text, fields = [], yes, isGrave = false, done }) {
  const problem = el("p", { class: "problem", role: "alert" });
  const go = el("button", { type: "submit", class: isGrave ? "grave" : "main", text: yes });
  const no = el("button", { type: "button", text: "Cancel" });
  const form = el("form", { method: "dialog" }, el("h2", { text: title, id: "ask-title" }),
    text && el("p", { text }), fields, problem, el("div", { class: "row end" }, no, go));
  const dialog = el("dialog", { "aria-labelledby": "ask-title" }, form);
  return new Promise((resolve) => {
    let said = null;
    no.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(said);
    });
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      go.disabled = true;
      try {
        said = await done();
        dialog.close();
      } catch (failed) {
        problem.textContent = failed.message;
      }
      go.disabled = false;
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
