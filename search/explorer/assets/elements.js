// Elements, tables, and numbers as text, for the explorers and the report.

// Texts are texts and never HTML.
function made(name, attributes = {}, ...content) {
  return filled(document.createElement(name), attributes, content);
}

function drawn(name, attributes = {}, ...content) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, content);
}

function filled(element, attributes, content) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...content.flat().filter((part) => part !== null && part !== undefined));
  return element;
}

function number(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) return value.toExponential(2);
  return Number(value.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 9 });
}

function time(us) {
  if (us === null || us === undefined) return "";
  if (us >= 1e6) return number(us / 1e6) + " s";
  if (us >= 1e3) return number(us / 1e3) + " ms";
  return us >= 1 ? number(us) + " us" : number(us * 1e3) + " ns";
}

// Numbers between two for a logarithmic axis: 1, 2 and 5 in each decade, or fewer of many.
function roundNumbers(low, high) {
  const few = high > low * 1e4 ? [1] : [1, 2, 5], found = [];
  for (let decade = Math.floor(Math.log10(low)); 10 ** decade <= high; decade++) {
    found.push(...few.map((one) => one * 10 ** decade).filter((one) => one >= low && one <= high));
  }
  return found;
}

// A table, whose cells are texts, numbers or elements; columns of numbers are aligned at the right.
function tableOf(caption, heading, rows) {
  const isNumber = heading.map((_, k) => rows.every((row) => /^[-\d.,e+%]*$/.test(String(row[k]))));
  const side = (k) => (isNumber[k] ? "number" : null);
  const content = (cell) => (cell instanceof Node ? cell : String(cell));
  return made("div", { class: "wide", tabindex: 0, role: "region", "aria-label": caption }, made("table", {},
    made("caption", {}, caption),
    made("thead", {}, made("tr", {},
      heading.map((text, k) => made("th", { scope: "col", class: side(k) }, text)))),
    made("tbody", {}, rows.map((row) => made("tr", {}, row.map((cell, k) =>
      k ? made("td", { class: side(k) }, content(cell))
        : made("th", { scope: "row", class: side(k) }, content(cell))))))));
}

// The data that `packed` has compressed in Python.
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}

// Draws a component. Without a channel to Python, all data is there, and nothing can be edited.
function show(root, data, channel = null) {
  return data.tasks ? new Points(root, data, channel) : new Explorer(root, data, channel);
}
