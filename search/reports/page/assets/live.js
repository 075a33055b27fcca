// New trials of a search that runs, as its server sends them.
function watch(changed) {
  const status = document.getElementById("live");
  if (!status) return;
  let newest = Date.now(), state = "connecting";
  const say = () => {
    const ago = Math.round((Date.now() - newest) / 1000);
    const text = state === "live" ? `live: ${data.rows.task.length.toLocaleString("en")} trials` + (ago > 5 ? `, none for ${ago} s` : "") : state;
    if (status.textContent !== text) status.textContent = text;
    status.className = state === "live" ? "on" : "off";
  };
  setInterval(say, 1000);

  const waiting = new Map();
  // A part that somebody reads with the keyboard, or has selected text in, is replaced later.
  const isBusy = (place) => place.contains(document.activeElement) ||
    (!getSelection().isCollapsed && place.contains(getSelection().anchorNode));
  const place = (id, html) => {
    const there = document.getElementById(id);
    const open = new Set([...there.querySelectorAll("details")].flatMap((one, k) => (one.open ? [one.id || k] : [])));
    // The server has escaped what comes from files.
    there.innerHTML = html;
    [...there.querySelectorAll("details")].forEach((one, k) => { one.open = open.has(one.id || k); });
  };
  const placeWaiting = () => {
    for (const [id, html] of waiting) {
      if (isBusy(document.getElementById(id))) continue;
      waiting.delete(id);
      place(id, html);
      changed("parts");
    }
  };
  setInterval(placeWaiting, 1000);

  const source = new EventSource(`events?from=${data.rows.task.length}`);
  source.addEventListener("open", () => { state = "live"; say(); });
  source.addEventListener("error", () => { state = "the server is gone: is it running? trying again"; say(); });
  source.addEventListener("rows", (event) => {
    const news = JSON.parse(event.data);
    for (const [name, column] of Object.entries(news)) {
      for (const value of column) data.rows[name].push(value);
    }
    newest = Date.now();
    say();
    changed("rows");
  });
  source.addEventListener("tasks", (event) => {
    data.tasks = JSON.parse(event.data);
    changed("tasks");
  });
  source.addEventListener("parts", (event) => {
    for (const [id, html] of Object.entries(JSON.parse(event.data))) waiting.set(id, html);
    placeWaiting();
  });
  source.addEventListener("reload", () => location.reload());
}
