// The page as a whole: which task is shown, in which colours, and what is drawn anew when.
{
  const choice = document.getElementById("task"), axis = document.getElementById("axis");
  const panels = document.getElementById("panels");
  const trialTable = new TrialTable(document.getElementById("trial-table"));
  const task = () => Number(choice.value || 0);
  const charts = {
    total: new Chart(document.getElementById("total-picture"), 260, totalPicture),
    progress: new Chart(document.getElementById("progress-picture"), 340, () =>
      data.tasks.length ? progressPicture(task(), axis.value) : "No trial has ended yet."),
    prediction: new Chart(document.getElementById("prediction-picture"), 340, () =>
      data.tasks.length ? predictionPicture(task()) : "No trial has ended yet."),
  };
  let decisions = [];

  function offer() {
    const before = choice.value;
    const offered = data.tasks.flatMap((one, k) => (one.rank === undefined ? [] : [[one, k]]));
    // Those in which most of the time goes stand first, as in the table of tasks.
    offered.sort(([a], [b]) => a.rank - b.rank);
    choice.replaceChildren(...offered.map(([one, k]) => made("option", { value: k }, one.label)));
    if (offered.some(([, k]) => String(k) === before)) choice.value = before;
    choice.closest("p").hidden = offered.length < 2;
  }

  function drawDecisions() {
    const found = data.tasks.length ? decisionColumns(task()) : [];
    const shown = found.slice(0, MOST_PANELS);
    const names = shown.map((one) => one.name).join("\n");
    if (panels.dataset.names === `${task()}\n${names}`) {
      decisions.forEach((chart, k) => { chart.own = shown[k]; chart.invalidate(); });
      return;
    }
    panels.dataset.names = `${task()}\n${names}`;
    decisions.forEach((chart) => chart.remove());
    panels.replaceChildren();
    decisions = shown.map((own) => {
      const chart = new Chart(panels, 240, () => decisionPicture(chart.own));
      chart.own = own;
      return chart;
    });
    if (!shown.length) panels.append(made("p", { class: "note" }, "No decision varied among the measured trials of this task."));
    else {
      const more = found.length - shown.length;
      panels.append(made("p", { class: "note" },
        "Dots are trials and bars medians. Hollow dots are trials that were stopped early, and at the upper edge those that took longer." + (more ? ` ${more} more decisions varied.` : "")));
    }
  }

  function showTask() {
    for (const article of document.querySelectorAll("article[data-task]")) {
      article.hidden = article.dataset.task !== String(task());
    }
    for (const id of ["winners", "decisions-table"]) {
      const place = document.getElementById(id);
      const own = place.querySelectorAll("article[data-task]");
      let missing = place.querySelector("p.missing");
      if (!missing) place.append(missing = made("p", { class: "note missing" }));
      missing.textContent = id === "winners" ? "The programs of this task are not in the page: tensorir report --task NAME shows them." : "";
      missing.hidden = !own.length || [...own].some((article) => !article.hidden);
    }
    showWinner();
  }

  // The explorer of the winner of a task is made when the task is shown.
  let winner = null;
  async function showWinner() {
    const place = document.querySelector(`#winners article[data-task="${task()}"] .winner`);
    const text = data.winners[task()];
    // A reader keeps the schedule of a live page until the focus leaves it.
    if (!place || !text || place.shown === text || place.contains(document.activeElement)) return;
    place.shown = text;
    const found = await unpacked(text);
    if (place.shown !== text) return;
    winner?.stop();
    winner = new Explorer(place, found);
  }

  let drawnAt = 0, timer = null;
  function drawAll() {
    timer = null;
    drawnAt = Date.now();
    for (const chart of Object.values(charts)) chart.invalidate();
    drawDecisions();
    trialTable.show(task());
  }
  // A search that is quick sends many trials a second.
  function drawSoon() {
    timer ??= setTimeout(drawAll, Math.max(0, drawnAt + 700 - Date.now()));
  }

  choice.addEventListener("change", () => {
    showTask();
    charts.progress.rebuild();
    charts.prediction.rebuild();
    drawDecisions();
    trialTable.show(task());
  });
  axis.addEventListener("change", () => charts.progress.rebuild());
  const themes = document.getElementById("theme");
  const recolour = () => [...Object.values(charts), ...decisions].forEach((chart) => chart.rebuild());
  themes.value = theme.chosen();
  themes.addEventListener("change", () => { theme.choose(themes.value); recolour(); });
  theme.dark.addEventListener("change", () => { theme.apply(theme.chosen()); recolour(); });

  offer();
  showTask();
  drawAll();
  watch(() => {
    offer();
    showTask();
    drawSoon();
  });
}
