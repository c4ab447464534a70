// The form of a model: a pad to draw on, and files that are dropped.

import { startPad } from "./digit.js";

for (const place of document.querySelectorAll("[data-drawing]")) startPad(place);

function choose(field) {
  const [way, number] = field.name.split(".");
  const choice = document.querySelector(`input[type=radio][name="way.${number}"][value="${way}"]`);
  if (choice) choice.checked = true;
}

for (const label of document.querySelectorAll("[data-drop]")) {
  const field = label.querySelector("input[type=file]");
  const place = label.closest("fieldset");
  field.addEventListener("change", () => choose(field));
  place.addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    place.classList.add("dropping");
  });
  place.addEventListener("dragleave", () => place.classList.remove("dropping"));
  place.addEventListener("drop", (event) => {
    place.classList.remove("dropping");
    const files = event.dataTransfer.files;
    if (!files.length || field.name.startsWith("npy.") !== files[0].name.endsWith(".npy")) return;
    event.preventDefault();
    field.files = files;
    choose(field);
  });
}
