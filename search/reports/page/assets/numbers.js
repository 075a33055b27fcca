// The data of the page, and numbers as text.
const data = JSON.parse(document.getElementById("data").textContent);
const DONE = data.stages.indexOf("done"), STOPPED = data.stages.indexOf("stopped");

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

function median(values) {
  const sorted = [...values].sort((a, b) => a - b), middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// The trials of a task, each as an object; `row` is its place in the data.
function trialsOf(task) {
  const rows = data.rows, found = [];
  for (let row = 0; row < rows.task.length; row++) {
    if (rows.task[row] !== task) continue;
    found.push({
      row, number: rows.number[row], batch: rows.batch[row], stage: rows.stage[row],
      time: rows.time[row], best: rows.best[row], score: rows.score[row], at: rows.at[row],
      building: rows.building[row], measuring: rows.measuring[row],
      space: rows.space[row], decisions: rows.decisions[row], machine: rows.machine[row],
    });
  }
  return found;
}

function inOrder(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a === "number") return -1;
  return typeof b === "number" ? 1 : String(a).localeCompare(String(b));
}

// Elements, whose texts are texts and never HTML.
function made(name, attributes = {}, ...content) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...content.flat().filter((part) => part !== null && part !== undefined));
  return element;
}

function tableOf(caption, heading, rows) {
  const isNumber = heading.map((_, k) => rows.every((row) => /^[-\d.,e+%]*$/.test(String(row[k]))));
  const side = (k) => (isNumber[k] ? "number" : null);
  return made("div", { class: "wide", tabindex: 0, role: "region", "aria-label": caption }, made("table", {},
    made("caption", {}, caption),
    made("thead", {}, made("tr", {},
      heading.map((text, k) => made("th", { scope: "col", class: side(k) }, text)))),
    made("tbody", {}, rows.map((row) => made("tr", {}, row.map((text, k) =>
      k ? made("td", { class: side(k) }, String(text))
        : made("th", { scope: "row", class: side(k) }, String(text))))))));
}

// A folded table, which is made when somebody opens it.
function foldedTable(summary, make) {
  const place = made("div");
  const fold = made("details", {}, made("summary", {}, summary), place);
  fold.refresh = () => { if (fold.open) place.replaceChildren(make()); };
  fold.addEventListener("toggle", fold.refresh);
  return fold;
}
