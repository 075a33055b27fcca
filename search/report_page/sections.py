"""The parts of the page that are text and tables, from what a search has written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from search.measuring.time_text import time_text
from search.report_page.markup import Content, Markup, details, element, table
from search.report_page.next_steps import next_steps as steps_of
from search.report_page.program_text import program, side_by_side
from search.report_page.searched_tasks import SearchedTask
from search.report_page.watched_search import WatchedSearch
from search.report_page.winners import ShownWinner, Winner
from search.trials.cost_curve import HEADINGS
from search.trials.failures import Failure
from search.trials.failures import failures as failure_groups
from search.trials.log_format import utc
from search.trials.report import RunReport
from search.trials.trial import Trial

_MOST_TASKS: Final = 1000
_MOST_GROUPS: Final = 100
_MOST_PLACES: Final = 20
_LONGEST_REASON: Final = 300
_LONGEST_ERROR: Final = 4000
"""Letters of an error: the beginning and the end of a longer one are shown."""
_MOST_ADVISED: Final = 24
_TEXTS: Final = ("task", "share of a call", "bound by")
"""The columns of the table of tasks that are no numbers."""
_FAILED_IN: Final = {
    "build": "could not be built",
    "run": "failed while running",
    "check": "gave wrong results",
}


def summary(search: WatchedSearch) -> Markup:
    """Return the numbers of the search in a list."""
    trials, tasks = search.trials, search.tasks.all
    done, stopped = (sum(getattr(task, name) for task in tasks) for name in ("done", "stopped"))
    failed = sum(task.failed for task in tasks)
    asked = search.asked
    count = f"{len(trials):,}" + (f" of {asked:,}" if asked else "")
    facts: list[tuple[str, str]] = [
        ("trials", count),
        ("measured", f"{done:,}"),
        ("stopped early", f"{stopped:,}"),
        ("failed", f"{failed:,}"),
    ]
    if len(tasks) == 1:
        (task,) = tasks
        best = "none yet" if task.settled is None else time_text(task.settled)
        facts.insert(0, ("best time", best))
    else:
        facts.insert(0, ("tasks", f"{len(tasks):,}"))
        if total := sum(task.share for task in tasks):
            facts.insert(0, ("a call of all tasks", time_text(total)))
    if (gain := _gain(tasks)) is not None:
        facts.insert(1, gain)
    if trials:
        facts += [("from", utc(search.start)), ("for", _span(search.seconds))]
    stopped_by = RunReport([task.report for task in tasks if task.report is not None]).state
    unfinished = "unfinished: running, or interrupted" if search.is_unfinished else ""
    facts += [("state", unfinished or stopped_by or "finished")]
    facts += [("target", target) for target in dict.fromkeys(task.target for task in tasks)]
    listed = [
        element("div", element("dt", name), element("dd", value), class_=_width(value))
        for name, value in facts
    ]
    notes = [element("p", note, class_="note") for note in search.notes]
    empty = "No trial has ended yet." if not trials else None
    return element(
        "div",
        element("dl", listed, class_="facts"),
        element("p", empty, class_="note") if empty else None,
        notes,
    )


def tasks(search: WatchedSearch) -> Markup:
    """Return the tasks, those first in which most of the time of a call goes, and the search's."""
    known = search.tasks.largest()
    total = sum(task.share for task in known)
    several = len(known) > 1
    reported = any(task.report is not None for task in known)
    rows = [_task(task, total, several, reported) for task in known[:_MOST_TASKS]]
    heading = list(_task(known[0], total, several, reported)) if known else ["task"]
    shown = table(
        heading,
        [list(row.values()) for row in rows],
        caption="Tasks, most expensive first",
        numbers=[k for k, name in enumerate(heading) if name not in _TEXTS],
    )
    more = len(known) - len(rows)
    rest = element("p", f"{more:,} further tasks take less.", class_="note") if more else None
    unweighted = several and all(task.weight is None for task in known)
    note = "No file says how often a model runs each task: each counts once."
    unknown = element("p", note, class_="note") if unweighted else None
    return element("div", shown, rest, unknown, _time(search), _machines(search))


def _task(task: SearchedTask, total: float, several: bool, reported: bool) -> dict[str, Content]:
    """Return the cells of a task by their headings."""
    report = task.report
    more = ">" * (report is not None and report.at_least)
    row: dict[str, Content] = {
        "task": task.label,
        "weight": "1" if task.weight is None else f"{task.weight:g}",
    }
    if reported:
        row["unscheduled (us)"] = more + _us(task.unscheduled)
    row["first (us)"] = _us(task.first)
    row["best (us)"] = _us(task.settled)
    if reported:
        row["+- (us)"] = _us(None if report is None else report.spread)
    began, than = (task.unscheduled, "unscheduled") if reported else (task.first, "the first")
    gain = f"{more}{_factor(began / task.settled)}" if began and task.settled else ""
    row[f"times as fast as {than}"] = gain
    if reported:
        share = None if report is None else report.share
        row["of the machine"] = "" if share is None else f"{share:.0%}"
        row["bound by"] = "" if report is None else report.bound or ""
    if several:
        row["in a call (us)"] = _us(task.share or None)
        row["share of a call"] = _bar(task.share / total if total else 0.0)
    counts = {"trials": len(task.trials), "measured": task.done}
    counts |= {"stopped": task.stopped, "failed": task.failed}
    row |= {name: f"{count:,}" for name, count in counts.items()}
    row["building (s)"] = f"{task.build_secs:.1f}"
    row["measuring (s)"] = f"{task.measure_secs:.1f}"
    return row


def _time(search: WatchedSearch) -> Markup | None:
    """Return where the time of the search went."""
    if not search.trials:
        return None
    build = sum(task.build_secs for task in search.tasks.all)
    measure = sum(task.measure_secs for task in search.tasks.all)
    total = search.seconds
    parts = [
        ("measuring", measure, "on the measuring cores"),
        ("the rest", max(total - measure, 0.0), "searching, learning, and waiting for builds"),
        ("building", build, "of all building processes together, which work beside the others"),
    ]
    largest = max(total, build, 1e-9)
    rows = [(name, f"{secs:.1f}", _bar(secs / largest, False), what) for name, secs, what in parts]
    return table(
        ["stage", "seconds", "share", "what it is"],
        rows,
        caption=f"Where the {total:.1f} seconds of the search went",
        numbers=[1],
    )


def _machines(search: WatchedSearch) -> Markup | None:
    """Return what each machine did, where there were others than the one of the search."""
    done: dict[str | None, list[Trial]] = {}
    for trial in search.trials:
        done.setdefault(trial.machine, []).append(trial)
    if not set(done) - {None}:
        return None
    rows = [
        [
            machine or "the one of the search",
            f"{len(trials):,}",
            f"{sum(trial.failed for trial in trials):,}",
            f"{sum(trial.measure_secs for trial in trials):.1f}",
        ]
        for machine, trials in sorted(done.items(), key=lambda item: -len(item[1]))
    ]
    return table(
        ["machine", "trials", "failed", "measuring (s)"],
        rows,
        caption="Where trials were measured",
        numbers=[1, 2, 3],
    )


def failures(search: WatchedSearch) -> Markup:
    """Return the failed trials, those together that failed for the same reason."""
    groups = failure_groups(search.trials)
    if not groups:
        return element("p", "No trial has failed.", class_="note")
    shown = [_group(group, search, k) for k, group in enumerate(groups[:_MOST_GROUPS])]
    more = len(groups) - len(shown)
    rest = f"{more:,} further reasons are left out; each is of fewer trials." if more else None
    return element("div", shown, element("p", rest, class_="note") if rest else None)


def _group(group: Failure, search: WatchedSearch, place: int) -> Markup:
    first, count = group.trials[0], len(group.trials)
    where: dict[str, list[str]] = {}
    for trial in group.trials[:_MOST_PLACES]:
        where.setdefault(search.tasks.label(trial), []).append(str(trial.number))
    listed = "; ".join(f"{label}: {', '.join(numbers)}" for label, numbers in where.items())
    more = f", and {count - _MOST_PLACES:,} more" if count > _MOST_PLACES else ""
    spent = sum(trial.spent for trial in group.trials)
    return details(
        [
            element("b", f"{count:,} trial{'s' * (count != 1)} {_FAILED_IN[first.stage]}"),
            f": {group.reason[:_LONGEST_REASON] or 'there is no text of the error'}",
        ],
        element("p", f"Numbers of the trials in {listed}{more}"),
        element("p", f"They took {spent:.1f} s. The error of the first:"),
        element(
            "pre",
            _shortened(first.error or ""),
            tabindex=0,
            role="region",
            aria_label="error",
            class_="text",
        ),
        id_=f"failure-{place}",
    )


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST_ERROR:
        return text
    half = _LONGEST_ERROR // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} letters ...\n{text[-half:]}"


def next_steps(search: WatchedSearch, found: Mapping[int, ShownWinner]) -> Markup:
    """Return what to try next for the largest tasks, each with the figures that speak for it."""
    named = {search.tasks.all[number].label: shown for number, shown in found.items()}
    steps = steps_of(search.tasks.largest(_MOST_ADVISED), named)
    if not steps:
        return element("p", "Nothing stands out.", class_="note")
    return table(["task", "try", "because"], steps, caption="What the trials speak for")


def winners(search: WatchedSearch, found: Mapping[int, ShownWinner]) -> Markup:
    """Return for each winner its program beside the original one, its trace and explanation."""
    if not found:
        why = (
            "There is no database with the programs in the directory, or no trial was measured."
            if search.trials
            else "Nothing was measured yet."
        )
        return element("p", why, class_="note")
    parts = [
        _winner(number, search.tasks.all[number], shown.winner) for number, shown in found.items()
    ]
    left = sum(task.best is not None for task in search.tasks.all) - len(found)
    rest = (
        f"The other {left:,} tasks take less of a call; tensorir report --task NAME shows them."
        if left > 0
        else None
    )
    return element("div", parts, element("p", rest, class_="note") if rest else None)


def _winner(number: int, task: SearchedTask, winner: Winner) -> Markup:
    times = f"the median of {winner.measurements} times" if winner.measurements > 1 else "one time"
    explained: Content = [
        [
            element("h4", title),
            [
                table(
                    one.headings,
                    one.rows,
                    caption=f"{one.headings[0]}s",
                    numbers=[k for k, name in enumerate(one.headings) if name in one.numbers],
                )
                for one in tables
            ],
        ]
        for title, tables in winner.explanation
    ]
    if winner.why_unexplained:
        why = f"The program cannot be explained: {winner.why_unexplained}"
        explained = element("p", why, class_="note")
    return element(
        "article",
        element("h3", task.label),
        element("p", f"{time_text(winner.seconds)} per call, {times}, on {task.target}."),
        side_by_side(
            winner.original, winner.program, ("the program as given", "the fastest schedule of it")
        ),
        details("Trace: the calls that make one from the other", program(winner.trace, "trace")),
        details("Explanation: what became of loops, accumulators and accesses", explained),
        data_task=number,
    )


def decisions(search: WatchedSearch, found: Mapping[int, ShownWinner]) -> Markup:
    """Return for each winner's design space how much each decision explains of the times."""
    parts = []
    for number, shown in found.items():
        rows = [curve.cells() for curve in shown.curves]
        if rows:
            parts.append(
                element(
                    "article",
                    table(
                        ["decision", *HEADINGS],
                        rows,
                        caption=f"What matters in {search.tasks.all[number].label}: how much of "
                        "the variance of log(time) a decision explains, with an interval of 95 %",
                        numbers=[1],
                    ),
                    data_task=number,
                )
            )
    return element("div", parts)


# ---------------------------------------------------------------------------------- numbers as text


def _span(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    if hours >= 2:
        return f"{hours:.1f} hours"
    return f"{minutes:.1f} minutes" if minutes >= 2 else f"{seconds:.1f} seconds"


def _us(seconds: float | None) -> str:
    return (
        ""
        if seconds is None
        else f"{seconds * 1e6:,.4g}"
        if seconds < 1e-2
        else f"{seconds * 1e6:,.0f}"
    )


def _factor(factor: float) -> str:
    return f"{factor:.3g}" if factor < 1000 else f"{factor:,.0f}"


def _bar(share: float, said: bool = True) -> Markup:
    text = f"{share:.1%}" if said else None
    return element(
        "span",
        element("span", class_="bar", style=f"width:{100 * share:.1f}%"),
        text,
        class_="share",
    )


def _width(value: str) -> str | None:
    return "broad" if len(value) > 30 else None


def _gain(tasks: Sequence[SearchedTask]) -> tuple[str, str] | None:
    """Return what tasks with a time are faster than, by weight, and how many times; None of none.

    It is the unscheduled programs, where all were measured, else the first schedules.
    """
    known = [task for task in tasks if task.settled is not None and task.first is not None]
    now = sum(task.share for task in known)
    if not now:
        return None
    s = "s" * (len(tasks) > 1)
    if all(task.unscheduled for task in known):
        more = "more than " * any(task.report and task.report.at_least for task in known)
        began = sum((task.unscheduled or 0.0) * task.times for task in known)
        return f"against the unscheduled program{s}", f"{more}{_factor(began / now)} times as fast"
    began = sum((task.first or 0.0) * task.times for task in known)
    return f"against the first schedule{s}", f"{_factor(began / now)} times as fast"
