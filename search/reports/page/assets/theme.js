// Runs before anything is drawn, so that the page does not flash in the wrong colours.
"use strict";
const theme = {
  dark: matchMedia("(prefers-color-scheme: dark)"),
  chosen() {
    try { return localStorage.getItem("tensorir-theme") || ""; } catch { return ""; }
  },
  choose(name) {
    try { localStorage.setItem("tensorir-theme", name); } catch { /* not kept, but in effect */ }
    theme.apply(name);
  },
  apply(name) {
    document.documentElement.dataset.theme = name || (theme.dark.matches ? "dark" : "light");
  },
};
theme.apply(theme.chosen());
document.documentElement.classList.add("scripted");
