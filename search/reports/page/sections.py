"""The parts of the page that are text and tables, from what a search has written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from codegen.explanation.explain import Table
from search.reports.advice import advice
from search.reports.cost_curve import HEADINGS
from search.reports.log_format import utc
from search.reports.page.markup import Content, Markup, details, element, table
from search.reports.page.program_text import program, side_by_side
from search.reports.page.watched_search import WatchedSearch
from search.reports.page.winners import ShownWinner, Winner
from search.reports.report import RunReport
from search.reports.table import LogTable
from search.reports.tasks import Failure, TaskTrials, failures_of, program_of
from search.reports.trial import Trial
from search.runner.time_text import time_text

Found: TypeAlias = Mapping[int, ShownWinner]
"""Winners by the numbers of their tasks."""

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


def summary(search: WatchedSearch, _: Found) -> Markup:
    """Return the numbers of the search in a list."""
    trials, tasks = search.trials, search.tasks
    done, stopped = (sum(task.counts[stage] for task in tasks) for stage in ("done", "stopped"))
    failed = len(trials) - done - stopped
    told = tasks.report
    asked = search.asked
    count = f"{len(trials):,}" + (f" of {asked:,}" if asked else "")
    facts: list[tuple[str, str]] = [
        ("trials", count),
        ("measured", f"{done:,}"),
        ("stopped early", f"{stopped:,}"),
        ("failed", f"{failed:,}"),
    ]
    if len(tasks) == 1:
        best = "none yet" if told[0].best is None else time_text(told[0].best)
        facts.insert(0, ("best time", best))
    else:
        facts.insert(0, ("tasks", f"{len(tasks):,}"))
        if total := sum(task.cost for task in tasks):
            facts.insert(0, ("a call of all tasks", time_text(total)))
    if (gain := _gain(told)) is not None:
        facts.insert(1, gain)
    if trials:
        facts += [("from", utc(tasks.start)), ("for", _span(tasks.seconds))]
    unfinished = "unfinished: running, or interrupted" if search.is_unfinished else ""
    facts += [("state", unfinished or told.state or "finished")]
    facts += [("target", target) for target in dict.fromkeys(one.target for one in told)]
    listed = [
        element("div", element("dt", name), element("dd", value), class_=_width(value))
        for name, value in facts
    ]
    empty = "No trial has ended yet." * (not trials)
    return element(
        "div", element("dl", listed, class_="facts"), _note(empty), map(_note, search.notes)
    )


def tasks(search: WatchedSearch, _: Found) -> Markup:
    """Return the tasks, those first in which most of the time of a call goes, and the search's."""
    known = search.tasks.largest()
    total = sum(task.cost for task in known)
    several = len(known) > 1
    reported = any(one.unscheduled or one.rounds for one in search.tasks.report)
    rows = [_task(task, total, several, reported) for task in known[:_MOST_TASKS]]
    heading = list(_task(known[0], total, several, reported)) if known else ["task"]
    shown = table(
        heading,
        [list(row.values()) for row in rows],
        caption="Tasks, most expensive first",
        numbers=[k for k, name in enumerate(heading) if name not in _TEXTS],
    )
    more = len(known) - len(rows)
    rest = _note(f"{more:,} further tasks take less." * (more > 0))
    is_unweighted = several and not any(task.is_listed for task in known)
    unknown = "No file says how often a model runs each task: each counts once." * is_unweighted
    return element("div", shown, rest, _note(unknown), _time(search), _machines(search))


def _task(task: TaskTrials, total: float, several: bool, reported: bool) -> dict[str, Content]:
    """Return the cells of a task by their headings."""
    report = task.report
    more = ">" * report.at_least
    row: dict[str, Content] = {"task": task.label, "weight": f"{report.weight:g}"}
    if reported:
        row["unscheduled (us)"] = more + _us(report.unscheduled)
    row["first (us)"] = _us(report.first)
    row["best (us)"] = _us(report.best)
    if reported:
        row["+- (us)"] = _us(report.spread)
    began, than = (report.unscheduled, "unscheduled") if reported else (report.first, "the first")
    gain = f"{more}{_factor(began / report.best)}" if began and report.best else ""
    row[f"times as fast as {than}"] = gain
    if reported:
        row["of the machine"] = "" if report.share is None else f"{report.share:.0%}"
        row["bound by"] = report.bound or ""
    if several:
        row["in a call (us)"] = _us(task.cost or None)
        row["share of a call"] = _bar(task.cost / total if total else 0.0)
    counts = {"trials": len(task.trials), "measured": task.counts["done"]}
    counts |= {"stopped": task.counts["stopped"], "failed": task.failed}
    row |= {name: f"{count:,}" for name, count in counts.items()}
    row["building (s)"] = f"{task.build_secs:.1f}"
    row["measuring (s)"] = f"{task.measure_secs:.1f}"
    return row


def _time(search: WatchedSearch) -> Markup | None:
    """Return where the time of the search went."""
    if not search.trials:
        return None
    total = search.tasks.seconds
    build, measure, rest = search.tasks.stages().values()
    parts = [
        ("measuring", measure, "on the measuring cores"),
        ("the rest", rest, "searching, learning, and waiting for builds"),
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


def failures(search: WatchedSearch, _: Found) -> Markup:
    """Return the failed trials, those together that failed for the same reason."""
    groups = failures_of(search.trials)
    if not groups:
        return _note("No trial has failed.")
    shown = [_group(group, search, k) for k, group in enumerate(groups[:_MOST_GROUPS])]
    more = len(groups) - len(shown)
    rest = f"{more:,} further reasons are left out; each is of fewer trials." * (more > 0)
    return element("div", shown, _note(rest))


def _group(group: Failure, search: WatchedSearch, place: int) -> Markup:
    first, count = group.trials[0], len(group.trials)
    where: dict[str, list[str]] = {}
    for trial in group.trials[:_MOST_PLACES]:
        where.setdefault(search.tasks.of(program_of(trial)).label, []).append(str(trial.number))
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


def next_steps(search: WatchedSearch, found: Found) -> Markup:
    """Return what to try next for the largest tasks, each with the figures that speak for it."""
    steps = [
        step._replace(task=task.label)
        for task in search.tasks.largest(_MOST_ADVISED)
        if task.trials
        for step in advice(_table(task, found.get(task.number)))
    ]
    if not steps:
        return _note("Nothing stands out.")
    return table(["task", "try", "because"], steps, caption="What the trials speak for")


def _table(task: TaskTrials, shown: ShownWinner | None) -> LogTable:
    """Return the trials of a task, with names of their decisions where its winner knows these."""
    return LogTable(task.trials, [task.known]) if shown is None else shown.table


def winners(search: WatchedSearch, found: Found) -> Markup:
    """Return for each winner its program beside the original one, its trace and explanation."""
    if not found:
        if not search.trials:
            return _note("Nothing was measured yet.")
        return _note(
            "There is no database with the programs in the directory, or no trial was measured."
        )
    parts = [_winner(number, search.tasks[number], shown.winner) for number, shown in found.items()]
    left = sum(task.best is not None for task in search.tasks) - len(found)
    rest = f"The other {left:,} tasks take less of a call; tensorir report --task NAME shows them."
    return element("div", parts, _note(rest * (left > 0)))


def _winner(number: int, task: TaskTrials, winner: Winner) -> Markup:
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
        explained = _note(f"The program cannot be explained: {winner.why_unexplained}")
    return element(
        "article",
        element("h3", task.label),
        element("p", f"{time_text(winner.seconds)} per call, {times}, on {task.known.target}."),
        side_by_side(
            winner.original, winner.program, ("the program as given", "the fastest schedule of it")
        ),
        details("Trace: the calls that make one from the other", program(winner.trace, "trace")),
        details("Explanation: what became of loops, accumulators and accesses", explained),
        data_task=number,
    )


def _explained(one: Table) -> Markup:
    numbers = [k for k, name in enumerate(one.headings) if name in one.numbers]
    return table(one.headings, one.rows, caption=f"{one.headings[0]}s", numbers=numbers)


def decisions(search: WatchedSearch, found: Found) -> Markup:
    """Return for each winner's design space how much each decision explains of the times."""
    what = "the variance of log(time) a decision explains, with an interval of 95 %"
    parts = []
    for number, shown in found.items():
        if rows := [curve.cells() for curve in shown.curves]:
            caption = f"What matters in {search.tasks[number].label}: how much of {what}"
            made = table(["decision", *HEADINGS], rows, caption=caption, numbers=[1])
            parts.append(element("article", made, data_task=number))
    return element("div", parts)


# ---------------------------------------------------------------------------------- numbers as text


def _note(text: str) -> Markup:
    return element("p", text, class_="note") if text else Markup()


def _span(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    if hours >= 2:
        return f"{hours:.1f} hours"
    return f"{minutes:.1f} minutes" if minutes >= 2 else f"{seconds:.1f} seconds"


def _us(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1e6:,.4g}" if seconds < 1e-2 else f"{seconds * 1e6:,.0f}"


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


def _gain(told: RunReport) -> tuple[str, str] | None:
    """Return what tasks with a time are faster than, by weight, and how many times; None of none.

    It is the unscheduled programs, where all were measured, else the first schedules.
    """
    known = RunReport([one for one in told if one.best is not None and one.first is not None])
    if not known.best or not known.first:
        return None
    s = "s" * (len(told) > 1)
    if known.gain is not None:
        more = "more than " * known.at_least
        return f"against the unscheduled program{s}", f"{more}{_factor(known.gain)} times as fast"
    gain = known.first / known.best
    return f"against the first schedule{s}", f"{_factor(gain)} times as fast"
