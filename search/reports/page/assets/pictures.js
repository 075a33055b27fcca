// What the charts show: progress, the sum of all tasks, decisions, predictions.
const MOST_PANELS = 24, MOST_PLACES = 40, MOST_ROWS = 200;

function describedTrial(one) {
  const stage = data.stages[one.stage];
  const took = one.stage === STOPPED ? `stopped after ${time(one.time)}` : time(one.time) || `failed in ${stage}`;
  const said = one.score === null ? "" : `, predicted ${number(one.score)}`;
  return `trial ${one.number}: ${took}, batch ${one.batch}${said}`;
}

// The axis of some times: a few that took very long are drawn at its upper edge, where they do not
// press the others flat, and it is logarithmic where times differ much. `least` is to be on it.
function axisOf(times, least = 0) {
  const sorted = [...times].sort((a, b) => a - b), slowest = sorted[sorted.length - 1];
  const edge = Math.max(1.5 * sorted[Math.floor(0.9 * (sorted.length - 1))], 1.1 * least);
  const top = slowest > 2 * edge ? edge : slowest;
  return { top, logY: top > 4 * sorted[0] };
}

// Lines of dots for trials that were measured, were stopped, or took longer than the axis is long.
function dots(trials, top, colours) {
  const of = (test) => trials.map((one) => (one !== null && one.time !== null && test(one) ? Math.min(one.time, top) : null));
  const [done, stopped, over] = [
    of((one) => one.stage === DONE && one.time <= top),
    of((one) => one.stage === STOPPED && one.time <= top),
    of((one) => one.time > top),
  ];
  const count = (values) => values.reduce((sum, value) => sum + (value !== null), 0);
  const label = (values, text) => (count(values) ? `${text} (${count(values)})` : "");
  return [
    { label: "measured", values: done, colour: colours[0], kind: "dots" },
    { label: label(stopped, "stopped early: this slow at least"), values: stopped, colour: colours[1], kind: "hollow" },
    { label: label(over, "slower than shown, drawn at the edge"), values: over, colour: colours[0], kind: "hollow" },
  ];
}

function progressPicture(task, against) {
  const x = (one, k) => (against === "seconds" ? one.at : k + 1);
  const trials = trialsOf(task);
  if (!trials.length) return "No trial of this task has ended yet.";
  if (against === "seconds") trials.sort((a, b) => a.at - b.at);
  let least = null;
  const improved = [], best = trials.map((one, k) => {
    if (one.best !== null && (least === null || one.best < least)) {
      least = one.best;
      improved.push([one, k]);
    }
    return least;
  });
  if (least === null && !trials.some((one) => one.stage === STOPPED)) {
    return `None of ${trials.length} trials was measured.`;
  }
  const xs = trials.map(x), known = trials.filter((one) => one.time !== null);
  const { top, logY } = axisOf(known.map((one) => one.time), improved.length ? improved[0][0].time : 0);
  const failed = trials.flatMap((one, k) => (one.stage > STOPPED ? [xs[k]] : []));
  const lines = [
    ...dots(trials, top, [colour("soft"), colour("orange")]),
    { label: "best so far", values: best, colour: colour("blue"), kind: "step" },
  ];
  const { settled, winner } = data.tasks[task];
  if (settled) {
    const of = trials.findIndex((one) => one.number === winner);
    lines.push({ label: `winner, measured again: ${time(settled)}` + (of < 0 ? " (not a trial)" : ""), values: xs.map((_, k) => (k === (of < 0 ? xs.length - 1 : of) ? settled : null)), colour: colour("good"), kind: "dots" });
  }
  if (failed.length) lines.push({ label: `failed (${failed.length})`, values: xs.map(() => null), colour: colour("bad"), kind: "rug" });
  return {
    x: xs, lines, logY, rug: failed,
    xLabel: against === "seconds" ? "seconds since the start" : "trials", yLabel: "us per call",
    points: trials.flatMap((one, k) => (one.time === null ? [] : [{ x: xs[k], y: Math.min(one.time, top), text: describedTrial(one) }])),
    summary: `Time of each trial and best so far: ${trials.length} trials, from ${time((improved[0] || [trials[0]])[0].time)} to ${time(least)}.`,
    tableTitle: "As a table: each trial that was the best so far",
    table: () => tableOf("Each trial that was the best so far",
      ["trials", "seconds", "best (us)", "times as fast as the first"],
      improved.map(([one, k]) => [k + 1, number(one.at), number(one.time), number(improved[0][0].time / one.time, 3)])),
  };
}

// The time of a call of all tasks as the search went on; one not begun counts with its first time.
function totalPicture() {
  const rows = data.rows, best = new Map(), x = [], y = [];
  const weight = (task) => data.tasks[task]?.weight ?? 1;
  const done = rows.task.map((_, row) => row).filter((row) => rows.stage[row] === DONE);
  done.sort((a, b) => rows.at[a] - rows.at[b]);
  for (const row of done) if (!best.has(rows.task[row])) best.set(rows.task[row], rows.time[row]);
  let sum = 0;
  for (const [task, us] of best) sum += weight(task) * us;
  for (const row of done) {
    const task = rows.task[row], gain = best.get(task) - rows.time[row];
    if (gain <= 0 && x.length && row !== done[done.length - 1]) continue;
    best.set(task, Math.min(best.get(task), rows.time[row]));
    sum -= weight(task) * Math.max(gain, 0);
    x.push(rows.at[row]);
    y.push(sum);
  }
  if (best.size < 2) return "";
  return {
    x, lines: [{ label: `a call of ${best.size} tasks; one not begun counts with its first time`, values: y, colour: colour("blue"), kind: "step" }],
    logY: y[0] > 4 * y[y.length - 1], xLabel: "seconds since the start", yLabel: "us per call",
    points: x.map((at, k) => ({ x: at, y: y[k], text: `after ${number(at)} s: ${time(y[k])}` })),
    summary: `Time of a call of all tasks: from ${time(y[0])} to ${time(y[y.length - 1])}.`,
    table: () => {
      const step = Math.ceil(x.length / 200);
      const shown = x.flatMap((at, k) => (k % step && k !== x.length - 1 ? [] : [[number(at), number(y[k])]]));
      return tableOf("Time of a call of all tasks", ["seconds", "us per call"], shown);
    },
  };
}

function decisionColumns(task) {
  const { columns, space } = data.tasks[task];
  const own = trialsOf(task).filter((one) => one.space === space && one.time !== null);
  if (!own.some((one) => one.stage === DONE)) return [];
  return columns.map((name, k) => {
    const pairs = own.map((one) => [one.decisions[k], one]).filter(([value]) => value !== null);
    return { name, pairs, values: [...new Set(pairs.map(([value]) => value))].sort(inOrder) };
  }).filter((one) => one.values.length > 1);
}

function decisionPicture({ name, pairs, values }) {
  const groups = new Map(values.map((value) => [value, []]));
  for (const [value, one] of pairs) groups.get(value).push(one);
  const wide = values.length > MOST_PLACES && values.every((value) => typeof value === "number" && value > 0);
  const places = new Map(values.map((value, k) => [value, wide ? value : k]));
  const { top, logY } = axisOf(pairs.map(([, one]) => one.time));
  const points = [];
  for (const [value, group] of groups) {
    group.forEach((one, k) => {
      // Dots of one value would hide each other; the golden ratio spreads them the same each time.
      const aside = wide ? 0 : (((k * 0.618034) % 1) - 0.5) * 0.44;
      points.push({ x: places.get(value) + aside, y: Math.min(one.time, top), one, text: `${name} = ${value}, ${describedTrial(one)}` });
    });
  }
  points.sort((a, b) => a.x - b.x);
  const middles = values.map((value) => median(groups.get(value).map((one) => one.time)));
  return {
    x: points.map((point) => point.x),
    lines: dots(points.map((point) => point.one), top, [colour("blue"), colour("orange")])
      .map((line) => ({ ...line, label: "" })),
    logX: wide, logY, xLabel: name, yLabel: "us per call",
    ticks: wide ? null : values.map(String),
    marks: wide ? [] : values.map((value, k) => ({ x: k, y: Math.min(middles[k], top), width: 0.36, colour: colour("ink") })),
    points,
    summary: `Times against ${name}, which had ${values.length} values.`,
    table: () => tableOf(`Times against ${name}`, [name, "best (us)", "median (us)", "trials"],
      values.map((value, k) => {
        const finished = groups.get(value).filter((one) => one.stage === DONE).map((one) => one.time);
        return [value, finished.length ? number(Math.min(...finished)) : "", number(middles[k]), groups.get(value).length];
      })),
  };
}

function predictionPicture(task) {
  const trials = trialsOf(task).filter((one) => one.score !== null && one.time !== null);
  const done = trials.filter((one) => one.stage === DONE);
  if (!done.length) return "No measured trial of this task has a prediction.";
  const best = Math.min(...done.map((one) => one.time));
  const points = trials.map((one) => ({ x: best / one.time, y: one.score, one, text: describedTrial(one) }));
  points.sort((a, b) => a.x - b.x);
  const { pairs } = data.tasks[task];
  const share = pairs === null ? "no pairs to compare" : `${pairs} % of pairs of a batch in the right order (a guess: 50 %)`;
  const of = (stage) => points.map((point) => (point.one.stage === stage ? point.y : null));
  const stopped = of(STOPPED);
  return {
    x: points.map((point) => point.x),
    lines: [
      { label: `measured: ${share}`, values: of(DONE), colour: colour("blue"), kind: "dots" },
      { label: stopped.some((one) => one !== null) ? "stopped early: this fast at most" : "", values: stopped, colour: colour("orange"), kind: "hollow" },
    ],
    logY: false, xLabel: "measured speed (share of the best)", yLabel: "predicted score",
    points, summary: `Predicted score against measured speed of ${points.length} trials: ${share}.`,
    tableTitle: "As a table: the measured trials, fastest first",
    table: () => tableOf("Measured trials, fastest first", ["trial", "batch", "predicted score", "us per call"],
      [...done].sort((a, b) => a.time - b.time).slice(0, MOST_ROWS)
        .map((one) => [one.number, one.batch, number(one.score), number(one.time)])),
  };
}
