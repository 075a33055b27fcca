// The trials of a run as parallel coordinates: draws the data of `RunExplorer.data`. A range of an
// axis filters the trials, and a click on a trial opens its schedule below.
const TOP = 14, HEIGHT = 260, BOTTOM = 298, WIDTH = 104, LABEL = 70, REACH = 14, MOST_ROWS = 10;

// An axis, with places from 0 (bottom) to 1 (top) for its values.
class Axis {
  constructor(data, column) {
    Object.assign(this, data);
    this.x = LABEL + column * WIDTH;
    this.filter = null; // [least, greatest] value
    if (this.ticks) [this.low, this.high] = [0, this.ticks.length - 1];
    const scale = this.log ? Math.log : (value) => value;
    const [from, to] = [scale(this.low), scale(this.high)];
    this.place = (value) => (to === from ? 0.5 : Math.min(1, (scale(value) - from) / (to - from)));
    this.value = (place) => {
      if (place <= 0 || place >= 1) return place <= 0 ? this.low : this.high;
      const at = from + place * (to - from);
      return this.log ? Math.exp(at) : at;
    };
  }

  // The height of a value. Lines through one tick would hide each other: the golden ratio spreads them.
  y(value, line = null) {
    if (value === null) return BOTTOM;
    const spread = this.ticks && line !== null ? Math.min(16, (0.6 * HEIGHT) / this.ticks.length) : 0;
    return TOP + HEIGHT * (1 - this.place(value)) + spread * (((line * 0.618034) % 1) - 0.5);
  }

  text(value) {
    if (value === null) return "none";
    return this.ticks ? this.ticks[value] : number(value);
  }

  // Values with a label.
  labelled() {
    if (this.ticks) {
      const step = Math.ceil(this.ticks.length / 14);
      return this.ticks.flatMap((_, k) => (k % step ? [] : [k]));
    }
    const between = this.log ? roundNumbers(this.low, this.high) : [1, 2, 3].map((k) => this.value(k / 4));
    const apart = (value) => [this.low, this.high].every((end) => Math.abs(this.y(end) - this.y(value)) > 12);
    return [...new Set([this.low, this.high, ...between.filter(apart)])];
  }

  matches(value) {
    if (this.filter === null) return true;
    const [least, greatest] = this.filter;
    return value !== null && value >= least && (value <= greatest || greatest >= this.high);
  }

  // Filter by two heights of the pointer.
  brush(from, to) {
    const [low, high] = [from, to].map((y) => this.value(1 - (y - TOP) / HEIGHT)).sort((a, b) => a - b);
    const [first, last] = [Math.ceil(low), Math.floor(high)];
    const nearest = Math.round((low + high) / 2);
    this.filter = !this.ticks ? [low, high] : first <= last ? [first, last] : [nearest, nearest];
  }
}

class Points {
  constructor(root, data, channel) {
    this.root = root;
    this.data = data;
    this.channel = channel;
    this.explorer = null;
    root.classList.add("tx", "points");
    const chooser = (label, options, chosen) => made("label", {}, `${label} `, made("select", {
      onchange: (event) => chosen(Number(event.target.value)),
    }, options.map((text, k) => made("option", { value: k }, text))));
    this.spaces = made("span");
    this.count = made("span", { role: "status" });
    this.clear = made("button", { type: "button", onclick: () => this.filter(() => null) }, "Clear filters");
    this.head = made("div", { class: "names" });
    this.svg = drawn("svg", {
      tabindex: 0, role: "figure", onkeydown: (event) => this.key(event),
      onpointermove: (event) => this.move(event), onpointerdown: (event) => this.press(event),
      onpointerup: (event) => this.release(event), onpointerleave: () => this.point(-1),
      onblur: () => this.point(-1),
    });
    const key = (kind, text) => made("span", {}, drawn("svg", { width: 26, height: 10, "aria-hidden": "true" }, drawn("path", { class: kind, d: "M2 5H24" })), ` ${text}`);
    this.legend = made("p", { class: "note legend" }, key("winner", "the winner, measured again"), key("fast", "the fastest tenth"),
      key("done", "measured"), key("stopped", "stopped early"), key("failed", "failed"));
    this.pointed = made("p", { class: "pointed", role: "status" });
    this.fields = made("details", { ontoggle: () => this.drawFields() }, made("summary", {}, "Filters as numbers"), made("div"));
    this.fastest = made("div");
    this.same = made("p", { class: "note" });
    this.message = made("p", { class: "error", role: "alert" });
    this.opened = made("div", { class: "opened" });
    this.choose = (label, options, chosen) => (options.length > 1 ? chooser(label, options, chosen) : made("span", { class: "note" }, options[0]));
    root.replaceChildren(
      made("header", {}, made("h2", {}, data.title),
        this.choose("Task", data.tasks.map((task) => task.label), (k) => this.showTask(k)),
        this.spaces, this.count, this.clear),
      made("div", { class: "axes" }, this.head, this.svg), this.legend, this.pointed, this.fields, this.fastest,
      this.same, this.message, this.opened);
    this.showTask(0);
  }

  stop() { this.explorer?.stop(); }

  showTask(k) {
    this.task = this.data.tasks[k];
    const labels = this.task.spaces.map((space) => space.label);
    this.spaces.replaceChildren(this.choose("Space", labels, (s) => this.showSpace(s)));
    this.showSpace(0);
  }

  // The trials of a space are ordered by time, so the first one that matches is the fastest.
  showSpace(k) {
    this.space = this.task.spaces[k];
    this.axes = this.space.axes.map((axis, column) => new Axis(axis, column));
    this.at = -1;
    const { same } = this.space;
    this.same.textContent = same.length ? `The same in all trials: ${same.map(([name, value]) => `${name} = ${value}`).join(", ")}.` : "";
    this.draw();
  }

  // -------------------------------------------------------------------------------------- drawing

  draw() {
    const width = LABEL + (this.axes.length - 1) * WIDTH + 60;
    this.head.replaceChildren(...this.axes.map((axis) =>
      made("div", { style: `left:${axis.x}px` }, axis.name)));
    this.head.style.width = `${width}px`;
    for (const [key, value] of Object.entries({ width, height: BOTTOM + 16, viewBox: `0 0 ${width} ${BOTTOM + 16}` }))
      this.svg.setAttribute(key, value);
    this.lines = this.space.number.map((_, k) => drawn("path", { d: this.path(k) }));
    this.mark = drawn("path", { class: "mark" });
    // Later lines cover earlier ones: the fastest come last.
    this.svg.replaceChildren(drawn("g", { class: "lines" }, [...this.lines].reverse()), this.mark,
      ...this.axes.map((axis) => this.drawnAxis(axis)));
    this.filter();
  }

  path(k) {
    return this.axes.map((axis, column) => `${column ? "L" : "M"}${axis.x} ${axis.y(axis.at[k], k).toFixed(1)}`).join("");
  }

  drawnAxis(axis) {
    const { x } = axis;
    const label = (y, text) => drawn("text", { x: x - 6, y: y + 4 }, text);
    axis.box = drawn("rect", { class: "brush", x: x - 8, width: 16 });
    const more = !axis.ticks && axis.at.some((value) => value !== null && value > axis.high);
    return drawn("g", { class: "axis" },
      drawn("line", { x1: x, x2: x, y1: TOP, y2: TOP + HEIGHT }), axis.box,
      axis.labelled().map((value) => label(axis.y(value), (more && value === axis.high ? ">= " : "") + axis.text(value))),
      axis.at.includes(null) ? label(BOTTOM, "none") : null);
  }

  // Change the filter of each axis, and show what matches. Without `change`, they are as they were.
  filter(change = (axis) => axis.filter) {
    for (const axis of this.axes) {
      axis.filter = change(axis);
      const [least, greatest] = axis.filter ?? [0, 0];
      const pad = axis.ticks ? 9 : 1;
      axis.box.setAttribute("y", axis.filter ? axis.y(greatest) - pad : 0);
      axis.box.setAttribute("height", axis.filter ? axis.y(least) - axis.y(greatest) + 2 * pad : 0);
    }
    this.matching = this.lines.flatMap((line, k) => {
      const matches = this.axes.every((axis) => axis.matches(axis.at[k]));
      line.setAttribute("class", matches ? this.kind(k) : "out");
      return matches ? [k] : [];
    });
    const all = this.lines.length, count = this.matching.length;
    this.count.textContent = count === all ? "" : `${count.toLocaleString("en")} of ${all.toLocaleString("en")} trials match`;
    this.clear.hidden = this.axes.every((axis) => axis.filter === null);
    this.svg.setAttribute("aria-label", `${count} of ${all} trials as lines through ${this.axes.map((axis) => axis.name).join(", ")}. `
      + "Arrow keys go from the fastest to slower ones, Enter opens one; the table below has the fastest.");
    this.drawFastest();
    this.drawFields();
    this.point(-1);
  }

  kind(k) {
    const stage = this.space.stage[k];
    if (this.task.winner === this.space.number[k]) return "winner";
    return stage === "done" || stage === "stopped" ? (k < Math.max(1, this.lines.length / 10) ? "fast" : stage) : "failed";
  }

  describe(k) {
    const stage = this.space.stage[k], [clock] = this.axes;
    const took = { done: time(clock.at[k]), stopped: `stopped after ${time(clock.at[k])}` }[stage] ?? `failed in ${stage}`;
    const rest = this.axes.slice(1).map((axis) => `${axis.name} ${axis.text(axis.at[k])}`);
    return [`trial ${this.space.number[k]}: ${took}`, ...rest].join(", ");
  }

  drawFastest() {
    const rows = this.matching.slice(0, MOST_ROWS).map((k) => [
      made("button", { type: "button", disabled: !this.isThere(k), onclick: () => this.open(k) }, `Open ${this.space.number[k]}`),
      ...this.axes.map((axis) => axis.text(axis.at[k])),
    ]);
    const title = "The fastest" + (this.matching.length < this.lines.length ? " that match" : "");
    this.fastest.replaceChildren(rows.length ? tableOf(title, ["trial", ...this.axes.map((axis) => axis.name)], rows)
      : made("p", { class: "note" }, "No trial matches the filters."));
  }

  drawFields() {
    const place = this.fields.lastChild;
    if (!this.fields.open) return;
    if (place.axes !== this.axes) place.replaceChildren(...this.axes.map((axis) => this.field(axis)));
    place.axes = this.axes;
    for (const axis of this.axes) {
      const ends = axis.filter ?? [axis.low, axis.high];
      axis.fields.forEach((field, end) => { field.value = Number(ends[end].toPrecision(6)); });
    }
  }

  // The ends of the filter of an axis.
  field(axis) {
    axis.fields = ["from", "to"].map((text, end) => {
      const set = (event) => {
        const changed = [...(axis.filter ?? [axis.low, axis.high])], typed = event.target.value;
        changed[end] = typed === "" ? [axis.low, axis.high][end] : Math.max(axis.low, Math.min(axis.high, Number(typed)));
        if (changed[0] > changed[1]) changed[1 - end] = changed[end];
        const whole = changed[0] === axis.low && changed[1] === axis.high;
        this.filter((one) => (one === axis ? (whole ? null : changed) : one.filter));
      };
      const attributes = { "aria-label": `${axis.name}, ${text}`, onchange: set };
      if (!axis.ticks) return made("input", { type: "number", step: "any", ...attributes });
      return made("select", attributes, axis.ticks.map((tick, k) => made("option", { value: k }, tick)));
    });
    return made("div", {}, made("span", {}, axis.name), axis.fields[0], " to ", axis.fields[1]);
  }

  // ------------------------------------------------------------------------------------- pointing

  position(event) {
    const box = this.svg.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  press(event) {
    const [x, y] = this.position(event);
    const axis = this.axes.find((one) => Math.abs(one.x - x) < 9);
    this.drag = { axis, from: y };
    if (axis) this.svg.setPointerCapture(event.pointerId);
  }

  move(event) {
    const [x, y] = this.position(event), drag = this.drag;
    if (drag?.axis && Math.abs(y - drag.from) > 3) {
      drag.axis.brush(drag.from, y);
      this.filter();
    } else if (!drag) this.point(this.nearest(x, y));
  }

  release(event) {
    const [x, y] = this.position(event), { axis, from } = this.drag ?? {};
    this.drag = null;
    if (axis && Math.abs(y - from) <= 3) this.filter((one) => (one === axis ? null : one.filter));
    if (!axis && this.nearest(x, y) >= 0) this.open(this.nearest(x, y));
  }

  // The matching trial whose line is nearest to a place, -1 if none is near.
  nearest(x, y) {
    const column = Math.max(0, Math.min(this.axes.length - 2, Math.floor((x - LABEL) / WIDTH)));
    const [left, right] = [this.axes[column], this.axes[column + 1] ?? this.axes[column]];
    const part = Math.max(0, Math.min(1, (x - left.x) / WIDTH));
    let best = -1, least = REACH;
    for (const k of this.matching) {
      const away = Math.abs(left.y(left.at[k], k) * (1 - part) + right.y(right.at[k], k) * part - y);
      if (away < least) [best, least] = [k, away];
    }
    return best;
  }

  point(k) {
    this.at = k;
    this.mark.setAttribute("d", k < 0 ? "" : this.path(k));
    this.pointed.textContent = k < 0 ? "Point at a line to read it, click it to open its schedule; drag along an axis to filter." : this.describe(k);
  }

  key(event) {
    const last = this.matching.length - 1, at = this.matching.indexOf(this.at);
    const to = { ArrowRight: Math.min(at + 1, last), ArrowDown: Math.min(at + 1, last), ArrowLeft: Math.max(at - 1, 0), ArrowUp: Math.max(at - 1, 0), Home: 0, End: last }[event.key];
    if (event.ctrlKey || event.altKey || event.metaKey || last < 0) return;
    if (event.key === "Enter" && this.at >= 0) this.open(this.at);
    else if (event.key === "Escape") this.point(-1);
    else if (to !== undefined) this.point(this.matching[to]);
    else return;
    event.preventDefault();
  }

  // -------------------------------------------------------------------------------------- opening

  packedOf(k) { return this.data.schedules[`${this.task.number}/${this.space.place[k]}`]; }

  isThere(k) { return this.channel !== null || this.packedOf(k) !== undefined; }

  async open(k) {
    const name = `Trial ${this.space.number[k]} of ${this.task.label}: ${this.describe(k).replace(/^[^:]*: /, "").split(",")[0]}`;
    this.message.textContent = "";
    if (this.channel) {
      this.asked = name;
      this.channel.send({ do: "open", task: this.task.number, place: this.space.place[k] });
    } else if (this.isThere(k)) this.show(name, await unpacked(this.packedOf(k)));
    else this.message.textContent = `The schedule of trial ${this.space.number[k]} is not in this page, which has those of the fastest few: ms.explore opens all in a notebook.`;
  }

  show(name, data) {
    this.stop();
    const place = made("div");
    this.opened.replaceChildren(made("h3", { tabindex: -1 }, name), place);
    this.explorer = new Explorer(place, data, this.channel);
    this.opened.firstChild.focus();
  }

  answer(answer) {
    if (answer.do !== "open") this.explorer?.answer(answer);
    else if (answer.error) this.message.textContent = answer.error;
    else this.show(this.asked, answer.data);
  }
}
