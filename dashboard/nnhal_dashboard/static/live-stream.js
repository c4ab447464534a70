// One stream of events, which is opened again when what is to be followed changes, and when it was lost.

const LONGEST_PAUSE_MS = 5000;

export class Stream {
  #tell;
  #keys = "";
  #source = null;
  #pause = 250;
  #timer = 0;

  constructor(tell) {
    this.#tell = tell;
  }

  follow(keys) {
    const wanted = [...new Set(keys)].sort().map((key) => "f=" + encodeURIComponent(key)).join("&");
    if (wanted === this.#keys) return;
    this.#keys = wanted;
    this.#open();
  }

  #open() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
    if (!this.#keys) return;
    const source = (this.#source = new EventSource("/live?" + this.#keys));
    source.onopen = () => { this.#pause = 250; this.#tell({ state: "live" }); };
    source.onmessage = (event) => this.#tell(JSON.parse(event.data));
    source.onerror = () => {
      this.#tell({ state: "lost" });
      if (source.readyState === EventSource.CLOSED) this.#retry();
    };
  }

  // The browser itself tries again only if the server was not reached, not if it refused.
  async #retry() {
    try {
      const answer = await fetch("/live?f=", { method: "HEAD" });
      if (answer.status === 401) { this.#tell({ state: "signed out" }); return; }
    } catch { /* it does not answer yet */ }
    this.#timer = setTimeout(() => this.#open(), this.#pause);
    this.#pause = Math.min(2 * this.#pause, LONGEST_PAUSE_MS);
  }
}
