"""The page as a whole: its parts, its styles and its scripts in one file that needs no network."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any, Final

from search.report_page import sections
from search.report_page.chart_data import STAGES, json_in_html, rows_of, tasks_of
from search.report_page.markup import Content, Markup, details, element
from search.report_page.program_text import styles
from search.report_page.watched_search import WatchedSearch
from search.report_page.winners import ShownWinner
from search.trials.trial import Trial

MOST_TRIALS: Final = 20_000
"""The most trials that are drawn; of more, those that were the best so far, and others between."""
_MOST_NAMES: Final = 1000
_STYLES: Final = ("uPlot.min.css", "report.css")
_SCRIPTS: Final = (
    "uPlot.iife.min.js",
    "numbers.js",
    "chart.js",
    "pictures.js",
    "trial_table.js",
    "live.js",
    "start.js",
)
_THEME: Final = "theme.js"


PARTS: Final[dict[str, Callable[[WatchedSearch, Mapping[int, ShownWinner]], Markup]]] = {
    "summary": lambda search, _: sections.summary(search),
    "tasks-table": lambda search, _: sections.tasks(search),
    "decisions-table": sections.decisions,
    "failed": lambda search, _: sections.failures(search),
    "steps": sections.next_steps,
    "winners": sections.winners,
}
"""What makes the parts of the page that are text and tables, by their ids."""


def page(
    search: WatchedSearch, winners: Mapping[int, ShownWinner], *, title: str, live: bool = False
) -> str:
    """Return the page of a search as it is now; with `live` it asks its server for what is new."""
    trials, places = search.trials, search.tasks.places
    if len(trials) > MOST_TRIALS and not live:
        kept = _worth_drawing(trials, places)
        trials, places = [trials[k] for k in kept], [places[k] for k in kept]
    data = {
        "stages": STAGES,
        "tasks": offered_tasks(search, winners),
        "rows": rows_of(trials, places, search.start),
        "left_out": len(search.trials) - len(trials),
    }
    scripts = [_asset(_THEME), "\n".join(map(_asset, _SCRIPTS))]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(scripts, live)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("style", Markup("\n".join([*map(_asset, _STYLES), styles()]))),
        element("script", Markup(scripts[0])),
    )
    body = element(
        "body",
        element("a", "To the content", href="#content", class_="skip"),
        _header(title, live),
        element("main", _main(search, winners), id_="content", tabindex=-1),
        element("footer", "Made by tensorir; the charts are drawn by uPlot (MIT licence)."),
        element("script", Markup(json_in_html(data)), type_="application/json", id_="data"),
        element("script", Markup(scripts[1])),
    )
    language = element("html", head, body, lang="en", data_live="yes" if live else None)
    return f"<!DOCTYPE html>\n{language}\n"


def parts(search: WatchedSearch, winners: Mapping[int, ShownWinner]) -> dict[str, Markup]:
    """Return the parts of the page that are text and tables, by their ids."""
    return {name: make(search, winners) for name, make in PARTS.items()}


def offered_tasks(
    search: WatchedSearch, winners: Mapping[int, ShownWinner]
) -> list[dict[str, Any]]:
    """Return the tasks for the script; offered to choose from are the largest."""
    numbers = {id(task): number for number, task in enumerate(search.tasks.all)}
    offered = [numbers[id(task)] for task in search.tasks.largest(_MOST_NAMES) if task.trials]
    return tasks_of(
        search.tasks.all, winners, [*offered, *(n for n in winners if n not in offered)]
    )


def _header(title: str, live: bool) -> Markup:
    theme = element(
        "label",
        "Colours ",
        element(
            "select",
            [
                element("option", text, value=value)
                for value, text in (("", "of the system"), ("light", "light"), ("dark", "dark"))
            ],
            id_="theme",
        ),
        class_="script",
    )
    state = element("p", "connecting", id_="live", role="status") if live else None
    return element("header", element("h1", title), state, theme)


def _main(search: WatchedSearch, winners: Mapping[int, ShownWinner]) -> list[Markup]:
    made = parts(search, winners)

    def part(name: str) -> Markup:
        return element("div", made[name], id_=name)

    choice = element(
        "p",
        element("label", "Task ", element("select", id_="task")),
        " ",
        element("span", "for the charts, the schedules and the trials below"),
        class_="script choice",
    )
    return [
        _section("summary-part", "Summary", part("summary")),
        _section("tasks", "Tasks, and where the time goes", part("tasks-table"), _picture("total")),
        choice,
        _section("progress", "Best over time", _axis_choice(), _picture("progress")),
        _section(
            "decisions",
            "Decisions against time",
            part("decisions-table"),
            element("div", id_="panels", class_="script"),
        ),
        _section("predicted", "Predicted against measured", _picture("prediction")),
        _section("failures", "Failures", part("failed")),
        _section("next", "What to try next", part("steps")),
        _section("schedules", "The winner beside the original", part("winners")),
        _section("trials", "All trials", _trials()),
        element("noscript", element("p", "The charts and the list of trials need JavaScript.")),
    ]


def _section(name: str, heading: str, *content: Content) -> Markup:
    title = f"{name}-title"
    return element(
        "section", element("h2", heading, id_=title), *content, id_=name, aria_labelledby=title
    )


def _picture(name: str) -> Markup:
    """Return the place of a chart, and of the table behind it."""
    return element("div", id_=name + "-picture", class_="script")


def _axis_choice() -> Markup:
    options = [
        element("option", text, value=value)
        for value, text in (("trials", "trials"), ("seconds", "seconds"))
    ]
    return element(
        "p", element("label", "Against ", element("select", options, id_="axis")), class_="script"
    )


def _trials() -> Markup:
    return details("The trials of the task, one a row", element("div", id_="trial-table"))


def _worth_drawing(trials: Sequence[Trial], places: Sequence[int]) -> list[int]:
    """Return which trials are drawn: each that was the best of its task, others evenly spread."""
    best: dict[int, float] = {}
    kept = set(range(0, len(trials), -(-len(trials) // MOST_TRIALS)))
    for k, (trial, place) in enumerate(zip(trials, places, strict=True)):
        seconds = trial.seconds
        if seconds is not None and seconds < best.get(place, float("inf")):
            best[place] = seconds
            kept.add(k)
    return sorted(kept)


def _policy(scripts: Sequence[str], live: bool) -> str:
    """Return what a browser is to allow: these scripts, and nothing from elsewhere."""
    digests = (hashlib.sha256(text.encode()).digest() for text in scripts)
    hashes = " ".join(f"'sha256-{base64.b64encode(one).decode()}'" for one in digests)
    connect = "connect-src 'self'; " if live else ""
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; {connect}"
        "base-uri 'none'; form-action 'none'"
    )


def _asset(name: str) -> str:
    return files("search.report_page").joinpath("assets", name).read_text(encoding="utf-8")
