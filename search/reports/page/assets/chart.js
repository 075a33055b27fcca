// A chart with its table: drawn by uPlot when it comes into view, read by arrow keys.
const FONT = "12px system-ui, sans-serif";

// A canvas needs the colours themselves, not their names.
const sample = document.body.appendChild(made("span", { hidden: true }));

function colour(name) {
  sample.style.color = `var(--${name})`;
  return getComputedStyle(sample).color;
}

const inView = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const chart = entry.target.chart;
    chart.visible = entry.isIntersecting;
    if (chart.visible && chart.stale) chart.draw();
  }
}, { rootMargin: "200px" });

const resized = new ResizeObserver((entries) => {
  for (const entry of entries) entry.target.chart.resize();
});

class Chart {
  // `describe()` returns what is drawn, or a sentence that says why nothing is:
  //   summary, tableTitle, table(), x, lines: [{label, values, colour, kind}], xLabel, yLabel,
  //   xText(value), ticks, logX, marks: [{x, y, colour, width}], rug: [x], points: [{x, y, text}]
  constructor(place, height, describe) {
    this.describe = describe;
    this.height = height;
    this.plot = null;
    this.spec = null;
    this.zoomed = false;
    this.at = -1;
    this.stale = true;
    this.visible = false;
    this.canvas = made("div", { class: "canvas", tabindex: 0, role: "figure" });
    this.tip = made("div", { class: "tip", role: "status", hidden: true });
    this.legend = made("p", { class: "legend" });
    this.fold = foldedTable("As a table", () => {
      if (this.stale) this.draw();
      return this.spec ? this.spec.table() : "";
    });
    this.root = made("div", { class: "chart" }, this.canvas, this.legend, this.tip, this.fold);
    this.root.chart = this;
    place.append(this.root);
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("mouseleave", () => this.show(-1));
    this.canvas.addEventListener("blur", () => this.show(-1));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    inView.observe(this.root);
    resized.observe(this.root);
  }

  remove() {
    inView.unobserve(this.root);
    resized.unobserve(this.root);
    if (this.plot) this.plot.destroy();
    this.root.remove();
  }

  // What is drawn has changed.
  invalidate() {
    this.stale = true;
    if (this.visible) this.draw();
  }

  // The colours have changed, or another task is shown.
  rebuild() {
    if (this.plot) this.plot.destroy();
    this.plot = null;
    this.zoomed = false;
    this.invalidate();
  }

  resize() {
    const width = this.root.clientWidth;
    if (this.plot && width && width !== this.plot.width) {
      this.plot.setSize({ width, height: this.height });
    }
  }

  draw() {
    this.stale = false;
    const spec = this.describe();
    const nothing = typeof spec === "string";
    const lines = nothing ? [] : spec.lines;
    const same = this.plot && !nothing && this.spec && this.spec.lines.length === lines.length
      && this.spec.logX === spec.logX && this.spec.logY === spec.logY && !spec.ticks === !this.spec.ticks;
    if (this.plot && !same) {
      this.plot.destroy();
      this.plot = null;
    }
    this.spec = nothing ? null : spec;
    this.fold.hidden = nothing;
    this.canvas.classList.toggle("empty", nothing);
    this.legend.replaceChildren(...(nothing ? [spec] : lines.filter((one) => one.label).map((one) =>
      made("span", { class: `key ${one.kind}` },
        made("i", { style: `--own:${one.colour}`, "aria-hidden": "true" }), one.label))));
    if (nothing) return;
    this.fold.querySelector("summary").textContent = spec.tableTitle || "As a table";
    this.fold.refresh();
    this.canvas.setAttribute("aria-label",
      `${spec.summary} Arrow keys go from point to point; the table below has the numbers.`);
    const values = [spec.x, ...lines.map((one) => one.values)];
    if (same) this.plot.setData(values, !this.zoomed);
    else this.plot = new uPlot(this.options(spec), values, this.canvas);
  }

  options(spec) {
    const ink = colour("ink-soft"), grid = { stroke: colour("grid"), width: 1 };
    const axis = { stroke: ink, grid, ticks: grid, font: FONT, labelFont: FONT, labelSize: 20 };
    const longest = spec.ticks ? Math.max(...spec.ticks.map((one) => one.length)) : 0;
    const turned = spec.ticks && spec.ticks.join("").length > 26 && longest > 2;
    return {
      width: Math.max(this.root.clientWidth, 200),
      height: this.height,
      legend: { show: false },
      cursor: { points: { show: false }, drag: { x: true, y: true, uni: 16 } },
      scales: {
        x: { time: false, distr: spec.logX ? 3 : 1, log: 2, ...(spec.ticks ? {
          range: (_, low, high) => (this.zoomed ? [low, high] : [-0.5, spec.ticks.length - 0.5]),
        } : {}) },
        y: spec.logY ? { distr: 3, range: (_, low, high) => (low ? [low / 1.15, high * 1.15] : [1, 10]) } : { distr: 1 },
      },
      axes: [
        { ...axis, label: spec.xLabel, ...(spec.ticks ? {
          splits: () => this.spec.ticks.map((_, k) => k),
          filter: (_, splits) => splits,
          values: () => this.spec.ticks,
          rotate: turned ? -60 : 0,
          size: turned ? Math.min(90, 16 + 6 * longest) : 34,
          grid: { show: false },
        } : { values: (_, splits) => splits.map((value) => (value === null ? "" : number(value))) }) },
        { ...axis, label: spec.yLabel, size: 62, ...(spec.logY ? {
          splits: (_, __, low, high) => roundNumbers(low, high),
          filter: (_, splits) => splits,
        } : {}),
          values: (_, splits) => splits.map((value) => (value === null ? "" : number(value))) },
      ],
      series: [{}, ...spec.lines.map((one) => this.series(one))],
      hooks: {
        draw: [(plot) => this.drawMarks(plot)],
        setSelect: [() => { this.zoomed = true; }],
        ready: [(plot) => plot.over.addEventListener("dblclick", () => { this.zoomed = false; })],
      },
    };
  }

  series(line) {
    if (line.kind === "step") {
      return {
        stroke: line.colour, width: 2.5, points: { show: false }, spanGaps: true,
        paths: uPlot.paths.stepped({ align: 1 }),
      };
    }
    const hollow = line.kind === "hollow";
    return {
      paths: () => null,
      stroke: line.colour,
      points: {
        show: true, size: hollow ? 7 : 5, width: hollow ? 1.2 : 0, space: 0,
        stroke: line.colour, fill: hollow ? colour("card") : `color-mix(in srgb, ${line.colour} 70%, transparent)`,
      },
    };
  }

  // Marks are short bars across; the rug has a stroke at the bottom for what has no place in it.
  drawMarks(plot) {
    const spec = this.spec, pen = plot.ctx, { left, top, width, height } = plot.bbox;
    if (!spec) return;
    pen.save();
    pen.beginPath();
    pen.rect(left, top, width, height);
    pen.clip();
    for (const mark of spec.marks || []) {
      pen.fillStyle = mark.colour;
      const from = plot.valToPos(mark.x - mark.width, "x", true);
      const to = plot.valToPos(mark.x + mark.width, "x", true);
      pen.fillRect(from, plot.valToPos(mark.y, "y", true) - devicePixelRatio, to - from,
        2 * devicePixelRatio);
    }
    pen.fillStyle = colour("bad");
    for (const x of spec.rug || []) {
      pen.fillRect(plot.valToPos(x, "x", true) - devicePixelRatio / 2,
        top + height - 9 * devicePixelRatio, devicePixelRatio, 9 * devicePixelRatio);
    }
    pen.restore();
  }

  hover(event) {
    if (!this.plot || !this.spec) return;
    const box = this.plot.over.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    let best = -1, least = 24 * 24;
    this.spec.points.forEach((point, k) => {
      const dx = this.plot.valToPos(point.x, "x") - x;
      if (dx > 24 || dx < -24) return;
      const dy = this.plot.valToPos(point.y, "y") - y;
      if (dx * dx + dy * dy < least) [best, least] = [k, dx * dx + dy * dy];
    });
    this.show(best);
  }

  key(event) {
    if (!this.spec || !this.spec.points.length) return;
    const last = this.spec.points.length - 1;
    const to = {
      ArrowRight: Math.min(this.at + 1, last), ArrowLeft: Math.max(this.at - 1, 0),
      Home: 0, End: last, Escape: -1,
    }[event.key];
    if (to === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    this.show(to);
  }

  show(at) {
    this.at = at;
    this.tip.hidden = at < 0 || !this.plot;
    if (this.tip.hidden) return;
    const point = this.spec.points[at], over = this.plot.over;
    this.tip.textContent = point.text;
    const x = over.offsetLeft + this.plot.valToPos(point.x, "x");
    const y = over.offsetTop + this.plot.valToPos(point.y, "y");
    const left = Math.min(Math.max(x - this.tip.offsetWidth / 2, 0),
      Math.max(this.root.clientWidth - this.tip.offsetWidth, 0));
    this.tip.style.left = `${left}px`;
    this.tip.style.top = `${y + 12}px`;
  }
}
