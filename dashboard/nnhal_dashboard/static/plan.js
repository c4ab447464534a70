// In the graph of a plan: operations are chosen for pins with Shift, Ctrl or Space, and what is told of one, found or
// unfolded comes without the page being loaded anew.

import { dress, showBox } from "./graph.js";

const form = document.getElementById("pinning");
const count = document.getElementById("pinning-count");
let anchor = null;

// The href of a link in SVG is no text.
const addressOf = (link) => new URL(link.getAttribute("href"), location.href);

// Where a link leads. One that opens or folds something keeps what was chosen since it was made.
function targetOf(link) {
  const address = addressOf(link);
  if (address.hash === "#chosen" || link.closest(".found")) return address;
  const now = new URLSearchParams(location.search);
  for (const name of CHOICE) {
    if (now.has(name)) address.searchParams.set(name, now.get(name));
    else address.searchParams.delete(name);
  }
  return address;
}

// The number of the operation of a box, in the plan that pins are chosen for.
function numberOf(link) {
  if (link.matches(".toggle, .scope")) return null;
  const query = addressOf(link).searchParams;
  return query.has("node") && query.get("side") !== "new" ? Number(query.get("node")) : null;
}

const boxes = () => [...(form?.querySelectorAll("input[name=at]") ?? [])];
const links = () => [...document.querySelectorAll("#plan-view .graph a[href*='node=']")];

function show() {
  const chosen = new Set(boxes().filter((box) => box.checked).map((box) => Number(box.value)));
  for (const link of links()) {
    const number = numberOf(link);
    if (number !== null) link.classList.toggle("to-pin", chosen.has(number));
  }
  if (count) count.textContent = chosen.size ? `${chosen.size} operation${chosen.size > 1 ? "s" : ""} chosen` : "";
}

function pick(number, isRange) {
  const all = boxes();
  if (!all[number]) return;
  if (isRange && anchor !== null) {
    const [low, high] = [Math.min(anchor, number), Math.max(anchor, number)];
    for (const box of all.slice(low, high + 1)) box.checked = true;
  } else {
    all[number].checked = !all[number].checked;
    anchor = number;
  }
  show();
}

function nodeAt(event) {
  const link = event.target.closest?.("#plan-view a[href]:not([href^='#'], [download])");
  return link ? { link, number: link.closest(".graph") ? numberOf(link) : null } : null;
}

// The page that a link leads to differs in what is told of the chosen box, or in the whole part that the graph is in. Only
// that is asked for. The last one that was asked for is shown, though an earlier one may come later.
const CHOICE = ["node", "step", "side"];
let asked = 0;

async function partOf(address, id) {
  const number = ++asked;
  const answer = await fetch(address, { headers: { accept: "text/html", "nnhal-part": id } }).catch(() => null);
  const text = answer?.ok ? await answer.text() : "";
  if (number !== asked) return null;
  const part = new DOMParser().parseFromString(text, "text/html").getElementById(id);
  if (!part) location.assign(address);
  return part;
}

function stateOf(address) {
  const query = new URL(address).searchParams;
  for (const name of [...CHOICE, "find"]) query.delete(name);
  return query.toString();
}

async function follow(address, kind = "") {
  const isChoice = form && kind === "" && stateOf(address) === stateOf(location) && !document.querySelector(".trial");
  if (isChoice ? !(await choose(address)) : !(await redraw(address, kind))) return;
  if (kind === "typed") history.replaceState({ nnhal: true }, "", address);
  else if (kind !== "back") history.pushState({ nnhal: true }, "", address);
  arrive(new URL(address).hash, kind);
  show();
}

async function choose(address) {
  const fresh = await partOf(address, "chosen");
  if (!fresh) return false;
  document.getElementById("chosen").replaceWith(fresh);
  const node = new URL(address).searchParams.get("node");
  for (const each of document.querySelectorAll("#plan-view .graph .selected")) each.classList.remove("selected");
  if (node !== null) {
    document.querySelector("#plan-view .plan-and-panel").classList.add("split");
    document.getElementById(`old-operation-${node}`)?.classList.add("selected");
  }
  return true;
}

async function redraw(address, kind) {
  const fresh = await partOf(address, "plan-view");
  if (!fresh) return false;
  const old = document.getElementById("plan-view");
  const places = [...old.querySelectorAll(".graph-view, .beside .scroll")].map((each) => [each.scrollLeft, each.scrollTop]);
  const field = document.activeElement?.id === "find" ? document.activeElement : null;
  old.replaceWith(fresh);
  dress(fresh);
  [...fresh.querySelectorAll(".graph-view, .beside .scroll")].forEach((each, at) => {
    if (places[at]) [each.scrollLeft, each.scrollTop] = places[at];
  });
  if (field) keepTyping(field);
  return true;
}

// What was typed while the answer came stays as it is.
function keepTyping(field) {
  const fresh = document.getElementById("find");
  fresh.value = field.value;
  fresh.focus({ preventScroll: true });
  fresh.setSelectionRange(field.selectionStart, field.selectionEnd);
}

function arrive(hash, kind) {
  const place = hash ? document.getElementById(decodeURIComponent(hash.slice(1))) : null;
  if (place?.matches(".node")) {
    showBox(place);
    if (kind !== "found" && document.activeElement?.id !== "find") place.focus({ preventScroll: true });
  } else if (place?.id === "chosen") {
    place.focus({ preventScroll: true });
    place.scrollIntoView({ block: "nearest" });
  }
}

// Operations are found while their name is typed; Enter leads to the first one, and again to those after it.
let timer = 0;

function searchFor(field) {
  const address = new URL(field.form.action);
  for (const [name, value] of new FormData(field.form)) if (value || name !== "find") address.searchParams.append(name, value);
  return address;
}

document.addEventListener("input", (event) => {
  if (event.target.id !== "find") return;
  clearTimeout(timer);
  timer = setTimeout(() => follow(searchFor(event.target), "typed"), 200);
});

document.addEventListener("submit", async (event) => {
  const field = event.target.querySelector("#find");
  if (!field) return;
  event.preventDefault();
  clearTimeout(timer);
  const text = field.value;
  if (new URLSearchParams(location.search).get("find") !== text) await follow(searchFor(field), "typed");
  if (document.getElementById("find").value !== text) return;
  const found = [...document.querySelectorAll(".found a")];
  const now = found.findIndex((link) => addressOf(link).searchParams.get("node") === new URLSearchParams(location.search).get("node"));
  const next = found[(now + 1) % found.length];
  if (next) follow(addressOf(next), "found");
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  const field = document.getElementById("find");
  if (!field) return;
  event.preventDefault();
  field.focus();
  field.select();
});

document.addEventListener("click", (event) => {
  const found = nodeAt(event);
  if (!found || event.button !== 0) return;
  if (form && found.number !== null && (event.shiftKey || event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    pick(found.number, event.shiftKey);
  } else if (!event.shiftKey && !event.ctrlKey && !event.metaKey && !event.altKey && addressOf(found.link).pathname === location.pathname) {
    event.preventDefault();
    follow(targetOf(found.link), "");
  }
});

document.addEventListener("keydown", (event) => {
  const found = event.key === " " ? nodeAt(event) : null;
  if (!form || !found || found.number === null) return;
  event.preventDefault();
  pick(found.number, event.shiftKey);
});

addEventListener("popstate", () => follow(new URL(location.href), "back"));
form?.addEventListener("change", show);
dress(document);
showBox(document.querySelector("#plan-view .graph .selected"));
show();
