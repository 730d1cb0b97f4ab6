// The live connection: one EventSource for what is shown, which the browser opens again by itself.
// What it says is handed on; when it is silent for longer than it may be, the page says so.

const SILENT_S = 20; // the gateway says something each second, or a comment each 15 s
const AGAIN_MS = 3000; // after a refusal, which a browser takes as final

export class Live {
  constructor(onEvent, onState) {
    this.onEvent = onEvent;
    this.onState = onState; // "open", "lost" or "full"
    this.heardAt = performance.now();
    this.source = null;
    this.url = "";
    setInterval(() => this.#check(), 1000);
  }

  // `asked` is the view with its parameters.
  look(asked) {
    this.url = `api/events?${new URLSearchParams(asked)}`;
    this.#open();
  }

  // Nothing may be looked at.
  rest() {
    this.source?.close();
    clearTimeout(this.again);
    this.source = null;
  }

  #open() {
    this.source?.close();
    clearTimeout(this.again);
    const source = (this.source = new EventSource(this.url));
    this.heardAt = performance.now();
    for (const name of ["status", "clients", "client", "latest", "buffer", "log", "refused"]) {
      source.addEventListener(name, (event) => {
        if (source !== this.source) return;
        this.heardAt = performance.now();
        this.onState("open");
        this.onEvent(name, JSON.parse(event.data));
      });
    }
    source.onerror = () => this.#failed(source);
  }

  async #failed(source) {
    if (source !== this.source) return;
    if (source.readyState !== EventSource.CLOSED) {
      this.onState("lost");
      return;
    }
    const answer = await fetch("healthz").catch(() => null);
    const health = await answer?.json().catch(() => null);
    if (health?.checks?.configuration) location.reload(); // it was started again, with a wrong one
    this.onState(health ? "full" : "lost");
    this.again = setTimeout(() => this.#open(), AGAIN_MS);
  }

  #check() {
    if (!this.source) return;
    if (performance.now() - this.heardAt > SILENT_S * 1000) {
      this.onState("lost");
      this.#open();
    }
  }
}
