"""The page as a whole: its parts, its styles and its scripts in one file that needs no network."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Final

from search.reports.page import sections
from search.reports.page.chart_data import STAGES, json_in_html, rows_of, tasks_of
from search.reports.page.markup import Content, Markup, details, element
from search.reports.page.program_text import styles
from search.reports.page.sections import Found
from search.reports.page.watched_search import WatchedSearch
from search.reports.tasks import Tasks

MOST_TRIALS: Final = 20_000
"""The most trials that are drawn; of more, those that were the best so far, and others between."""
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


PARTS: Final[dict[str, Callable[[WatchedSearch, Found], Markup]]] = {
    "summary": sections.summary,
    "tasks-table": sections.tasks,
    "decisions-table": sections.decisions,
    "failed": sections.failures,
    "steps": sections.next_steps,
    "winners": sections.winners,
}
"""What makes the parts of the page that are text and tables, by their ids."""


def page(search: WatchedSearch, winners: Found, *, title: str, live: bool = False) -> str:
    """Return the page of a search as it is now; with `live` it asks its server for what is new."""
    drawn = range(len(search.trials)) if live else _worth_drawing(search.tasks)
    data = {
        "stages": STAGES,
        "tasks": tasks_of(search.tasks, winners),
        "rows": rows_of(search.tasks, drawn),
        "left_out": len(search.trials) - len(drawn),
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


def _header(title: str, live: bool) -> Markup:
    colours = {"": "of the system", "light": "light", "dark": "dark"}
    theme = element("label", "Colours ", _choice("theme", colours), class_="script")
    state = element("p", "connecting", id_="live", role="status") if live else None
    return element("header", element("h1", title), state, theme)


def _main(search: WatchedSearch, winners: Found) -> list[Markup]:
    def part(name: str) -> Markup:
        return element("div", PARTS[name](search, winners), id_=name)

    choice = element(
        "p",
        element("label", "Task ", _choice("task", {})),
        " ",
        element("span", "for the charts, the schedules and the trials below"),
        class_="script choice",
    )
    place = element("div", id_="trial-table")
    all_trials = details("The trials of the task, one a row", place)
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
        _section("trials", "All trials", all_trials),
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


def _choice(name: str, options: Mapping[str, str]) -> Markup:
    made = [element("option", text, value=value) for value, text in options.items()]
    return element("select", made, id_=name)


def _axis_choice() -> Markup:
    choice = _choice("axis", {"trials": "trials", "seconds": "seconds"})
    return element("p", element("label", "Against ", choice), class_="script")


def _worth_drawing(tasks: Tasks) -> Sequence[int]:
    """Return which trials are drawn: each that was the best of its task, others evenly spread."""
    count = len(tasks.trials)
    few = range(0, count, max(1, -(-count // MOST_TRIALS)))
    courses = zip(tasks.trials, tasks.best_so_far, strict=True)
    best = (k for k, (one, least) in enumerate(courses) if least and one.seconds == least)
    return sorted({*few, *best})


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
    return files("search.reports.page").joinpath("assets", name).read_text(encoding="utf-8")
