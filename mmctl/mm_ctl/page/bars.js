// Memory as bars. Every text is set as text, never as HTML.
"use strict";

const COLOURS = ["#3b76c4", "#e0912f", "#4f9f52", "#c94f57", "#8a6bc0", "#9a6a4f", "#d977b5", "#6f7a86",
  "#a8a12c", "#2fa3b5", "#7fb2e5", "#f0bf7a", "#94c996", "#b5a3dc"];
const colourOf = new Map();

/** Make an element. properties: of the element; children: elements or texts. */
function make(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children.filter((one) => one !== null && one !== undefined));
  return element;
}

function size(bytes) {
  const [unit, by] = bytes >= 2 ** 30 ? ["GiB", 2 ** 30] : ["MiB", 2 ** 20];
  return `${(bytes / by).toFixed(1)} ${unit}`;
}

function swatch(colour) {
  const square = make("span", { className: "swatch" });
  square.style.background = colour;
  square.setAttribute("aria-hidden", "true");
  return square;
}

/** Return a figure: a sentence, the bar, and the same as a table. */
function barOf({ name, parts, limit }) {
  const used = parts.reduce((sum, [, bytes]) => sum + bytes, 0);
  const end = Math.max(used, limit ?? 0);
  const bar = make("div", { className: "bar" });
  bar.setAttribute("aria-hidden", "true");
  const rows = make("tbody");
  const add = (text, bytes, colour) => rows.append(make("tr", {}, make("td", {}, swatch(colour), text),
    make("td", { className: "number" }, size(bytes)),
    make("td", { className: "number" }, `${(100 * bytes / end).toFixed(1)} %`)));
  for (const [text, bytes] of parts) {
    if (!colourOf.has(text)) colourOf.set(text, COLOURS[colourOf.size % COLOURS.length]);
    const part = make("span", { title: `${text}: ${size(bytes)}` });
    part.style.width = `${100 * bytes / end}%`;
    part.style.background = colourOf.get(text);
    bar.append(part);
    add(text, bytes, colourOf.get(text));
  }
  let says = `${name}: ${size(used)}`;
  if (limit) {
    says += ` of ${size(limit)}, ` + (used > limit ? `${size(used - limit)} too much` : `${size(limit - used)} free`);
    if (used > limit) {
      const mark = make("div", { className: "limit", title: `limit: ${size(limit)}` });
      mark.style.left = `${100 * limit / end}%`;
      bar.append(mark);
    } else add("free", limit - used, "var(--free)");
  }
  const head = make("tr", {}, ...["part", "size", "share"].map((one) => make("th", { scope: "col" }, one)));
  return make("figure", {}, make("figcaption", { className: limit && used > limit ? "bad" : "" }, says), bar,
    make("details", {}, make("summary", {}, "parts"), make("table", {}, make("thead", {}, head), rows)));
}
