// Makes a part of a page like what was told of it, and leaves alone what is the same: the browser lays out only what has
// changed, and what has the focus, is opened or is scrolled stays so.

// Rows that come and go have a key: one that was added moves the others, and changes none.
const keyOf = (node) => node.dataset?.key ?? node.id ?? "";
const isAlike = (old, fresh) => old.nodeName === fresh.nodeName && keyOf(old) === keyOf(fresh);

// What a reader has opened or closed stays so, and a time that the browser's zone was put in is the same time.
const isKept = (node, name) => node.nodeName === "DETAILS" && name === "open";
const isSame = (old, fresh) => old.isEqualNode(fresh) || (old.nodeName === "TIME" && old.dateTime === fresh.dateTime);

function morphNode(old, fresh) {
  if (isSame(old, fresh)) return;
  if (old.nodeType !== Node.ELEMENT_NODE) { old.data = fresh.data; return; }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !isKept(old, name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && !isKept(old, name)) old.setAttribute(name, value);
  }
  morphChildren(old, fresh);
}

function morphChildren(old, fresh) {
  const keyed = new Map([...old.children].filter(keyOf).map((each) => [keyOf(each), each]));
  let next = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const known = keyOf(wanted) ? keyed.get(keyOf(wanted)) : next;
    if (!known || !isAlike(known, wanted)) { old.insertBefore(wanted, next); continue; }
    keyed.delete(keyOf(wanted));
    if (known === next) next = next.nextSibling;
    else old.insertBefore(known, next);
    morphNode(known, wanted);
  }
  while (next) { const gone = next; next = next.nextSibling; gone.remove(); }
}

export function morph(element, html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  morphChildren(element, template.content);
}
