// The explorer of a schedule: draws the data of `Explorer.data`, and asks Python for changes.
// On a page without Python there is no channel: all programs are there, and nothing can be edited.

function divisors(n) {
  const found = [];
  for (let d = 1; d * d <= n; d++) if (n % d === 0) found.push(d, n / d);
  return [...new Set(found)].sort((a, b) => a - b);
}

// The positions of lines that only one of two programs has: [gone from the first, new in the second].
function difference(before, after) {
  const a = before.map((line) => line[0].trim());
  const b = after.map((line) => line[0].trim());
  const length = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      length[i][j] = a[i] === b[j]
        ? length[i + 1][j + 1] + 1
        : Math.max(length[i + 1][j], length[i][j + 1]);
  const gone = new Set(a.keys());
  const fresh = new Set(b.keys());
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    if (a[i] === b[j]) { gone.delete(i++); fresh.delete(j++); }
    else if (length[i + 1][j] >= length[i][j + 1]) i++;
    else j++;
  }
  return [gone, fresh];
}

function cycles(value) {
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]])
    if (value >= size) return `${(value / size).toPrecision(3)}${unit}`;
  return value.toPrecision(3);
}

class Explorer {
  constructor(root, data, channel) {
    this.root = root;
    this.channel = channel;
    this.tab = "facts";
    this.chosen = null;
    this.timer = null;
    root.classList.add("tx", "explorer");
    root.replaceChildren();
    this.take(data);
    this.step = data.steps.length;
    this.build();
    this.draw();
  }

  take(data) {
    this.data = data;
    this.step = Math.min(this.step ?? data.steps.length, data.steps.length);
  }

  stop() {
    clearInterval(this.timer);
    clearTimeout(this.wish);
  }

  get program() { return this.data.programs[this.data.shown[this.step]]; }

  build() {
    this.slider = made("input", {
      type: "range", min: 0, max: this.data.steps.length, "aria-label": "step of the trace",
      oninput: () => this.go(Number(this.slider.value)),
    });
    this.count = made("span", { class: "note" });
    this.estimate = made("span", { class: "estimate" });
    this.message = made("div", { class: "error", role: "alert" });
    this.spoken = made("div", { "aria-live": "polite", class: "note" });
    const live = this.channel != null;
    const copied = (text) => (event) => {
      navigator.clipboard?.writeText(text());
      event.target.textContent = "Copied";
      setTimeout(() => (event.target.textContent = event.target.dataset.name), 1200);
    };
    const copy = (name, text) =>
      made("button", { type: "button", "data-name": name, onclick: copied(text) }, name);
    this.steps = made("div", { class: "rows", tabindex: 0, "aria-label": "steps of the trace" });
    this.lines = made("div", { class: "rows", "aria-label": "program" });
    this.side = made("div");
    this.tabs = made("div", { role: "tablist", "aria-label": "details" });
    for (const [name, title] of [["facts", "Facts"], ["asm", "Assembly"], ["accesses", "Accesses"]])
      this.tabs.append(made("button", {
        type: "button", role: "tab", "data-tab": name,
        onclick: () => { this.tab = name; this.drawSide(); },
      }, title));
    this.root.append(
      made("header", {},
        made("h2", {}, this.data.title), made("span", { class: "target" }, this.data.target),
        made("button", { type: "button", "aria-label": "previous step", onclick: () => this.go(this.step - 1) }, "\u25c0"),
        this.slider,
        made("button", { type: "button", "aria-label": "next step", onclick: () => this.go(this.step + 1) }, "\u25b6"),
        this.count, this.estimate,
        copy("Copy Python", () => this.data.python), copy("Copy JSON", () => this.data.json),
        live
          ? made("button", { type: "button", class: "measure", onclick: () => this.measure() }, "Measure")
          : made("span", { class: "note" }, "a saved page: decisions are edited in a notebook")),
      this.message,
      made("div", { class: "views" },
        made("section", { class: "steps" }, made("h3", {}, "Trace"), this.steps),
        made("section", { class: "program" }, made("h3", {}, "Program"), this.lines),
        made("section", { class: "details" }, this.tabs, this.side)),
      this.spoken);
    this.root.addEventListener("pointerover", (event) => this.point(event.target));
    this.root.addEventListener("focusin", (event) => this.point(event.target));
    this.lines.addEventListener("keydown", (event) => this.keys(event));
  }

  // ------------------------------------------------------------------------------------ asking

  ask(request) {
    this.root.setAttribute("aria-busy", "true");
    this.channel.send(request);
  }

  answer(answer) {
    this.root.removeAttribute("aria-busy");
    const button = this.root.querySelector(".measure");
    if (button && answer.do === "measure") { button.disabled = false; button.textContent = "Measure"; }
    this.message.textContent = answer.error ?? "";
    if (answer.error) { this.drawSteps(); return; }
    const at = this.data.shown[answer.step];
    if (answer.do === "decide") this.take(answer.data);
    if (answer.do === "view") this.data.programs[at] = answer.view;
    if (answer.do === "details") {
      Object.assign(this.data.programs[at] ?? {}, answer.details);
      if (this.program?.machine) this.drawSide();
      return;
    }
    if (answer.do === "measure") this.data.programs[at].seconds = answer.seconds;
    this.draw();
  }

  go(step) {
    const last = this.data.steps.length;
    this.step = Math.max(0, Math.min(last, step));
    this.message.textContent = "";
    this.draw();
  }

  measure() {
    const button = this.root.querySelector(".measure");
    button.disabled = true;
    button.textContent = "Measuring";
    this.ask({ do: "measure", step: this.step });
  }

  decide(step, decision) { this.ask({ do: "decide", step, decision }); }

  // ----------------------------------------------------------------------------------- drawing

  draw() {
    this.slider.max = this.data.steps.length;
    this.slider.value = this.step;
    this.count.textContent = `step ${this.step} of ${this.data.steps.length}`;
    this.slider.setAttribute("aria-valuetext",
      this.step ? this.data.steps[this.step - 1].text : "before the first step");
    this.drawSteps();
    const program = this.program;
    if (program == null) { this.ask({ do: "view", step: this.step }); return; }
    const share = program.peak == null ? "" : `, ${(program.peak * 100).toPrecision(2)} % of the peak`;
    const estimate = program.cycles == null ? "" : `estimated ${cycles(program.cycles)} cycles${share}`;
    const measured = program.seconds == null ? "" : `, measured ${time(1e6 * program.seconds)}`;
    this.estimate.textContent = estimate + measured;
    this.drawProgram();
    this.drawSide();
  }

  drawSteps() {
    this.steps.replaceChildren(...this.data.steps.flatMap((step, k) => {
      const state = k + 1 === this.step ? "now" : k >= this.step ? "later" : "";
      if (step.ends) return [];
      const row = made("div", {
        class: `row ${state} ${step.pure ? "pure" : ""}`, tabindex: -1,
        style: `padding-left:${6 + 12 * step.depth}px`,
        "aria-current": k + 1 === this.step ? "step" : null,
        onclick: () => this.go(k + 1),
      }, step.composite ? `\u25be ${step.text}` : step.text);
      return step.decision ? [row, this.decision(step.decision, k)] : [row];
    }));
    const now = this.steps.querySelector(".now");
    if (now) this.steps.scrollTop = Math.max(0, now.offsetTop - this.steps.offsetTop - 120);
  }

  decision(decision, step) {
    const fixed = this.channel == null;
    const box = made("div", { class: "decision", role: "group", "aria-label": "decision" });
    if (decision.kind === "tile") {
      const { value, extent, limit } = decision;
      value.forEach((factor, k) => {
        if (k > 0) box.append("\u00d7");
        const others = value.reduce((product, f, j) => (j > 0 && j !== k ? product * f : product), 1);
        const fits = divisors(extent / others).filter(
          (d) => k < value.length - 1 || limit < 0 || d <= limit);
        if (k === 0) { box.append(made("span", { title: "the rest of the extent" }, String(factor))); return; }
        const options = [...new Set([...fits, factor])].sort((a, b) => a - b);
        box.append(made("select", {
          disabled: fixed, "aria-label": `factor ${k + 1} of ${extent}`,
          onchange: (event) => {
            const changed = [...value];
            changed[k] = Number(event.target.value);
            changed[0] = extent / changed.slice(1).reduce((a, b) => a * b, 1);
            this.decide(step, changed);
          },
        }, ...options.map((d) => made("option", { value: d, selected: d === factor }, String(d)))));
      });
      return box;
    }
    if (!decision.options.length) box.append(String(decision.value));
    for (const [value, label] of decision.options)
      box.append(made("button", {
        type: "button", disabled: fixed,
        "aria-pressed": String(JSON.stringify(value) === JSON.stringify(decision.value)),
        onclick: () => this.decide(step, value),
      }, label));
    return box;
  }

  drawProgram() {
    const shown = this.data.shown;
    const before = this.step > 0 ? this.data.programs[shown[this.step - 1]] : null;
    const changed = before && shown[this.step] !== shown[this.step - 1];
    const [gone, fresh] = changed ? difference(before.lines, this.program.lines) : [new Set(), new Set()];
    const rows = this.program.lines.map(([text, keys], k) => {
      const row = made("div", {
        class: `row ${fresh.has(k) ? "new" : ""}`, tabindex: k === 0 ? 0 : -1,
        "data-keys": keys.join(" "), "data-own": this.own(keys),
      });
      const begins = keys[0] !== this.program.lines[k - 1]?.[1][0];
      const share = begins ? this.share(keys) : null;
      if (share != null && share >= 0.005) {
        row.append(made("span", { class: "share", "aria-hidden": "true" }, `${Math.round(share * 100)}%`));
        row.append(made("span", { class: "bar", style: `width:${share * 3}em` }));
      }
      row.append(text || " ");
      return row;
    });
    if (changed && gone.size) {
      const first = Math.min(...fresh, rows.length);
      const removed = [...gone].map((k) => made("div", { class: "row gone" }, before.lines[k][0]));
      rows.splice(first, 0, ...removed);
    }
    const top = this.lines.scrollTop;
    this.lines.replaceChildren(...rows);
    this.lines.scrollTop = top;
    const news = changed && this.lines.querySelector(".gone, .new");
    if (news) this.lines.scrollTop = Math.max(0, news.offsetTop - this.lines.offsetTop - 60);
    if (this.step > 0 && before == null && this.channel) this.ask({ do: "view", step: this.step - 1 });
  }

  // The keys of the parts that begin in a line: for several loops in a line, all of them.
  own(keys) {
    if (!keys.length) return "";
    const kind = keys[0][0];
    let count = 1;
    while (count < keys.length && keys[count][0] === kind && kind === "L" && this.begins(keys, count)) count++;
    if (kind !== "D") return keys.slice(0, count).join(" ");
    // A store stands for its buffers and for its block, the innermost one around it.
    const block = keys.filter((key) => key[0] === "B").at(-1);
    return [...keys.filter((key) => key[0] === "D"), block].filter(Boolean).join(" ");
  }

  begins(keys, k) { return Number(keys[k].slice(1)) === Number(keys[k - 1].slice(1)) + 1; }

  share(keys) {
    if (!keys.length || keys[0][0] === "D") return null;
    return this.program.parts[keys[0]]?.share ?? null;
  }

  // ------------------------------------------------------------------------------------ details

  drawSide() {
    for (const tab of this.tabs.children)
      tab.setAttribute("aria-selected", String(tab.dataset.tab === this.tab));
    this.stop();
    if (this.program.machine == null && this.channel) {
      // Facts are shown as far as they are there; compiling waits until stepping has come to rest.
      const ask = () => this.ask({ do: "details", step: this.step });
      this.wish = setTimeout(ask, this.tab === "facts" ? 300 : 0);
      if (this.tab !== "facts") {
        this.side.replaceChildren(made("p", { class: "facts note" }, "compiling"));
        return;
      }
    }
    if (this.tab === "asm") this.drawAssembly();
    else if (this.tab === "accesses") this.drawAccesses();
    else this.drawFacts();
  }

  // The parts of the statement that takes most of the time, and what is around it, innermost first.
  hottest() {
    const { lines, parts } = this.program;
    const block = (keys) => keys.filter((key) => key[0] === "B").at(-1);
    const share = (keys) => parts[block(keys)]?.share ?? 0;
    const stores = lines.map(([, keys]) => keys).filter((keys) => keys[0]?.[0] === "D");
    const most = stores.reduce((best, keys) => (share(keys) >= share(best) ? keys : best), []);
    const loops = most.filter((key) => key[0] === "L").reverse();
    return [...most.filter((key) => key[0] === "D"), block(most), ...loops].filter(Boolean);
  }

  drawFacts() {
    const keys = this.chosen?.split(" ") ?? this.hottest();
    if (!this.chosen) this.light(keys.find((key) => key[0] === "B"), this.lines);
    const box = made("div", { class: "facts", tabindex: 0 });
    if (!this.chosen)
      box.append(made("p", { class: "note" }, "Of the most expensive statement; point at another line, or move to it by the arrow keys."));
    for (const key of keys) {
      const part = this.program.parts[key];
      if (!part) continue;
      const facts = [...part.facts, ...(this.program.machine?.facts[key] ?? [])];
      if (part.share != null) facts.unshift(`${(part.share * 100).toFixed(1)} % of the estimated time`);
      box.append(made("h4", {}, part.label), made("ul", {}, ...facts.map((f) => made("li", {}, f))));
    }
    this.side.replaceChildren(box);
  }

  drawAssembly() {
    const machine = this.program.machine;
    const rows = made("div", { class: "rows", tabindex: 0, "aria-label": "assembly" });
    if (machine == null) rows.append(made("div", { class: "row note" }, "The page has the assembly of the last step."));
    else if (machine.error) rows.append(made("div", { class: "row" }, machine.error));
    for (const [text, keys] of machine?.asm ?? [])
      rows.append(made("div", { class: "row", "data-keys": keys.join(" "), "data-own": keys[0] ?? "" }, text));
    if (machine?.omitted) rows.append(made("div", { class: "row note" }, `${machine.omitted} more lines`));
    this.side.replaceChildren(rows);
    this.light(this.chosen, rows);
    const marked = rows.querySelector(".lit");
    if (marked) rows.scrollTop = marked.offsetTop - rows.offsetTop;
  }

  drawAccesses() {
    const all = this.program.accesses ?? {};
    const blocks = Object.keys(all);
    const box = made("div", { class: "facts", tabindex: 0 });
    if (!blocks.length) {
      box.append(made("p", { class: "note" }, "The accesses of no block of this program are known here."));
      this.side.replaceChildren(box);
      return;
    }
    const chosen = this.chosen?.split(" ").find((key) => all[key]) ?? this.block ?? blocks.at(-1);
    this.block = all[chosen] ? chosen : blocks.at(-1);
    const picker = made("select", {
      "aria-label": "block", onchange: () => { this.block = picker.value; this.chosen = null; this.drawSide(); },
    }, ...blocks.map((key) =>
      made("option", { value: key, selected: key === this.block }, this.program.parts[key].label)));
    const where = made("span", { class: "note" });
    box.append(picker, " ", where);
    const pictures = all[this.block].map((access) => this.picture(access, box));
    const count = Math.max(...all[this.block].map((access) => access.at.length));
    let now = 0;
    const draw = () => {
      where.textContent = `iteration ${now + 1} of the first ${count}`;
      for (const paint of pictures) paint(now);
    };
    const play = made("button", { type: "button", "aria-pressed": "false", onclick: () => {
      const plays = play.getAttribute("aria-pressed") === "false";
      play.setAttribute("aria-pressed", String(plays));
      play.textContent = plays ? "Pause" : "Play";
      this.stop();
      if (plays) this.timer = setInterval(() => {
        now = (now + 1) % count;
        time.value = now;
        draw();
      }, 60);
    } }, "Play");
    const time = made("input", {
      type: "range", min: 0, max: count - 1, value: 0, "aria-label": "iteration",
      oninput: () => { now = Number(time.value); draw(); },
    });
    picker.after(" ", play, time);
    this.side.replaceChildren(box);
    draw();
  }

  // The elements of a buffer as cells; recent accesses are darker. Returns what paints an iteration.
  picture(access, box) {
    const width = access.shape.at(-1) ?? 1;
    const height = access.shape.slice(0, -1).reduce((a, b) => a * b, 1);
    const columns = Math.min(width, 64), rows = Math.min(height, 48);
    const cell = Math.max(3, Math.min(12, Math.floor(300 / columns)));
    const cut = columns < width || rows < height ? `, its first ${rows} x ${columns} elements` : "";
    const label = `${access.kind} of ${access.buffer}${cut}; lines show cache lines`;
    const canvas = made("canvas", { width: columns * cell + 1, height: rows * cell + 1, role: "img", "aria-label": label });
    box.append(made("div", { class: "note" }, label), canvas);
    return (now) => {
      const style = getComputedStyle(this.root);
      const context = canvas.getContext("2d");
      context.clearRect(0, 0, canvas.width, canvas.height);
      context.fillStyle = style.getPropertyValue("color");
      for (let k = Math.max(0, now - 40); k <= now; k++) {
        const at = access.at[k];
        if (at == null) continue;
        const x = at % width, y = Math.floor(at / width);
        if (x >= columns || y >= rows) continue;
        context.globalAlpha = k === now ? 1 : 0.08 + (0.4 * (k - now + 40)) / 40;
        context.fillRect(x * cell, y * cell, cell, cell);
      }
      context.globalAlpha = 0.35;
      context.strokeStyle = context.fillStyle;
      context.beginPath();
      for (let y = 0; y <= rows; y++) { context.moveTo(0, y * cell + 0.5); context.lineTo(columns * cell, y * cell + 0.5); }
      for (let y = 0; y < rows; y++)
        for (let x = 0; x <= columns; x++)
          if ((y * width + x) % access.line === 0 || x === 0) {
            context.moveTo(x * cell + 0.5, y * cell);
            context.lineTo(x * cell + 0.5, (y + 1) * cell);
          }
      context.stroke();
      context.globalAlpha = 1;
    };
  }

  // ----------------------------------------------------------------------------------- pointing

  point(target) {
    const row = target.closest?.("[data-own]");
    if (!row || !row.dataset.own || row.dataset.own === this.chosen) return;
    this.chosen = row.dataset.own;
    this.light(this.chosen, this.root);
    if (this.tab === "facts") this.drawFacts();
    const scroller = row.closest(".program") ? this.side.querySelector(".rows") : this.lines;
    const other = scroller?.querySelector(".lit");
    if (other && scroller) {
      const place = other.offsetTop - scroller.offsetTop;
      if (place < scroller.scrollTop || place > scroller.scrollTop + scroller.clientHeight - 20)
        scroller.scrollTop = place - scroller.clientHeight / 3;
    }
    const parts = this.chosen.split(" ").map((key) => this.program.parts[key]).filter(Boolean);
    this.spoken.textContent = parts.map((part) => [part.label, ...part.facts].join(", ")).join("; ");
  }

  light(own, root) {
    const keys = new Set((own ?? "").split(" ").filter(Boolean));
    for (const row of root.querySelectorAll("[data-own]")) {
      const has = row.dataset.own.split(" ").some((key) => keys.has(key));
      const holds = row.closest(".details") && row.dataset.keys.split(" ").some((key) => keys.has(key));
      row.classList.toggle("lit", keys.size > 0 && (has || Boolean(holds)));
    }
  }

  keys(event) {
    const moves = { ArrowDown: 1, ArrowUp: -1 };
    const steps = { ArrowRight: 1, ArrowLeft: -1 };
    if (event.key in steps) this.go(this.step + steps[event.key]);
    else if (event.key in moves) {
      const rows = [...this.lines.querySelectorAll("[data-own]")];
      const at = rows.indexOf(event.target);
      const next = rows[Math.max(0, Math.min(rows.length - 1, at + moves[event.key]))];
      event.target.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    } else return;
    event.preventDefault();
  }
}
