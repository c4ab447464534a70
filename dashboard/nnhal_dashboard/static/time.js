// Times of day in the browser's zone, and a crosshair that all charts of a page share: at one instant, by pointer or by keys.

const SVG = "http://www.w3.org/2000/svg";
const KEYS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 };
const STEPS = 100;
const NEAR = 8;

const two = (number) => String(number).padStart(2, "0");
const clock = (date) => [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
const day = (date) => [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join("-");
const zone = new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts(new Date()).find((part) => part.type === "timeZoneName").value;
const fresh = (selector) => [...document.querySelectorAll(`${selector}:not([data-local])`)].map((each) => { each.dataset.local = ""; return each; });

function localise() {
  for (const time of fresh("time[datetime]")) {
    const date = new Date(time.dateTime);
    time.title = time.textContent;
    time.textContent = "date" in time.dataset ? `${day(date)} ${clock(date)}` : clock(date);
  }
  for (const tick of fresh("text[data-at]")) {
    tick.textContent = clock(new Date(1000 * tick.dataset.at)).slice(0, tick.textContent.length);
  }
  for (const mark of fresh("a[data-at]")) {
    const instants = mark.dataset.at.split(" ");
    const local = (text) => instants.reduce((told, at) => told.replace(/\d\d:\d\d:\d\d UTC/, clock(new Date(1000 * at))), text);
    mark.setAttribute("aria-label", local(mark.getAttribute("aria-label")));
    const title = mark.querySelector("title");
    title.textContent = local(title.textContent);
  }
  for (const name of fresh("[data-zone]")) name.textContent = zone;
}

// Where a chart has its frame, and which time and value its edges stand for.
function frameOf(chart) {
  const [left, right, top, bottom] = chart.dataset.box.split(" ").map(Number);
  const [begin, end] = chart.dataset.time.split(" ").map(Number);
  return { left, right, top, bottom, begin, end, high: Number(chart.dataset.high) };
}

const charts = () => [...document.querySelectorAll("[data-chart]")];
let instant = null;

function valueAt(path, x, frame) {
  let nearest = null;
  for (const [, px, py] of path.getAttribute("d").matchAll(/[ML]([\d.-]+) ([\d.-]+)/g)) {
    if (nearest === null || Math.abs(px - x) < Math.abs(nearest.x - x)) nearest = { x: Number(px), y: Number(py) };
  }
  if (nearest === null || Math.abs(nearest.x - x) > NEAR) return null;
  return (frame.bottom - nearest.y) / (frame.bottom - frame.top) * frame.high;
}

const written = (value) => Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));

function draw(chart) {
  const frame = frameOf(chart);
  const svg = chart.ownerSVGElement;
  svg.querySelector(".crosshair")?.remove();
  const isInside = instant !== null && instant >= frame.begin && instant <= frame.end;
  const x = frame.left + (instant - frame.begin) / (frame.end - frame.begin) * (frame.right - frame.left);
  const said = [];
  if (isInside) {
    const line = document.createElementNS(SVG, "line");
    line.setAttribute("class", "crosshair");
    for (const [name, value] of Object.entries({ x1: x, x2: x, y1: frame.top, y2: frame.bottom })) line.setAttribute(name, value);
    chart.append(line);
  }
  for (const label of svg.querySelectorAll("[data-value-of]")) {
    label.dataset.last ??= label.textContent;
    const path = svg.querySelector(`[data-series="${label.dataset.valueOf}"]`);
    const value = isInside && path ? valueAt(path, x, frame) : null;
    label.textContent = isInside ? `${label.dataset.name} ${value === null ? "unknown" : written(value)}`.trim() : label.dataset.last;
    if (isInside) said.push(label.textContent);
  }
  const name = svg.querySelector("[data-zone]");
  if (name) name.textContent = isInside ? clock(new Date(1000 * instant)) : zone;
  return said.join(", ");
}

function point(at, focused = null) {
  instant = at;
  let told = "";
  for (const chart of charts()) {
    const said = draw(chart);
    if (focused?.contains(chart)) told = said;
  }
  const status = document.getElementById("pointed-at");
  if (status) status.textContent = instant !== null && focused ? `${clock(new Date(1000 * instant))}: ${told || "no value"}` : "";
}

const chartAt = (event) => event.target.closest?.("svg.drawing")?.querySelector("[data-chart]");

function instantAt(chart, event) {
  const frame = frameOf(chart);
  const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(chart.getScreenCTM().inverse());
  const share = (place.x - frame.left) / (frame.right - frame.left);
  return share < 0 || share > 1 ? null : frame.begin + share * (frame.end - frame.begin);
}

// The slowest runs of some seconds around an instant.
function openRuns(at) {
  const near = (seconds) => new Date(1000 * (at + seconds)).toISOString().slice(0, 19) + "Z";
  location.assign(`/runs?${new URLSearchParams({ from: near(-5), until: near(5), sort: "took" })}`);
}

document.addEventListener("pointermove", (event) => {
  const chart = chartAt(event);
  if (chart) point(instantAt(chart, event));
  else if (instant !== null) point(null);
});

document.addEventListener("click", (event) => {
  const chart = chartAt(event);
  const at = chart && !event.target.closest("a") ? instantAt(chart, event) : null;
  if (at !== null) openRuns(at);
});

document.addEventListener("keydown", (event) => {
  const region = document.activeElement;
  const chart = region.matches?.(".scroll") ? region.querySelector("[data-chart]") : null;
  if (!chart || event.ctrlKey || event.altKey || event.metaKey) return;
  const { begin, end, left, right } = frameOf(chart);
  const isOn = instant !== null && instant >= begin && instant <= end;
  if (event.key in KEYS) point(Math.min(end, Math.max(begin, (isOn ? instant : end) + KEYS[event.key] * (end - begin) / STEPS)), region);
  else if (event.key === "Home") point(begin, region);
  else if (event.key === "End") point(end, region);
  else if (event.key === "Escape" && isOn) point(null);
  else if (event.key === "Enter" && isOn) openRuns(instant);
  else return;
  event.preventDefault();
  const share = instant === null ? 0 : (left + (instant - begin) / (end - begin) * (right - left)) / chart.ownerSVGElement.viewBox.baseVal.width;
  region.scrollLeft = share * region.scrollWidth - region.clientWidth / 2;
});

document.addEventListener("nnhal-live", () => {
  localise();
  if (instant !== null) charts().forEach(draw);
});
localise();
