"""The texts and tables of the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from search.options import UNLIMITED
from search.reports.explain import LogExplanation
from search.reports.log_format import ERROR_MEANINGS, Log, utc
from search.reports.page.markup import Content, Markup, details, element, markup, table
from search.reports.page.watched_search import ShownTask, WatchedSearch
from search.reports.report import RunReport, factor_text
from search.reports.tasks import Failure, TaskTrials, failures_of, program_of
from search.runner.time_call import time_text

_MOST_TASKS: Final = 1000
_MOST_GROUPS: Final = 100
_MOST_PLACES: Final = 20
_LONGEST_REASON: Final = 300
_LONGEST_ERROR: Final = 4000
_LONG_FACT: Final = 30
_TEXTS: Final = ("task", "bound", "ended", "share of a call")
"""The columns of the table of tasks that are aligned at the left."""


class Findings:
    """The findings about a search at one moment: its tasks, and the parts of its page.

    The tables are those of `search.explain`. Programs are shown for the `wanted` tasks, by default
    for the most expensive tasks.
    """

    def __init__(self, search: WatchedSearch, wanted: Sequence[TaskTrials] | None = None) -> None:
        self.search = search
        self.tasks = search.shown_tasks(wanted)
        trials = [trial for shown in self.tasks for trial in shown.trials]
        log = Log(sorted(trials, key=lambda trial: trial.time), reports=search.tasks.known)
        self._explanation = LogExplanation(search.folder, log)
        tables = self._explanation.sections() if trials else ()
        self._tables = {title: _table(title, rows) for title, rows in tables}
        time_tables = self._table("Where time went", "Where trials were measured")
        self.parts: dict[str, Markup] = {
            "summary": _summary(search),
            "tasks-table": markup([_tasks(search), time_tables]),
            "decisions-table": markup(self._decisions()),
            "failed": markup([self._table("How measurements ended"), _failures(search)]),
            "steps": self._table("What to try next"),
            "winners": _winners(search, self.tasks),
        }
        """The texts and tables of the page by element id."""

    def columns(self, label: str) -> list[str]:
        """Return the names of the decided numbers of a task, the most telling first."""
        table = self._explanation.parts.get(label)
        if table is None:
            return []
        telling = [curve.column for curve in table.what_matters]
        return list(dict.fromkeys([*telling, *table.knobs]))

    def _table(self, *titles: str) -> Markup:
        return markup(self._tables.get(title) for title in titles)

    def _decisions(self) -> Iterator[Markup]:
        yield _note(
            "A column explains a fraction of the variance of log(time), with an interval of 95 %."
        )
        for number, label in enumerate(self.search.tasks.labels):
            if shown := self._table(f"What matters in {label}"):
                yield element("article", shown, data_task=number)


def _table(title: str, rows: Sequence[Sequence[str]]) -> Markup:
    """Return a table of texts, with numbers aligned at the right."""
    heading, *body = rows
    numbers = [k for k, cells in enumerate(zip(*body, strict=True)) if all(map(_is_number, cells))]
    return table(heading, body, caption=title, numbers=numbers)


def _is_number(text: str) -> bool:
    return not text.strip("0123456789.,+-e%<> ")


def _summary(search: WatchedSearch) -> Markup:
    """Return the figures of the search."""
    tasks, trials, reports = search.tasks, search.trials, search.tasks.report
    stopped = sum(task.counts["stopped"] for task in tasks)
    failed = sum(task.failed for task in tasks)
    planned = [plan.get("max_trials_global") for plan in search.plans]
    most = max((n for n in planned if isinstance(n, int) and n < UNLIMITED), default=0)
    facts = [("tasks", f"{len(tasks):,}")]
    if len(tasks) == 1:
        best = reports[0].best
        facts = [("best time", "none yet" if best is None else time_text(best))]
    elif total := sum(task.cost for task in tasks):
        facts.append(("a call of all tasks", time_text(total)))
    facts += [
        *_gain(reports),
        ("trials", f"{len(trials):,}" + (f" of {most:,}" if most else "")),
        ("measured", f"{len(trials) - stopped - failed:,}"),
        ("stopped early", f"{stopped:,}"),
        ("failed", f"{failed:,}"),
    ]
    if trials:
        facts += [("from", utc(tasks.start)), ("for", _duration(tasks.seconds))]
    unfinished = "unfinished: running, or interrupted" if search.plans else ""
    facts.append(("state", unfinished or reports.state or "finished"))
    facts += [("target", target) for target in dict.fromkeys(one.target for one in reports)]
    listed = [
        element(
            "div",
            element("dt", name),
            element("dd", value),
            class_="broad" if len(value) > _LONG_FACT else None,
        )
        for name, value in facts
    ]
    notes = [*(() if trials else ("No trial has ended yet.",)), *search.notes]
    return element("div", element("dl", listed, class_="summary"), map(_note, notes))


def _gain(reports: RunReport) -> list[tuple[str, str]]:
    """Return the gain over the unscheduled programs, if all were measured, or first schedules."""
    known = RunReport([one for one in reports if one.best is not None and one.first is not None])
    if not known.best or not known.first:
        return []
    s = "s" * (len(reports) > 1)
    if known.gain is not None:
        more = "more than " * known.at_least
        times = f"{more}{factor_text(known.gain)} times as fast"
        return [(f"against the unscheduled program{s}", times)]
    times = f"{factor_text(known.first / known.best)} times as fast"
    return [(f"against the first schedule{s}", times)]


def _tasks(search: WatchedSearch) -> Markup:
    """Return the tasks, most expensive first, with their shares of a call of the model."""
    known = search.tasks.largest()
    reports = RunReport([task.report for task in known])
    total = sum(task.cost for task in known)
    heading, *rows = [list(row) for row in reports.cells()]
    used = [k for k, name in enumerate(heading) if name == "task" or any(row[k] for row in rows)]
    heading = [heading[k] for k in used]
    cells: list[list[Content]] = [[row[k] for k in used] for row in rows]
    labels = search.tasks.labels
    for row, task in zip(cells, known, strict=False):  # The last row has the sums.
        row[0] = labels[task.number]
        if total:
            row.append(_bar(task.cost / total))
    shown = table(
        [*heading, *(["share of a call"] if total else [])],
        [*cells[:_MOST_TASKS], *cells[max(len(known), _MOST_TASKS) :]],
        caption="Tasks, most expensive first",
        numbers=[k for k, name in enumerate(heading) if name not in _TEXTS],
    )
    more = len(known) - _MOST_TASKS
    rest = _note(f"{more:,} further tasks cost less." * (more > 0))
    is_unweighted = len(known) > 1 and not any(task.is_listed for task in known)
    unknown = "The weights of the tasks are unknown: each counts once." * is_unweighted
    return markup([shown, rest, _note(unknown)])


def _failures(search: WatchedSearch) -> Markup:
    """Return the failed trials, grouped by the reason."""
    groups = failures_of(search.trials)
    if not groups:
        return _note("No trial has failed.")
    shown = [_failure(group, search, k) for k, group in enumerate(groups[:_MOST_GROUPS])]
    more = len(groups) - len(shown)
    return markup([shown, _note(f"{more:,} rarer reasons are left out." * (more > 0))])


def _failure(group: Failure, search: WatchedSearch, place: int) -> Markup:
    count = len(group.trials)
    labels, numbers = search.tasks.labels, dict[str, list[str]]()
    for trial in group.trials[:_MOST_PLACES]:
        label = labels[search.tasks.of(program_of(trial)).number]
        numbers.setdefault(label, []).append(str(trial.number))
    listed = "; ".join(f"{label}: {', '.join(those)}" for label, those in numbers.items())
    more = f", and {count - _MOST_PLACES:,} more" if count > _MOST_PLACES else ""
    spent = sum(trial.spent for trial in group.trials)
    reason = group.reason[:_LONGEST_REASON] or ERROR_MEANINGS[group.ending]
    error = group.trials[0].error or ""
    if len(error) > _LONGEST_ERROR:
        error = f"{error[: _LONGEST_ERROR // 2]}\n[...]\n{error[-_LONGEST_ERROR // 2 :]}"
    return details(
        [element("b", f"{count:,} trial{'s' * (count != 1)}, {group.ending}"), f": {reason}"],
        element("p", f"Numbers of the trials in {listed}{more}"),
        element("p", f"They took {spent:.1f} s. The error of the first:"),
        element("pre", error, tabindex=0, role="region", aria_label="error"),
        id_=f"failure-{place}",
    )


def _winners(search: WatchedSearch, tasks: Sequence[ShownTask]) -> Markup:
    """Return the places in which a script shows the winners in the explorer."""
    labelled = zip(search.tasks.labels, tasks, strict=True)
    parts = [
        element(
            "article",
            element("h3", label),
            element("div", class_="winner"),
            data_task=one.task.number,
        )
        for label, one in labelled
        if one.winner
    ]
    if not parts:
        missing = "There is no database with the programs in the directory, or no trial succeeded."
        return _note(missing if search.trials else "Nothing was measured yet.")
    left = sum(task.best is not None for task in search.tasks) - len(parts)
    rest = f"The other {left:,} tasks cost less; tensorir report --task NAME shows them."
    return element("div", parts, _note(rest * (left > 0)))


def _note(text: str) -> Markup:
    return element("p", text, class_="note") if text else Markup()


def _duration(seconds: float) -> str:
    for unit, name in ((3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds:.1f} seconds"


def _bar(share: float) -> Markup:
    bar = element("span", class_="bar", style=f"width:{100 * share:.1f}%")
    return element("span", bar, f"{share:.1%}", class_="share")
