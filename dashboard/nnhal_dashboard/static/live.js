// Keeps the parts of a page that are marked with data-live up to date, by one stream for all tabs of the browser that
// are seen: a tab that is hidden costs nothing, and is told all that has changed when it is seen again.

import { morph } from "./morph.js";

const parts = new Map();
const status = document.getElementById("liveness");

function collect() {
  parts.clear();
  for (const element of document.querySelectorAll("[data-live]")) {
    const key = element.dataset.live;
    parts.set(key, [...(parts.get(key) ?? []), element]);
  }
  return [...parts.keys()];
}

// What a pointer holds down: if it were replaced before it is let go, the click would be lost.
let pressed = null;
addEventListener("pointerdown", (event) => { pressed = event.target; }, true);
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => { pressed = null; }, true);

// What somebody types in, or has selected to copy it, or clicks on, is theirs: such a part waits.
function isInUse(element) {
  if (element.contains(pressed)) return true;
  const selection = getSelection();
  if (!selection.isCollapsed && selection.containsNode(element, true)) return true;
  const active = document.activeElement;
  return element.contains(active) && active.matches("input:not([type=hidden]), select, textarea");
}

export function show(key, html) {
  for (const element of parts.get(key) ?? []) {
    if (!isInUse(element)) morph(element, html);
  }
  document.dispatchEvent(new CustomEvent("nnhal-live", { detail: { key } }));
}

function told(message) {
  if (message.key) show(message.key, message.html);
  if (message.state === "live") { status.textContent = "live"; status.classList.remove("lost"); }
  if (message.state === "lost") { status.textContent = "not live: the dashboard does not answer"; status.classList.add("lost"); }
  if (message.state === "signed out") location.reload();
}

function start() {
  const keys = collect();
  if (!keys.length) return;
  if (window.SharedWorker) {
    const worker = new SharedWorker(new URL("live-worker.js", import.meta.url), { type: "module", name: "nnhal-live" });
    worker.port.onmessage = (event) => told(event.data);
    const follow = () => worker.port.postMessage({ keys: document.hidden ? [] : keys });
    document.addEventListener("visibilitychange", follow);
    follow();
    addEventListener("pagehide", () => worker.port.postMessage({ keys: [] }));
    addEventListener("pageshow", (event) => { if (event.persisted) follow(); });
  } else {
    import("./live-stream.js").then(({ Stream }) => {
      const stream = new Stream(told);
      const follow = () => stream.follow(document.hidden ? [] : keys);
      document.addEventListener("visibilitychange", follow);
      follow();
    });
  }
}

document.addEventListener("submit", (event) => {
  const question = event.target.dataset.confirm;
  if (question && !confirm(question)) event.preventDefault();
});

start();
