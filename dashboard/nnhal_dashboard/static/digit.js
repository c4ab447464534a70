// A pad to draw on with a pointer or with the keys: white ink on black, which goes with the form as a PNG.

const SIZE = 280;
const PEN = 32;
const STEP = 10;

export function startPad(place) {
  const field = place.closest("form").elements[place.dataset.drawing];
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = SIZE;
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-label", place.dataset.label + ": draw with a pointer, or move the pen with the arrow keys while Shift is down");
  const clear = document.createElement("button");
  clear.type = "button";
  clear.textContent = "Clear";
  const pad = document.createElement("div");
  pad.className = "pad";
  const tip = document.createElement("span");
  pad.append(canvas, tip);
  place.append(pad, clear);

  const paper = canvas.getContext("2d");
  let last = null;

  function blank() {
    paper.fillStyle = "black";
    paper.fillRect(0, 0, SIZE, SIZE);
    Object.assign(paper, { lineWidth: PEN, lineCap: "round", lineJoin: "round", strokeStyle: "white" });
  }

  function line(from, to) {
    paper.beginPath();
    paper.moveTo(from.x, from.y);
    paper.lineTo(to.x, to.y);
    paper.stroke();
  }

  function keep() {
    field.value = canvas.toDataURL("image/png");
    const choice = place.closest("fieldset").querySelector('input[type=radio][value="drawing"]');
    if (choice) choice.checked = true;
  }

  function pointOf(event) {
    const box = canvas.getBoundingClientRect();
    return { x: (event.clientX - box.left) * SIZE / box.width, y: (event.clientY - box.top) * SIZE / box.height };
  }

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    last = pointOf(event);
    line(last, last);
    keep();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!canvas.hasPointerCapture(event.pointerId)) return;
    for (const each of event.getCoalescedEvents?.() ?? [event]) {
      const next = pointOf(each);
      line(last, next);
      last = next;
    }
  });
  for (const ending of ["pointerup", "pointercancel"]) canvas.addEventListener(ending, keep);

  let pen = { x: SIZE / 2, y: SIZE / 2 };
  const MOVES = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, -STEP], ArrowDown: [0, STEP] };
  canvas.addEventListener("keydown", (event) => {
    const move = MOVES[event.key];
    if (!move) return;
    event.preventDefault();
    const inside = (value) => Math.min(SIZE - PEN / 2, Math.max(PEN / 2, value));
    const next = { x: inside(pen.x + move[0]), y: inside(pen.y + move[1]) };
    if (event.shiftKey) { line(pen, next); keep(); }
    pen = next;
    showTip();
  });

  function showTip() {
    tip.style.left = `${pen.x / SIZE * 100}%`;
    tip.style.top = `${pen.y / SIZE * 100}%`;
  }

  clear.addEventListener("click", () => {
    blank();
    field.value = "";
  });

  blank();
  showTip();
  if (field.value) {
    const before = new Image();
    before.onload = () => paper.drawImage(before, 0, 0, SIZE, SIZE);
    before.src = field.value;
  }
}
