"""The report of a search: one HTML page that needs no network, and the data of its charts."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from search.database import Database
from search.errors import ArgumentError, DatabaseError
from search.explorer.component import assets, page_in_frame
from search.explorer.explorer import Explorer
from search.kinds import suggestion
from search.reports.page.markup import Content, Markup, details, element
from search.reports.page.sections import Findings
from search.reports.page.watched_search import WatchedSearch
from search.reports.run_directory import knobs_of
from search.reports.tasks import TaskTrials
from tensorir.paths import as_path
from tensorir.replaced_file import replaced_file

REPORT_FILE: Final = "report.html"
_SMALL: Final = 2_000_000
"""The maximum length in characters of a page that a notebook shows inline."""
_STYLES: Final = ("uPlot.min.css", "report.css")
_SCRIPTS: Final = (
    "uPlot.iife.min.js",
    "data.js",
    "chart.js",
    "pictures.js",
    "trial_table.js",
    "live.js",
    "start.js",
)
_THEME: Final = "theme.js"


@dataclass(frozen=True)
class Report:
    """The path of a written report; a notebook shows the page."""

    path: Path
    trials: int
    """The number of trials in it."""

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def __str__(self) -> str:
        return str(self.path)

    def _repr_html_(self) -> str:
        link = f'<a href="{html.escape(str(self.path))}">{html.escape(str(self.path))}</a>'
        try:
            text = self.path.read_text(encoding="utf-8")
        except OSError:
            return link
        if len(text) > _SMALL:
            return f"<p>{link}</p>"
        return f"<p>{link}</p>{page_in_frame(text, 'report', '40em')}"


def report(
    work_dir: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    tasks: Sequence[str] | None = None,
    database: str | os.PathLike[str] | Database | None = None,
) -> Report:
    """Write the report of a search and return its path.

        print(search.report("./tune_tmp"))

    The page shows the tasks and their costs, the best time during the search, decisions against
    time, predictions against measurements, failures, advice, and the winners in the explorer.
    It is one file, by default `report.html` in `work_dir`, and needs no network. The search may be
    running or interrupted; its files are only read.

    Schedules come from `database`: a database, or a directory, file or URL of one; by
    default the database in `work_dir`. They are shown for `tasks`, by default for the most
    expensive tasks.

    Raises DatabaseError if the directory has no trials or its file of trials cannot be read,
    ArgumentError for an unknown task, OSError if the page cannot be written.
    """
    search = WatchedSearch(work_dir, database)
    if not search.trials:
        raise DatabaseError(
            f"there are no trials in {search.folder}: give the work_dir of a search, as in "
            f'tune_tir(..., work_dir="{search.folder}")'
        )
    findings = Findings(search, None if tasks is None else _tasks_by_name(search, tasks))
    path = search.folder / REPORT_FILE if output is None else as_path(output, "output")
    with replaced_file(path) as file:
        file.write(page(findings).encode(errors="replace"))
    return Report(path, len(search.trials))


def _tasks_by_name(search: WatchedSearch, names: Sequence[str]) -> list[TaskTrials]:
    labelled = zip(search.tasks.labels, search.tasks, strict=True)
    known = {name: task for label, task in labelled for name in (label, task.known.task)}
    for name in names:
        if name not in known:
            raise ArgumentError(
                f"unknown task {name!r} in {search.folder}{suggestion(name, list(known))}"
            )
    return [known[name] for name in dict.fromkeys(names)]


def page(findings: Findings, live: bool = False) -> str:
    """Return the page of a search; a live page asks its server for new versions."""
    search = findings.search
    explorer = assets(*Explorer.scripts)
    scripts = [_asset(_THEME), "\n".join([explorer, *map(_asset, _SCRIPTS)])]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(scripts, live)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", search.title),
        element("style", Markup("\n".join([assets(*Explorer.styles), *map(_asset, _STYLES)]))),
        element("script", Markup(scripts[0])),
    )
    colours = {"": "of the system", "light": "light", "dark": "dark"}
    body = element(
        "body",
        element("a", "To the content", href="#content", class_="skip"),
        element(
            "header",
            element("h1", search.title),
            element("p", "connecting", id_="live", role="status") if live else None,
            element("label", "Colours ", _select("theme", colours), class_="script"),
        ),
        element("main", _main(findings), id_="content", tabindex=-1),
        element("footer", "Made by tensorir; the charts are drawn by uPlot (MIT licence)."),
        element(
            "script", _json_in_html(chart_data(findings)), type_="application/json", id_="data"
        ),
        element("script", Markup(scripts[1])),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en', class_='tx')}\n"


def _main(findings: Findings) -> list[Markup]:
    def part(name: str) -> Markup:
        return element("div", findings.parts[name], id_=name, class_="part")

    chosen = element("label", "Task ", _select("task", {}))
    remark = element("span", " for the charts, the schedules and the trials below")
    against = element(
        "label", "Against ", _select("axis", {"trials": "trials", "seconds": "seconds"})
    )
    panels = element("div", id_="panels", class_="script")
    trials = details("The trials of the task, one per row", element("div", id_="trial-table"))
    return [
        _section("summary-part", "Summary", part("summary")),
        _section("tasks", "Tasks, and where the time goes", part("tasks-table"), _chart("total")),
        element("p", chosen, remark, class_="script choice"),
        _section(
            "progress", "Best over time", element("p", against, class_="script"), _chart("progress")
        ),
        _section("decisions", "Decisions against time", part("decisions-table"), panels),
        _section("predicted", "Predicted against measured", _chart("prediction")),
        _section("failures", "Failures", part("failed")),
        _section("next", "What to try next", part("steps")),
        _section("schedules", "The winner, step by step", part("winners")),
        _section("trials", "All trials", trials),
        element(
            "noscript",
            element("p", "The charts, the winners and the list of trials need JavaScript."),
        ),
    ]


def _section(name: str, heading: str, *content: Content) -> Markup:
    title = f"{name}-title"
    return element(
        "section", element("h2", heading, id_=title), *content, id_=name, aria_labelledby=title
    )


def _chart(name: str) -> Markup:
    """Return the element in which a script draws a chart and its table."""
    return element("div", id_=name + "-picture", class_="script")


def _select(name: str, options: Mapping[str, str]) -> Markup:
    made = [element("option", text, value=value) for value, text in options.items()]
    return element("select", made, id_=name)


def _policy(scripts: Sequence[str], live: bool) -> str:
    """Return a content security policy that allows only these scripts and the live server."""
    digests = (hashlib.sha256(text.encode()).digest() for text in scripts)
    hashes = " ".join(f"'sha256-{base64.b64encode(one).decode()}'" for one in digests)
    connect = "connect-src 'self'; " if live else ""
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; {connect}"
        "base-uri 'none'; form-action 'none'"
    )


def _json_in_html(data: Any) -> Markup:
    """Return JSON for a script element, with `<`, `>` and `&` escaped."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)


def _asset(name: str) -> str:
    return files("search.reports.page").joinpath("assets", name).read_text(encoding="utf-8")


MOST_TRIALS: Final = 20_000
"""The maximum number of trials in the charts; trials that were the best so far come on top."""
_MOST_NAMES: Final = 1000
_STAGES: Final = ("done", "stopped", "build", "run", "check")


def chart_data(findings: Findings) -> dict[str, Any]:
    """Return the tasks and the trials of a search as plain data.

    The page offers tasks with a `rank`: the most expensive tasks, and tasks with a winner. Their
    `columns` are the decided numbers in one design space. The rows have the trials by column:
    `stage` is an index of `stages`; `time` is in microseconds per call, a lower bound for a stopped
    trial; `best` is the minimum of its task so far; `at` is in seconds since the start. `winners`
    has packed data of explorers by task.
    """
    tasks = findings.search.tasks
    known: list[dict[str, Any]] = []
    values: dict[int, list[Any]] = {}
    for shown, label in zip(findings.tasks, tasks.labels, strict=True):
        report, columns = shown.task.report, findings.columns(label)
        entry = {"label": label, "weight": report.weight, "space": shown.space, "columns": columns}
        pairs = shown.task.pairs_in_order
        entry["pairs"] = None if math.isnan(pairs) else round(100 * pairs)
        if report.rounds:
            entry |= {"settled": _micros(report.best), "winner": report.winner}
        known.append(entry)
        for trial, named in zip(shown.task.trials, shown.trials, strict=True):
            is_named = trial.space == shown.space
            decided = [named.knobs.get(name) for name in columns]
            values[id(trial)] = decided if is_named else list(knobs_of((), trial).values())
    largest = [task.number for task in tasks.largest(_MOST_NAMES) if task.trials]
    winners = [shown.task.number for shown in findings.tasks if shown.winner is not None]
    for rank, number in enumerate(dict.fromkeys([*largest, *winners])):
        known[number]["rank"] = rank
    drawn = _worth_drawing(findings)
    trials = [tasks.trials[k] for k in drawn]
    rows = {
        "task": [tasks.places[k] for k in drawn],
        "number": [trial.number for trial in trials],
        "batch": [trial.batch for trial in trials],
        "stage": [_STAGES.index(trial.stage) for trial in trials],
        "time": [_micros(trial.seconds or trial.slower_than) for trial in trials],
        "best": [_micros(tasks.best_so_far[k]) for k in drawn],
        "score": [_round_digits(trial.predicted, 4) for trial in trials],
        "at": [round(trial.time - tasks.start, 2) for trial in trials],
        "building": [_round_digits(trial.build_secs, 3) for trial in trials],
        "measuring": [_round_digits(trial.measure_secs, 3) for trial in trials],
        "space": [trial.space for trial in trials],
        "decisions": [values[id(trial)] for trial in trials],
        "machine": [trial.machine for trial in trials],
    }
    explorers = {one.task.number: one.winner.explorer for one in findings.tasks if one.winner}
    return {"stages": _STAGES, "tasks": known, "rows": rows, "winners": explorers}


def _worth_drawing(findings: Findings) -> Sequence[int]:
    """Return the trials in the charts: an even choice, and each that was the best of its task."""
    tasks = findings.search.tasks
    few = range(0, len(tasks.trials), max(1, -(-len(tasks.trials) // MOST_TRIALS)))
    courses = zip(tasks.trials, tasks.best_so_far, strict=True)
    best = (k for k, (one, least) in enumerate(courses) if least and one.seconds == least)
    return sorted({*few, *best})


def _micros(seconds: float | None) -> float | None:
    return _round_digits(1e6 * seconds, 6) if seconds else None


def _round_digits(number: float | None, digits: int) -> float | None:
    return None if number is None else float(f"{number:.{digits}g}")
