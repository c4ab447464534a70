// In the graph of a plan: operations are chosen for pins with Shift, Ctrl or Space, and what is told of one comes without
// the page being loaded anew.

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

// The page that a link of the graph leads to differs in the graph and in what is told of the chosen box.
async function follow(address, isBack) {
  const answer = await fetch(address, { headers: { accept: "text/html" } }).catch(() => null);
  if (!answer?.ok) { location.assign(address); return; }
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const [old, fresh] = [document.getElementById("plan-view"), page.getElementById("plan-view")];
  if (!fresh) { location.assign(address); return; }
  const places = [...old.querySelectorAll(".graph-view, .beside .scroll")].map((each) => [each.scrollLeft, each.scrollTop]);
  old.replaceWith(fresh);
  [...fresh.querySelectorAll(".graph-view, .beside .scroll")].forEach((each, at) => {
    if (places[at]) [each.scrollLeft, each.scrollTop] = places[at];
  });
  if (!isBack) history.pushState({ nnhal: true }, "", address);
  const chosen = document.getElementById("chosen");
  if (new URL(address, location.href).hash === "#chosen" && chosen) {
    chosen.focus({ preventScroll: true });
    chosen.scrollIntoView({ block: "nearest" });
  }
  show();
}

document.addEventListener("click", (event) => {
  const found = nodeAt(event);
  if (!found || event.button !== 0) return;
  if (form && found.number !== null && (event.shiftKey || event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    choose(found.number, event.shiftKey);
  } else if (!event.shiftKey && !event.ctrlKey && !event.metaKey && !event.altKey && addressOf(found.link).pathname === location.pathname) {
    event.preventDefault();
    follow(addressOf(found.link), false);
  }
});

document.addEventListener("keydown", (event) => {
  const found = event.key === " " ? nodeAt(event) : null;
  if (!form || !found || found.number === null) return;
  event.preventDefault();
  choose(found.number, event.shiftKey);
});

addEventListener("popstate", () => follow(location.href, true));
form?.addEventListener("change", show);
document.querySelector("#plan-view .graph .selected")?.scrollIntoView({ block: "center", inline: "center" });
show();
