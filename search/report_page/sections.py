"""The parts of the page that are text and tables, from what a search has written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from search.report_page.failure_groups import FailureGroup, failure_groups
from search.report_page.markup import Content, Markup, details, element, table
from search.report_page.program_text import program, side_by_side
from search.report_page.searched_tasks import SearchedTask
from search.report_page.watched_search import WatchedSearch
from search.report_page.winners import ShownWinner, Winner
from search.trials.cost_curve import CostCurve
from search.trials.log_format import utc

_MOST_TASKS: Final = 1000
_MOST_GROUPS: Final = 100
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
        best = "none yet" if task.best is None else duration(task.best)
        facts.insert(0, ("best time", best))
        if task.gain is not None:
            facts.insert(1, ("against the first schedule", f"{_factor(task.gain)} times as fast"))
    else:
        facts.insert(0, ("tasks", f"{len(tasks):,}"))
        began, now = _call(tasks)
        if began and now:
            facts.insert(0, ("a call of all tasks", duration(now)))
            facts.insert(
                1, ("against the first schedules", f"{_factor(began / now)} times as fast")
            )
    if trials:
        facts += [("from", utc(search.start)), ("for", _span(search.seconds))]
    facts += [("state", "unfinished" if search.is_unfinished else "finished")]
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
    heading = ["task", "weight", "first (us)", "best (us)", "times as fast"]
    heading += ["in a call (us)", "share of a call"] * several
    heading += ["trials", "measured", "stopped", "failed", "building (s)", "measuring (s)"]
    rows = [_task(task, total, several) for task in known[:_MOST_TASKS]]
    shown = table(
        heading,
        rows,
        caption="Tasks, those first in which most of the time of a call goes",
        numbers=[k for k in range(1, len(heading)) if heading[k] != "share of a call"],
    )
    more = len(known) - len(rows)
    rest = element("p", f"{more:,} further tasks take less.", class_="note") if more else None
    unweighted = several and all(task.weight is None for task in known)
    note = "No file says how often a model runs each task: each counts once."
    return element(
        "div", shown, rest, element("p", note, class_="note") if unweighted else None, _time(search)
    )


def _task(task: SearchedTask, total: float, several: bool) -> list[Content]:
    row: list[Content] = [
        task.label,
        "1" if task.weight is None else f"{task.weight:g}",
        _us(task.first),
        _us(task.best),
        "" if task.gain is None else _factor(task.gain),
    ]
    if several:
        row += [_us(task.share or None), _bar(task.share / total if total else 0.0)]
    counts = (len(task.trials), task.done, task.stopped, task.failed)
    row += [f"{count:,}" for count in counts]
    return [*row, f"{task.build_secs:.1f}", f"{task.measure_secs:.1f}"]


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
        ["stage", "seconds", "", "what it is"],
        rows,
        caption=f"Where the {total:.1f} seconds of the search went",
        numbers=[1],
    )


def failures(search: WatchedSearch) -> Markup:
    """Return the failed trials, those together that failed for the same reason."""
    pairs = zip(search.tasks.places, search.trials, strict=True)
    groups = failure_groups(pairs)
    if not groups:
        return element("p", "No trial has failed.", class_="note")
    shown = [_group(group, search, k) for k, group in enumerate(groups[:_MOST_GROUPS])]
    more = len(groups) - len(shown)
    rest = f"{more:,} further reasons are left out; each is of fewer trials." if more else None
    return element("div", shown, element("p", rest, class_="note") if rest else None)


def _group(group: FailureGroup, search: WatchedSearch, place: int) -> Markup:
    trials = f"{group.count:,} trial{'s' * (group.count != 1)}"
    where: dict[str, list[str]] = {}
    for task, number in group.places:
        where.setdefault(search.tasks.all[task].label, []).append(str(number))
    listed = "; ".join(f"{label}: {', '.join(numbers)}" for label, numbers in where.items())
    more = group.count - len(group.places)
    return details(
        [
            element("b", f"{trials} {_FAILED_IN[group.stage]}"),
            f": {group.title[:300]}",
        ],
        element("p", f"Numbers of the trials in {listed}", f", and {more:,} more" if more else ""),
        element("p", f"They took {group.seconds:.1f} s. The error of the first:"),
        element("pre", group.example, tabindex=0, role="region", aria_label="error", class_="text"),
        id_=f"failure-{place}",
    )


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
        element("p", f"{duration(winner.seconds)} per call, {times}, on {task.target}."),
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
        rows = [_curve(curve) for curve in shown.curves]
        if rows:
            parts.append(
                element(
                    "article",
                    table(
                        ["decision", "values", "explains", "best at", "drops most", "rises most"],
                        rows,
                        caption=f"What matters in {search.tasks.all[number].label}: the share of "
                        "the differences of (the logarithms of) times that a decision explains",
                        numbers=[1, 2],
                    ),
                    data_task=number,
                )
            )
    return element("div", parts)


def _curve(curve: CostCurve) -> list[Content]:
    return [
        curve.column,
        str(len(curve.values)),
        "" if curve.explained is None else f"{curve.explained:.0%}",
        str(curve.values[curve.best.index(min(curve.best))]),
        str(curve.turning_point() or ""),
        str(curve.turning_point(rise=True) or ""),
    ]


# ---------------------------------------------------------------------------------- numbers as text


def duration(seconds: float) -> str:
    """Return seconds in the unit in which they are at least 1."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds * 1e9:.4g} ns"


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


def _call(tasks: Iterable[SearchedTask]) -> tuple[float, float]:
    """Return the seconds of all tasks at their first and at their best schedules.

    A task without a time is in neither.
    """
    began = now = 0.0
    for task in tasks:
        if task.first is not None and task.best is not None:
            weight = 1.0 if task.weight is None else task.weight
            began += weight * task.first
            now += weight * task.best
    return began, now
