// In the graph of a plan: operations are chosen for pins with Shift, Ctrl or Space, and what is told of one, found or
// unfolded comes without the page being loaded anew.

import { dress, showBox } from "./graph.js";

const form = document.getElementById("pinning");
const count = document.getElementById("pinning-count");
let anchor = null;

// The href of a link in SVG is no text.
const addressOf = (link) => new URL(link.getAttribute("href"), location.href);

// The number of the operation of a box, in the plan that pins are chosen for.
function numberOf(link) {
  if (link.matches(".toggle")) return null;
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

function choose(number, isRange) {
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
  const link = event.target.closest?.("#plan-view a[href]");
  return link ? { link, number: link.closest(".graph") ? numberOf(link) : null } : null;
}

// The page that a link of the graph leads to differs in the part that the graph is in. The last one that was asked for
// is shown, though an earlier one may come later.
let asked = 0;

async function follow(address, kind = "") {
  const number = ++asked;
  const answer = await fetch(address, { headers: { accept: "text/html", "nnhal-part": "plan-view" } }).catch(() => null);
  if (number !== asked) return;
  if (!answer?.ok) { location.assign(address); return; }
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (number !== asked) return;
  const [old, fresh] = [document.getElementById("plan-view"), page.getElementById("plan-view")];
  if (!fresh) { location.assign(address); return; }
  const places = [...old.querySelectorAll(".graph-view, .beside .scroll")].map((each) => [each.scrollLeft, each.scrollTop]);
  const field = document.activeElement?.id === "find" ? document.activeElement : null;
  old.replaceWith(fresh);
  dress(fresh);
  [...fresh.querySelectorAll(".graph-view, .beside .scroll")].forEach((each, at) => {
    if (places[at]) [each.scrollLeft, each.scrollTop] = places[at];
  });
  if (kind === "typed") history.replaceState({ nnhal: true }, "", address);
  else if (kind !== "back") history.pushState({ nnhal: true }, "", address);
  if (field) keepTyping(field);
  arrive(new URL(address, location.href).hash, kind);
  show();
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
    choose(found.number, event.shiftKey);
  } else if (!event.shiftKey && !event.ctrlKey && !event.metaKey && !event.altKey && addressOf(found.link).pathname === location.pathname) {
    event.preventDefault();
    follow(addressOf(found.link), "");
  }
});

document.addEventListener("keydown", (event) => {
  const found = event.key === " " ? nodeAt(event) : null;
  if (!form || !found || found.number === null) return;
  event.preventDefault();
  choose(found.number, event.shiftKey);
});

addEventListener("popstate", () => follow(location.href, "back"));
form?.addEventListener("change", show);
dress(document);
showBox(document.querySelector("#plan-view .graph .selected"));
show();
