// New trials and tables of a running search, which its server is asked for every second.
function watch(changed) {
  const status = document.getElementById("live");
  if (!status) return;
  let newest = Date.now(), version = 0;
  const say = (text, on) => {
    if (status.textContent !== text) status.textContent = text;
    status.className = on ? "on" : "off";
  };
  const waiting = new Map();
  // A part with the keyboard focus or with selected text is replaced later.
  const isBusy = (place) => place.contains(document.activeElement) ||
    (!getSelection().isCollapsed && place.contains(getSelection().anchorNode));
  const place = (id, html) => {
    const there = document.getElementById(id);
    const open = new Set([...there.querySelectorAll("details")].flatMap((one, k) => (one.open ? [one.id || k] : [])));
    there.innerHTML = html; // The server has escaped all texts from files.
    [...there.querySelectorAll("details")].forEach((one, k) => { one.open = open.has(one.id || k); });
  };
  const take = (news) => {
    if (news.reload) {
      location.reload();
      return;
    }
    for (const [name, column] of Object.entries(news.rows)) {
      for (const value of column) data.rows[name].push(value);
    }
    if (news.rows.task.length) {
      newest = Date.now();
      changed("rows");
    }
    const { tasks, ...parts } = news.parts;
    version = news.version;
    if (tasks) {
      data.tasks = tasks;
      changed("tasks");
    }
    for (const [id, html] of Object.entries(parts)) waiting.set(id, html);
    for (const [id, html] of waiting) {
      if (isBusy(document.getElementById(id))) continue;
      waiting.delete(id);
      place(id, html);
      changed("parts");
    }
    const ago = Math.round((Date.now() - newest) / 1000);
    say(`live: ${data.rows.task.length.toLocaleString("en")} trials` + (ago > 5 ? `, none for ${ago} s` : ""), true);
  };
  const ask = async () => {
    let news = null;
    try {
      const answer = await fetch(`news?reads=${data.reads}&trials=${data.rows.task.length}&version=${version}`);
      if (!answer.ok) throw new Error(answer.statusText);
      news = await answer.json();
    } catch {
      say("the server is gone: is it running? trying again", false);
    }
    setTimeout(ask, 1000);
    if (news !== null) take(news);
  };
  ask();
}
