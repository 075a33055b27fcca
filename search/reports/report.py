"""Before and after: the report of a search on a task, as text, as a table and as plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, overload

from search.reports.roofline import Roofline
from search.reports.trial import read_fields
from search.runner.time_call import time_text
from tensorir.text_table import aligned, html_table

NOT_BEGUN: Final = "not begun"
TIME_OVER: Final = "time over"
_NO_SUCCESS: Final = "no trial has succeeded"
_NOISY: Final = 0.2
"""Half of the interquartile range is noise if it exceeds this fraction of the best time."""


@dataclass(frozen=True)
class TaskReport:
    """The result of a search on one task; times are seconds per call, None if unknown.

    `print` shows it as a few lines, a notebook as a table.
    """

    task: str
    target: str
    workload: str = ""
    """The key of the program in the database of the run."""
    weight: float = 1.0
    """The number of calls of the program in a call of the model."""
    unscheduled: float | None = None
    """The original program."""
    at_least: bool = False
    """True if the unscheduled program was stopped: it takes longer than `unscheduled`."""
    first: float | None = None
    """The first measured schedule. Most searches start with the default schedule
    (`search.default_schedule`)."""
    best: float | None = None
    """The best schedule: the median of its rounds, if it was measured again at the end."""
    spread: float | None = None
    """Half of the interquartile range of the rounds."""
    rounds: int = 0
    """The number of final measurements of the best, interleaved with other candidates."""
    roofline: Roofline | None = None
    trials: int = 0
    """The number of trials, including failed trials and trials before an interruption."""
    failed: int = 0
    """The number of failed trials."""
    stopped: int = 0
    """The number of trials that were stopped early, because they were too slow."""
    seconds: float | None = None
    """The wall time of the task in seconds, including the choice of its winner."""
    exhausted: bool = False
    """True if the search ended because it found no unmeasured candidate."""
    winner: int | None = None
    """The number of the trial with the best schedule; None if that is the unscheduled program or
    another baseline, and if nothing was measured again."""
    ended: str = ""
    """The end of the search on the task: `"done"`, `"time over"`, `"not begun"`; empty if
    unknown."""
    time: float = 0.0
    """The time of the report in seconds since 1970."""

    @property
    def gain(self) -> float | None:
        """The speed of the best relative to the unscheduled program; a minimum if `at_least`."""
        return self.unscheduled / self.best if self.unscheduled and self.best else None

    @property
    def is_noisy(self) -> bool:
        """True if the rounds differ so much that the best time is unreliable."""
        return bool(self.spread and self.best and self.spread > _NOISY * self.best)

    @property
    def share(self) -> float | None:
        """The fraction of the peak of the machine that the best reaches; None if unknown."""
        return self.roofline.share(self.best) if self.roofline and self.best else None

    @property
    def bound(self) -> str | None:
        """`"compute"` or `"memory"`, whichever limits the program on the machine, or None."""
        return self.roofline.bound if self.roofline else None

    # ------------------------------------------------------------------------------ as plain data

    def as_json(self) -> dict[str, Any]:
        """Return all fields and figures as plain data."""
        fields = dataclasses.asdict(self)
        if self.roofline is not None:
            least, bound = self.roofline.least_seconds, self.roofline.bound
            fields["roofline"] |= {"least_seconds": least, "bound": bound}
        return {**fields, "gain": self.gain, "share": self.share}

    @staticmethod
    def from_json(obj: Any) -> TaskReport:
        """Return the report that `as_json` wrote; DatabaseError names an invalid field."""
        known = read_fields(TaskReport, obj, _names(TaskReport) - {"roofline"})
        roof = obj.get("roofline")
        if roof is not None:
            roof = Roofline(**read_fields(Roofline, roof, _names(Roofline)))
        return TaskReport(**known, roofline=roof)

    # ------------------------------------------------------------------------------------ as text

    def rows(self) -> list[tuple[str, str, str]]:
        """Return a name, a time or number, and a remark for each line of the text."""
        rows = []
        if self.unscheduled is not None:
            rows.append(("unscheduled", f"{self._more}{time_text(self.unscheduled)}", ""))
        if self.first is not None:
            rows.append(("first schedule", time_text(self.first), self._times_as_fast(self.first)))
        if self.best is None:
            why = "the search had no time for it" if self.ended == NOT_BEGUN else _NO_SUCCESS
            rows.append(("best", "none", why))
        else:
            remarks = [self._times_as_fast(self.best)]
            if self.spread is not None:
                rounds = "1 round" if self.rounds == 1 else f"{self.rounds} rounds"
                remarks.append(f"+- {time_text(self.spread, 2)} in {rounds}")
            if self.is_noisy:
                remarks.append("a busy machine: measure again when it is quiet")
            rows.append(("best", time_text(self.best), ", ".join(filter(None, remarks))))
            if self.roofline is not None:
                words = self.roofline.in_words(self.best)
                rows.append(("roofline", f"{self.share:.0%}", words))
        endings = [
            f"{self.failed} failed" * bool(self.failed),
            f"{self.stopped} ended early as too slow" * bool(self.stopped),
            "" if self.seconds is None else f"{self.seconds:.1f} s",
        ]
        rows.append(("trials", str(self.trials), ", ".join(filter(None, endings))))
        return rows

    def in_a_sentence(self) -> str:
        """Return the best time and the unscheduled time in a sentence for the log."""
        if self.best is None:
            return _NO_SUCCESS
        parts = [f"the best takes {time_text(self.best)}"]
        if self.unscheduled is not None:
            before = f"unscheduled it takes {self._more}{time_text(self.unscheduled)}"
            times = f", {factor_text(self.unscheduled / self.best)} times as long"
            parts.append(before + times * (self.unscheduled > self.best))
        if self.roofline is not None:
            parts.append(f"that is {self.share:.0%} {self.roofline.in_words(self.best)}")
        return "; ".join(parts)

    def _times_as_fast(self, seconds: float) -> str:
        if self.unscheduled is None:
            return ""
        if seconds > self.unscheduled and not self.at_least:
            return f"{factor_text(seconds / self.unscheduled)} times slower than unscheduled"
        factor = factor_text(self.unscheduled / seconds)
        return f"{self._more}{factor} times as fast as unscheduled"

    @property
    def _more(self) -> str:
        return "more than " * self.at_least

    def __str__(self) -> str:
        return f"{self.task} on {self.target}\n{aligned(self.rows(), right=())}"

    def __repr__(self) -> str:
        best = "no schedule" if self.best is None else time_text(self.best)
        factor = "" if self.gain is None else f", {factor_text(self.gain)} times as fast as"
        gain = f"{factor} unscheduled" * bool(factor)
        return f"<TaskReport of {self.task}: {best}{gain}, {self.trials} trials>"

    def _repr_html_(self) -> str:
        return html_table([(self.task, "", self.target), *self.rows()])


class RunReport(Sequence[TaskReport]):
    """The reports of the tasks of a run or of a working directory.

    `print` shows a table, or the lines of a single task; `report["conv"]` is the report of a task
    by name. Times are sums in seconds by weight, None if the time of a task is unknown.
    """

    def __init__(self, tasks: Sequence[TaskReport]) -> None:
        self.tasks = tuple(tasks)
        self.unscheduled = self._by_weight("unscheduled")
        """The time of all unscheduled programs."""
        self.first = self._by_weight("first")
        """The time of all first schedules."""
        self.best = self._by_weight("best")
        """The time of all best schedules."""
        self.trials = sum(one.trials for one in self)
        self.failed = sum(one.failed for one in self)
        """The number of failed trials."""
        self.seconds = _sum(one.seconds for one in self)
        """The wall time of all tasks in seconds."""
        self.at_least = any(one.at_least for one in self)
        """True if an unscheduled program was stopped."""

    def _by_weight(self, name: str) -> float | None:
        times = ((getattr(one, name), one.weight) for one in self)
        return _sum(time and time * weight for time, weight in times)

    @property
    def gain(self) -> float | None:
        """The speed of the best relative to the unscheduled programs; a minimum if `at_least`."""
        return self.unscheduled / self.best if self.unscheduled and self.best else None

    @property
    def state(self) -> str:
        """The reason why the run ended before all tasks were done, otherwise empty."""
        begun = sum(one.ended != NOT_BEGUN for one in self)
        if not any(one.ended in (TIME_OVER, NOT_BEGUN) for one in self):
            return ""
        rest = "" if begun == len(self) else f", {len(self) - begun} of {len(self)} tasks not begun"
        return f"stopped: time over{rest}"

    def in_a_sentence(self) -> str:
        """Return the best and the unscheduled time of all tasks in a sentence for the log."""
        if self.best is None:
            without = sum(one.best is None for one in self)
            parts = [f"{without} of {len(self)} have no schedule", self.state]
            return ", ".join(filter(None, parts))
        text = f"the best take {time_text(self.best)}"
        if self.unscheduled is None:
            return text
        before = f"unscheduled they take {'more than ' * self.at_least}"
        factor = factor_text(self.unscheduled / self.best)
        return f"{text}; {before}{time_text(self.unscheduled)}, {factor} times as long"

    @overload
    def __getitem__(self, key: int | str) -> TaskReport: ...
    @overload
    def __getitem__(self, key: slice) -> RunReport: ...
    def __getitem__(self, key: int | str | slice) -> TaskReport | RunReport:
        """Return a report by index or by the name of its task; KeyError lists the names."""
        if isinstance(key, slice):
            return RunReport(self.tasks[key])
        if isinstance(key, int):
            return self.tasks[key]
        for one in self:
            if one.task == key:
                return one
        raise KeyError(f"no task is called {key!r}; there are {[one.task for one in self]}")

    def __len__(self) -> int:
        return len(self.tasks)

    def as_json(self) -> dict[str, Any]:
        """Return the sums and a list of tasks as plain data."""
        names = ("unscheduled", "first", "best", "trials", "failed", "seconds")
        sums = {name: getattr(self, name) for name in names}
        return {**sums, "tasks": [one.as_json() for one in self]}

    def cells(self) -> list[tuple[str, ...]]:
        """Return a heading, a row of texts for each task, and the sums of several tasks."""
        rows = [_HEADING, *(_cells(one, one.task, f"{one.weight:g}") for one in self)]
        return [*rows, _cells(self, "all, by weight")] if len(self) > 1 else rows

    def __str__(self) -> str:
        if len(self) == 1:
            return str(self.tasks[0])
        return aligned(self.cells(), set(_HEADING) - {"task", "bound", "ended"})

    def __repr__(self) -> str:
        return f"<RunReport of {len(self)} tasks, {self.trials} trials>\n{self}"

    def _repr_html_(self) -> str:
        return self.tasks[0]._repr_html_() if len(self) == 1 else html_table(self.cells())


_HEADING: Final = (
    "task",
    "weight",
    "unscheduled (us)",
    "first (us)",
    "best (us)",
    "+- (us)",
    "times as fast",
    "of the machine",
    "bound",
    "trials",
    "failed",
    "seconds",
    "ended",
)


def _cells(of: TaskReport | RunReport, name: str, weight: str = "") -> tuple[str, ...]:
    """Return the texts of a row of `_HEADING`, for one task or for all."""
    task = of if isinstance(of, TaskReport) else TaskReport("", "")
    more = ">" * (of.at_least and of.gain is not None)
    return (
        name,
        weight,
        (">" * of.at_least if task is of else more) + _microseconds(of.unscheduled),
        _microseconds(of.first),
        _microseconds(of.best),
        _microseconds(task.spread),
        "" if of.gain is None else more + factor_text(of.gain),
        "" if task.share is None else f"{task.share:.0%}",
        task.bound or "",
        str(of.trials),
        str(of.failed),
        "" if of.seconds is None else f"{of.seconds:.1f}",
        task.ended,
    )


def _microseconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1e6:.4g}" if seconds < 1e-2 else f"{seconds * 1e6:.0f}"


def factor_text(times: float) -> str:
    """Return a factor with its significant digits."""
    return f"{times:.2f}" if times < 10 else f"{times:.0f}"


def _names(kind: type) -> set[str]:
    return {one.name for one in dataclasses.fields(kind)}


def _sum(parts: Iterable[float | None]) -> float | None:
    """Return a sum, None if a part is unknown or there is none."""
    found = list(parts)
    known = [one for one in found if one is not None]
    return sum(known) if found and len(known) == len(found) else None
