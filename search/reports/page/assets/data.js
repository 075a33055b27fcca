// The data of the page.
const data = JSON.parse(document.getElementById("data").textContent);
const DONE = data.stages.indexOf("done"), STOPPED = data.stages.indexOf("stopped");

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

// A folded table, which is made when somebody opens it.
function foldedTable(summary, make) {
  const place = made("div");
  const fold = made("details", {}, made("summary", {}, summary), place);
  fold.refresh = () => { if (fold.open) place.replaceChildren(make()); };
  fold.addEventListener("toggle", fold.refresh);
  return fold;
}
