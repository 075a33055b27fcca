"""The texts and tables of the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from search.options import UNLIMITED
from search.reports.advice import advice
from search.reports.cost_curve import HEADINGS
from search.reports.log_format import ERROR_MEANINGS, utc
from search.reports.page.markup import Content, Markup, details, element, table
from search.reports.page.program_text import program, scrolled, side_by_side
from search.reports.page.watched_search import TaskWinner, WatchedSearch
from search.reports.report import RunReport, factor_text
from search.reports.table import LogTable
from search.reports.tasks import Failure, TaskTrials, failures_of, program_of
from search.reports.trial import Trial
from search.runner.time_text import time_text

Winners: TypeAlias = Mapping[int, TaskWinner]
"""The winners by the numbers of their tasks."""

_MOST_TASKS: Final = 1000
_MOST_GROUPS: Final = 100
_MOST_PLACES: Final = 20
_LONGEST_REASON: Final = 300
_LONGEST_ERROR: Final = 4000
_MOST_ADVISED: Final = 24
_LONG_FACT: Final = 30
_TEXTS: Final = ("task", "bound", "ended", "share of a call")
"""The columns of the table of tasks that are aligned at the left."""


def summary(search: WatchedSearch, _: Winners) -> Markup:
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
    return element("div", element("dl", listed, class_="facts"), map(_note, notes))


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


def tasks(search: WatchedSearch, _: Winners) -> Markup:
    """Return the tasks, most expensive first, and where the time of the search went."""
    known = search.tasks.largest()
    reports = RunReport([task.report for task in known])
    total = sum(task.cost for task in known)
    heading, *rows = [list(row) for row in reports.cells()]
    used = [k for k, name in enumerate(heading) if name == "task" or any(row[k] for row in rows)]
    heading = [heading[k] for k in used]
    cells: list[list[Content]] = [[row[k] for k in used] for row in rows]
    for row, task in zip(cells, known, strict=False):  # The last row has the sums.
        row[0] = task.label
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
    return element("div", shown, rest, _note(unknown), _time(search), _machines(search))


def _time(search: WatchedSearch) -> Markup | None:
    if not search.trials:
        return None
    remarks = {
        "build": "the sum of all building processes, which run in parallel",
        "measure": "on the measuring cores",
        "search and wait": "searching, learning, and waiting for builds",
    }
    stages = search.tasks.stages()
    longest = max(*stages.values(), search.tasks.seconds, 1e-9)
    return table(
        ["stage", "seconds", "share", "remark"],
        [
            (name, f"{spent:.1f}", _bar(spent / longest, False), remarks.get(name, ""))
            for name, spent in stages.items()
        ],
        caption=f"Where the {search.tasks.seconds:.1f} seconds of the search went",
        numbers=[1],
    )


def _machines(search: WatchedSearch) -> Markup | None:
    """Return the trials by machine if other machines measured some."""
    groups: dict[str | None, list[Trial]] = {}
    for trial in search.trials:
        groups.setdefault(trial.machine, []).append(trial)
    if not set(groups) - {None}:
        return None
    rows = [
        (
            machine or "this one",
            f"{len(trials):,}",
            f"{sum(trial.failed for trial in trials):,}",
            f"{sum(trial.measure_secs for trial in trials):.1f}",
        )
        for machine, trials in sorted(groups.items(), key=lambda item: -len(item[1]))
    ]
    return table(
        ["machine", "trials", "failed", "measuring (s)"],
        rows,
        caption="Where trials were measured",
        numbers=[1, 2, 3],
    )


def failures(search: WatchedSearch, _: Winners) -> Markup:
    """Return the failed trials, grouped by the reason."""
    groups = failures_of(search.trials)
    if not groups:
        return _note("No trial has failed.")
    shown = [_failure(group, search, k) for k, group in enumerate(groups[:_MOST_GROUPS])]
    more = len(groups) - len(shown)
    return element("div", shown, _note(f"{more:,} rarer reasons are left out." * (more > 0)))


def _failure(group: Failure, search: WatchedSearch, place: int) -> Markup:
    count = len(group.trials)
    numbers: dict[str, list[str]] = {}
    for trial in group.trials[:_MOST_PLACES]:
        label = search.tasks.of(program_of(trial)).label
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
        scrolled([error], "error", class_="text"),
        id_=f"failure-{place}",
    )


def next_steps(search: WatchedSearch, winners: Winners) -> Markup:
    """Return the advice for the most expensive tasks."""
    steps = [
        step._replace(task=task.label)
        for task in search.tasks.largest(_MOST_ADVISED)
        if task.trials
        for step in advice(
            winners[task.number].table
            if task.number in winners
            else LogTable(task.trials, [task.known])
        )
    ]
    if not steps:
        return _note("No figure of the search speaks for a change.")
    return table(["task", "try", "because"], steps, caption="Advice, and the figures behind it")


def winners(search: WatchedSearch, winners: Winners) -> Markup:
    """Return the program, the trace and the explanation of each winner."""
    if not winners:
        missing = "There is no database with the programs in the directory, or no trial succeeded."
        return _note(missing if search.trials else "Nothing was measured yet.")
    parts = [_winner(search.tasks[number], one) for number, one in winners.items()]
    left = sum(task.best is not None for task in search.tasks) - len(winners)
    rest = f"The other {left:,} tasks cost less; tensorir report --task NAME shows them."
    return element("div", parts, _note(rest * (left > 0)))


def _winner(task: TaskTrials, shown: TaskWinner) -> Markup:
    winner = shown.winner
    times = f"the median of {winner.measurements} times" if winner.measurements > 1 else "one time"
    explained: list[Content] = []
    for title, tables in winner.explanation:
        explained.append(element("h4", title))
        for one in tables:
            right = [k for k, name in enumerate(one.headings) if name in one.numbers]
            caption = f"{one.headings[0]}s"
            explained.append(table(one.headings, one.rows, caption=caption, numbers=right))
    if winner.why_unexplained:
        explained.append(_note(f"The program cannot be explained: {winner.why_unexplained}"))
    return element(
        "article",
        element("h3", task.label),
        element("p", f"{time_text(winner.seconds)} per call, {times}, on {task.known.target}."),
        side_by_side(winner.original, winner.program, ("the original program", "the winner")),
        details("Trace: the calls that make the winner", program(winner.trace, "trace")),
        details("Explanation: the loops, accumulators and accesses after compilation", explained),
        data_task=task.number,
    )


def decisions(search: WatchedSearch, winners: Winners) -> Markup:
    """Return how much each decision in the design spaces of the winners explains of the times."""
    what = "the variance of log(time) a decision explains, with an interval of 95 %"
    parts = []
    for number, shown in winners.items():
        if rows := [curve.cells() for curve in shown.curves]:
            caption = f"What matters in {search.tasks[number].label}: how much of {what}"
            made = table(["decision", *HEADINGS], rows, caption=caption, numbers=[1])
            parts.append(element("article", made, data_task=number))
    return element("div", parts)


def _note(text: str) -> Markup:
    return element("p", text, class_="note") if text else Markup()


def _duration(seconds: float) -> str:
    for unit, name in ((3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds:.1f} seconds"


def _bar(share: float, is_labelled: bool = True) -> Markup:
    bar = element("span", class_="bar", style=f"width:{100 * share:.1f}%")
    return element("span", bar, f"{share:.1%}" if is_labelled else None, class_="share")
