// New versions of the page of a running search, which its server is asked for every second.
const served = new Map([...document.querySelectorAll(".part")].map((one) => [one.id, one.innerHTML]));

function watch(changed) {
  const status = document.getElementById("live");
  if (!status) return;
  let newest = Date.now(), version = "";
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
  const take = (text) => {
    const page = new DOMParser().parseFromString(text, "text/html");
    const count = data.rows.task.length;
    Object.assign(data, JSON.parse(page.getElementById("data").textContent));
    if (data.rows.task.length !== count) newest = Date.now();
    for (const { id, innerHTML } of page.querySelectorAll(".part")) {
      if (served.get(id) !== innerHTML) waiting.set(id, innerHTML);
      served.set(id, innerHTML);
    }
    changed();
  };
  const ask = async () => {
    let answer = null, text = "";
    try {
      answer = await fetch("/", { headers: { "If-None-Match": version }, cache: "no-store" });
      if (answer.status === 200) text = await answer.text();
    } catch { /* it did not answer */ }
    setTimeout(ask, 1000);
    if (text) {
      version = answer.headers.get("ETag");
      take(text);
    }
    for (const [id, html] of waiting) {
      if (isBusy(document.getElementById(id))) continue;
      waiting.delete(id);
      place(id, html);
      changed();
    }
    const ago = Math.round((Date.now() - newest) / 1000), count = data.rows.task.length.toLocaleString("en");
    if (answer === null) say("the server is gone: is it running? trying again", false);
    else if (answer.status > 304) say("the files of the search cannot be read: trying again", false);
    else say(`live: ${count} trials` + (ago > 5 ? `, none for ${ago} s` : ""), true);
  };
  ask();
}
