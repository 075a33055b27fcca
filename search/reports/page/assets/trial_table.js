// All trials of a task, a page at a time, in any order.
const PAGE = 100;

class TrialTable {
  constructor(place) {
    this.place = place;
    this.fold = place.closest("details");
    this.sort = { key: "number", down: false };
    this.stage = "";
    this.first = 0;
    this.task = 0;
    this.fold.addEventListener("toggle", () => this.draw());
  }

  show(task) {
    if (task !== this.task) this.first = 0;
    this.task = task;
    this.draw();
  }

  columns(trials) {
    const plain = (key) => (one) => one[key];
    const elsewhere = trials.some((one) => one.machine !== null);
    return [
      ["number", "trial", plain("number")],
      ["batch", "batch", plain("batch")],
      ["stage", "ended", (one) => data.stages[one.stage]],
      ["time", "us per call", (one) => one.time, (one) => (one.stage === STOPPED ? "> " : "") + number(one.time, 6)],
      ["score", "predicted", plain("score")],
      ["at", "at (s)", plain("at")],
      ["building", "building (s)", plain("building")],
      ["measuring", "measuring (s)", plain("measuring")],
      ...(elsewhere ? [["machine", "machine", plain("machine")]] : []),
      ["space", "space", plain("space")],
      ["decisions", "decisions", (one) => one.decisions.join(", ")],
    ];
  }

  draw() {
    if (!this.fold.open) return;
    let trials = trialsOf(this.task);
    const columns = this.columns(trials);
    const [, , key] = columns.find(([name]) => name === this.sort.key) || columns[0];
    if (this.stage) trials = trials.filter((one) => data.stages[one.stage] === this.stage);
    const way = this.sort.down ? -1 : 1;
    trials.sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      // What is not known comes last either way.
      if (x === null || y === null) return (x === null) - (y === null);
      return way * inOrder(x, y);
    });
    this.first = Math.max(0, Math.min(this.first, Math.floor((trials.length - 1) / PAGE) * PAGE));
    const focused = this.place.contains(document.activeElement) ? document.activeElement.dataset.name : null;
    this.place.replaceChildren(this.controls(trials.length), this.table(columns, trials.slice(this.first, this.first + PAGE)));
    if (focused) this.place.querySelector(`[data-name="${focused}"]`)?.focus();
  }

  controls(count) {
    const stages = ["", ...data.stages].map((stage) =>
      made("option", { value: stage, selected: stage === this.stage }, stage || "all"));
    const to = (first) => () => { this.first = first; this.draw(); };
    const last = Math.min(this.first + PAGE, count);
    return made("p", { class: "controls" },
      made("label", {}, "Ended in ", made("select", { "data-name": "stage", onchange: (event) => { this.stage = event.target.value; this.first = 0; this.draw(); } }, stages)),
      made("button", { type: "button", "data-name": "before", disabled: this.first === 0, onclick: to(this.first - PAGE) }, "before"),
      made("span", { role: "status" }, count ? `${this.first + 1} to ${last} of ${count}` : "none"),
      made("button", { type: "button", "data-name": "next", disabled: last >= count, onclick: to(this.first + PAGE) }, "next"));
  }

  table(columns, trials) {
    const heading = columns.map(([name, text]) => {
      const sorted = name === this.sort.key ? (this.sort.down ? "descending" : "ascending") : null;
      const turn = () => {
        this.sort = { key: name, down: sorted === "ascending" };
        this.draw();
      };
      const arrow = { ascending: " ▲", descending: " ▼" }[sorted] || "";
      return made("th", { scope: "col", "aria-sort": sorted },
        made("button", { type: "button", "data-name": `by-${name}`, onclick: turn }, text, made("span", { "aria-hidden": "true" }, arrow)));
    });
    const text = ([, , value, shown]) => (one) => {
      const cell = shown ? shown(one) : value(one);
      return cell === null ? "" : typeof cell === "number" ? number(cell, 6) : cell;
    };
    const cells = columns.map(text);
    const side = columns.map(([name]) => (["stage", "machine", "decisions"].includes(name) ? null : "number"));
    return made("div", { class: "wide tall", tabindex: 0, role: "region", "aria-label": "trials" }, made("table", {},
      made("caption", { class: "hidden" }, `Trials of ${data.tasks[this.task]?.label ?? "the search"}`),
      made("thead", {}, made("tr", {}, heading)),
      made("tbody", {}, trials.map((one) => made("tr", {}, cells.map((cell, k) =>
        k ? made("td", { class: side[k] }, cell(one)) : made("th", { scope: "row", class: "number" }, cell(one))))))));
  }
}
