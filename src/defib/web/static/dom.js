// Elements from words. Text only ever becomes a text node, so that no name or message can be anything else.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
export const at = (id) => document.getElementById(id);

// Draws a part anew. What had the focus and what was unfolded is so afterwards, known by its data-key.
export function draw(place, ...children) {
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const unfolded = new Set([...place.querySelectorAll("details[open][data-key]")].map((one) => one.dataset.key));
  place.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  for (const one of place.querySelectorAll("details[data-key]")) if (unfolded.has(one.dataset.key)) one.open = true;
  if (focused) [...place.querySelectorAll("[data-key]")].find((one) => one.dataset.key === focused)?.focus({ preventScroll: true });
}

// A width in percent through the style object: the page's policy refuses style attributes.
export function wide(element, share) {
  element.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return element;
}

export const nothing = (sentence) => h("p", { class: "nothing" }, sentence);
