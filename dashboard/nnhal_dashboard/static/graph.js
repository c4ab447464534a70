// A graph in its view: zoom, a map of all of it, panning, and the arrow keys that lead from box to box. The drawing is
// the server's, and whole without this.

const LEAST = 0.05, MOST = 3, READABLE = 0.55, STEP = 1.25;
const MAP = { width: 160, least: 60, most: 220 };
const SVG = "http://www.w3.org/2000/svg";
const scales = new Map(); // by the name of a view, for the drawing that comes in its place

function made(tag, attributes, parent) {
  const element = tag === "svg" || tag === "rect" ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  parent?.append(element);
  return element;
}

class View {
  constructor(scroll) {
    this.scroll = scroll;
    this.drawing = scroll.querySelector(":scope > .drawing");
    this.name = scroll.getAttribute("aria-label");
    [this.width, this.height] = ["width", "height"].map((name) => Number(this.drawing.getAttribute(name)));
    scroll.classList.add("zoomed");
    this.pane = scroll.parentElement;
    this.pane.classList.add("graph-pane");
    this.scale = 0;
    this.addTools();
    this.addMap();
    this.zoom(scales.get(this.name) ?? this.fitting());
    scroll.addEventListener("scroll", () => this.showPart(), { passive: true });
    scroll.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    scroll.addEventListener("keydown", (event) => this.key(event));
    scroll.addEventListener("pointerdown", (event) => this.pan(event));
    new ResizeObserver(() => this.showPart()).observe(scroll);
  }

  // As wide as the view, unless that would be too small to read.
  fitting() {
    const room = (this.scroll.clientWidth - 16) / this.width;
    return room < READABLE ? 1 : Math.min(room, 1);
  }

  // All of the drawing in the view.
  whole() {
    const style = getComputedStyle(this.scroll);
    const around = (...sides) => sides.reduce((sum, side) => sum + parseFloat(style[`padding${side}`]), 4);
    const high = parseFloat(style.maxHeight) - around("Top", "Bottom");
    return Math.min((this.scroll.clientWidth - around("Left", "Right")) / this.width, high / this.height, 1);
  }

  // Changes the scale; what is at a point of the view, its middle without one, stays there.
  zoom(wanted, at = { x: this.scroll.clientWidth / 2, y: this.scroll.clientHeight / 2 }) {
    const scale = Math.min(Math.max(wanted, LEAST), MOST), old = this.scale || scale;
    const [x, y] = [(this.scroll.scrollLeft + at.x) / old, (this.scroll.scrollTop + at.y) / old];
    this.scale = scale;
    scales.set(this.name, scale);
    this.drawing.setAttribute("width", Math.round(this.width * scale));
    this.drawing.setAttribute("height", Math.round(this.height * scale));
    this.scroll.scrollTo(x * scale - at.x, y * scale - at.y);
    this.percent.textContent = `${Math.round(scale * 100)} %`;
    this.showPart();
  }

  addTools() {
    const tools = made("div", { class: "graph-tools", role: "group", "aria-label": `Zoom of ${this.name}` }, this.pane);
    const button = (text, label, act) => {
      const element = made("button", { type: "button", "aria-label": label, title: label }, tools);
      element.textContent = text;
      element.addEventListener("click", act);
      return element;
    };
    button("−", "Zoom out", () => this.zoom(this.scale / STEP));
    this.percent = made("output", { role: "status" }, tools);
    button("+", "Zoom in", () => this.zoom(this.scale * STEP));
    button("1:1", "Full size", () => this.zoom(1));
    button("Fit", "Fit into the view", () => this.zoom(this.whole()));
  }

  addMap() {
    const height = Math.min(Math.max((MAP.width * this.height) / this.width, MAP.least), MAP.most);
    this.map = made("svg", {
      class: "drawing graph-map", "aria-hidden": "true", viewBox: `0 0 ${this.width} ${this.height}`,
      preserveAspectRatio: "none", width: MAP.width,
    }, this.pane);
    this.map.style.height = `${height}px`;
    const origin = this.drawing.getBoundingClientRect(), ratio = this.width / origin.width;
    const frames = [...this.drawing.querySelectorAll(".frame")].map((frame) => [frame.parentElement, frame.getBoundingClientRect()]);
    const rects = document.createDocumentFragment();
    for (const [owner, box] of frames) {
      made("rect", {
        class: `${owner.getAttribute("class").match(/lane-\d/)?.[0] ?? ""} ${owner.matches(".open-step") ? "around" : "box"}`,
        x: (box.x - origin.x) * ratio, y: (box.y - origin.y) * ratio, width: box.width * ratio, height: box.height * ratio,
      }, rects);
    }
    this.map.append(rects);
    this.part = made("rect", { class: "part" }, this.map);
    const go = (event) => {
      const box = this.map.getBoundingClientRect();
      this.centre(((event.clientX - box.x) / box.width) * this.width, ((event.clientY - box.y) / box.height) * this.height);
    };
    this.map.addEventListener("pointerdown", (event) => { this.map.setPointerCapture(event.pointerId); go(event); });
    this.map.addEventListener("pointermove", (event) => { if (event.buttons) go(event); });
  }

  // Brings a point of the drawing to the middle of the view.
  centre(x, y) {
    this.scroll.scrollTo(x * this.scale - this.scroll.clientWidth / 2, y * this.scale - this.scroll.clientHeight / 2);
  }

  show(element) {
    const box = element.getBoundingClientRect(), view = this.scroll.getBoundingClientRect();
    this.scroll.scrollBy(
      box.x + box.width / 2 - view.x - this.scroll.clientWidth / 2, box.y + box.height / 2 - view.y - this.scroll.clientHeight / 2,
    );
  }

  showPart() {
    const { scrollLeft, scrollTop, clientWidth, clientHeight, scrollWidth, scrollHeight } = this.scroll;
    this.map.classList.toggle("unneeded", scrollWidth <= clientWidth + 1 && scrollHeight <= clientHeight + 1);
    const part = { x: scrollLeft, y: scrollTop, width: clientWidth, height: clientHeight };
    for (const [name, value] of Object.entries(part)) this.part.setAttribute(name, value / this.scale);
  }

  wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const box = this.scroll.getBoundingClientRect();
    this.zoom(this.scale * Math.exp(-event.deltaY / 300), { x: event.clientX - box.x, y: event.clientY - box.y });
  }

  pan(event) {
    if (event.button !== 0 || event.pointerType !== "mouse" || event.target.closest("a") || event.offsetX > this.scroll.clientWidth || event.offsetY > this.scroll.clientHeight) return;
    const { clientX, clientY } = event, { scrollLeft, scrollTop } = this.scroll;
    const move = (next) => this.scroll.scrollTo(scrollLeft + clientX - next.clientX, scrollTop + clientY - next.clientY);
    this.scroll.setPointerCapture(event.pointerId);
    this.scroll.addEventListener("pointermove", move);
    this.scroll.addEventListener("lostpointercapture", () => this.scroll.removeEventListener("pointermove", move), { once: true });
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "+" || event.key === "=") this.zoom(this.scale * STEP);
    else if (event.key === "-") this.zoom(this.scale / STEP);
    else if (event.key === "0") this.zoom(this.whole());
    else if (event.key === "1") this.zoom(1);
    else if (!this.walk(event.key)) return;
    event.preventDefault();
  }

  // From a box, an arrow key leads to the nearest one in its direction; from the view itself it scrolls.
  walk(key) {
    const way = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[key];
    const from = document.activeElement?.closest?.("a.node");
    if (!way || !from || !this.drawing.contains(from)) return false;
    const middle = (each) => { const box = each.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; };
    const [x, y] = middle(from);
    let best = null, least = Infinity;
    for (const each of this.drawing.querySelectorAll("a.node:not(.toggle)")) {
      const [otherX, otherY] = middle(each);
      const along = (otherX - x) * way[0] + (otherY - y) * way[1], aside = Math.abs((otherX - x) * way[1]) + Math.abs((otherY - y) * way[0]);
      const far = along + 3 * aside;
      if (each !== from && along > 4 && far < least) [best, least] = [each, far];
    }
    if (best) {
      best.focus({ preventScroll: true });
      this.show(best);
    }
    return true;
  }
}

const views = new WeakMap();

// Gives the graphs below an element their tools.
export function dress(root) {
  for (const scroll of root.querySelectorAll(".graph-view, .beside .scroll")) {
    if (scroll.querySelector(":scope > .drawing") && !views.has(scroll)) views.set(scroll, new View(scroll));
  }
}

// Brings a box of a graph to the middle of its view, and the view into the window.
export function showBox(element) {
  const scroll = element?.closest(".graph-view, .beside .scroll");
  views.get(scroll)?.show(element);
  scroll?.scrollIntoView({ block: "nearest" });
}
