"""Before and after: what a search made of a task, as few lines, as a table and as plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, overload

from search.reports.roofline import Roofline
from search.reports.trial import read_fields
from search.runner.time_text import time_text
from tensorir.text_table import aligned, html_table

_LATER: Final[dict[str, Any]] = {"winner": None, "ended": ""}
"""The fields that lines of earlier versions do not have, with what they mean there."""
NOT_BEGUN: Final = "not begun"
TIME_OVER: Final = "time over"
_NO_SUCCESS: Final = "no trial has succeeded"
_NOISY: Final = 0.2
"""The share of the best time from which half of the distance between its quartiles is noise."""


@dataclass(frozen=True)
class TaskReport:
    """What a search made of one task; times are seconds per call, None where they are not known.

    `print` shows it as a few lines, a notebook as a table.
    """

    task: str
    target: str
    workload: str = ""
    """The key of the program in the database of the run."""
    weight: float = 1.0
    """How often the program counts, as in a call of a model."""
    unscheduled: float | None = None
    """The program as it was given."""
    at_least: bool = False
    """True if nobody waited for the end of the unscheduled program: it takes longer than that."""
    first: float | None = None
    """The first schedule that was measured. A search of the usual kind begins with the default one,
    which needs no measuring (`search.default_schedule`)."""
    best: float | None = None
    """The best schedule: where it was measured again at the end, the median of the rounds."""
    spread: float | None = None
    """Half of the distance between the quartiles of the rounds."""
    rounds: int = 0
    """How often the best was measured again, beside others, at the end."""
    roofline: Roofline | None = None
    trials: int = 0
    """The candidates that were built and measured, or failed, those of a run that was interrupted
    before among them."""
    failed: int = 0
    """Those of them that failed."""
    stopped: int = 0
    """Those that were ended as soon as they were certain not to be the best."""
    seconds: float | None = None
    """The seconds of wall time that the task took, up to the naming of its winner."""
    exhausted: bool = False
    """True if the search ended because it found no candidate that was not measured."""
    winner: int | None = None
    """The number of the trial that the best schedule comes from; None for the unscheduled program
    and for others that the winner was compared with, and where nothing was measured again."""
    ended: str = ""
    """What ended the search of the task: `"done"`, `"time over"`, `"not begun"`; empty if not
    known."""
    time: float = 0.0
    """When it ended, in seconds since 1970."""

    @property
    def gain(self) -> float | None:
        """How many times as fast the best is as the unscheduled program, at least."""
        return self.unscheduled / self.best if self.unscheduled and self.best else None

    @property
    def is_noisy(self) -> bool:
        """True if the rounds differ so much that the best time says little."""
        return (
            self.spread is not None and self.best is not None and self.spread > _NOISY * self.best
        )

    @property
    def share(self) -> float | None:
        """The share of what the machine can do at most that the best is; None if not known."""
        return self.roofline.share(self.best) if self.roofline and self.best else None

    @property
    def bound(self) -> str | None:
        """`"compute"` or `"memory"`, whichever limits the program on the machine, or None."""
        return self.roofline.bound if self.roofline else None

    # ------------------------------------------------------------------------------ as plain data

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain data: the fields, those of the roofline, and what follows."""
        fields = dataclasses.asdict(self)
        if self.roofline is not None:
            fields["roofline"] = {
                **dataclasses.asdict(self.roofline),
                "least_seconds": self.roofline.least_seconds,
                "bound": self.roofline.bound,
            }
        return {**fields, "gain": self.gain, "share": self.share}

    @staticmethod
    def from_json(obj: Any) -> TaskReport:
        """Return the report that `as_json` described; DatabaseError names the field at fault."""
        known = read_fields(TaskReport, obj, _names(TaskReport) - {"roofline"}, _LATER)
        roof = obj.get("roofline")
        if roof is not None:
            roof = Roofline(**read_fields(Roofline, roof, _names(Roofline)))
        return TaskReport(**known, roofline=roof)

    # ------------------------------------------------------------------------------------ as text

    def rows(self) -> list[tuple[str, str, str]]:
        """Return what, its time or number, and a remark, for each line of the text."""
        rows = []
        if self.unscheduled is not None:
            rows.append(("unscheduled", f"{self._more}{time_text(self.unscheduled)}", ""))
        if self.first is not None:
            rows.append(("first schedule", time_text(self.first), self._times_as_fast(self.first)))
        if self.best is None:
            why = "the search had no time for it" if self.ended == NOT_BEGUN else _NO_SUCCESS
            rows.append(("best", "none", why))
        else:
            rounds = "1 round" if self.rounds == 1 else f"{self.rounds} rounds"
            spread = "" if self.spread is None else f"+- {time_text(self.spread, 2)} in {rounds}"
            noise = "a busy machine: measure again when it is quiet" * self.is_noisy
            remarks = [self._times_as_fast(self.best), spread, noise]
            rows.append(("best", time_text(self.best), ", ".join(filter(None, remarks))))
        if self.roofline is not None and self.best is not None:
            rows.append(("roofline", f"{self.share:.0%}", self.roofline.in_words(self.best)))
        endings = [
            f"{count} {what}"
            for count, what in ((self.failed, "failed"), (self.stopped, "ended early as too slow"))
            if count
        ]
        if self.seconds is not None:
            endings.append(f"{self.seconds:.1f} s")
        rows.append(("trials", str(self.trials), ", ".join(endings)))
        return rows

    def in_a_sentence(self) -> str:
        """Return what a log says of the task: the best, against what there was before."""
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
        return f"{self._more}{factor_text(self.unscheduled / seconds)} times as fast as unscheduled"

    @property
    def _more(self) -> str:
        return "more than " * self.at_least

    def __str__(self) -> str:
        return f"{self.task} on {self.target}\n{aligned(self.rows(), right=())}"

    def __repr__(self) -> str:
        best = "no schedule" if self.best is None else time_text(self.best)
        gain = "" if self.gain is None else f", {factor_text(self.gain)} times as fast as unscheduled"
        return f"<TaskReport of {self.task}: {best}{gain}, {self.trials} trials>"

    def _repr_html_(self) -> str:
        return html_table([(self.task, "", self.target), *self.rows()])


class RunReport(Sequence[TaskReport]):
    """The reports of the tasks of a run or of a working directory, in their order.

    `print` shows a table, of one task its lines; `report["conv"]` is that of a task by its name.
    """

    def __init__(self, tasks: Sequence[TaskReport]) -> None:
        self.tasks = tuple(tasks)

    @property
    def unscheduled(self) -> float | None:
        """The seconds that all unscheduled programs take, by weight; None if one is not known."""
        return _sum((one.unscheduled, one.weight) for one in self)

    @property
    def first(self) -> float | None:
        """The seconds that all take with the first schedules, by weight."""
        return _sum((one.first, one.weight) for one in self)

    @property
    def best(self) -> float | None:
        """The seconds that all take with the best schedules, by weight."""
        return _sum((one.best, one.weight) for one in self)

    @property
    def trials(self) -> int:
        """The trials of all tasks."""
        return sum(one.trials for one in self)

    @property
    def failed(self) -> int:
        """The trials that failed."""
        return sum(one.failed for one in self)

    @property
    def seconds(self) -> float | None:
        """The seconds of wall time that all tasks took."""
        return _sum((one.seconds, 1.0) for one in self)

    @property
    def gain(self) -> float | None:
        """How many times as fast all are as the unscheduled programs, at least."""
        return self.unscheduled / self.best if self.unscheduled and self.best else None

    @property
    def at_least(self) -> bool:
        """True if an unscheduled program takes longer than is known."""
        return any(one.at_least for one in self)

    @property
    def state(self) -> str:
        """What ended the run before all tasks were done, empty if nothing did."""
        begun = sum(one.ended != NOT_BEGUN for one in self)
        if not any(one.ended in (TIME_OVER, NOT_BEGUN) for one in self):
            return ""
        rest = "" if begun == len(self) else f", {len(self) - begun} of {len(self)} tasks not begun"
        return f"stopped: time over{rest}"

    def in_a_sentence(self) -> str:
        """Return what a log says of all tasks together: the best, against what there was before."""
        if self.best is None:
            without = sum(one.best is None for one in self)
            return ", ".join(
                filter(None, [f"{without} of {len(self)} have no schedule", self.state])
            )
        text = f"the best take {time_text(self.best)}"
        if self.unscheduled is None:
            return text
        more = "more than " * self.at_least
        factor = factor_text(self.unscheduled / self.best)
        before = f"unscheduled they take {more}{time_text(self.unscheduled)}"
        return f"{text}; {before}, {factor} times as long"

    @overload
    def __getitem__(self, key: int | str) -> TaskReport: ...
    @overload
    def __getitem__(self, key: slice) -> RunReport: ...
    def __getitem__(self, key: int | str | slice) -> TaskReport | RunReport:
        """Return a report by place or by the name of its task; KeyError lists the names."""
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
        """Return everything as plain data: the sums by weight, and a list of tasks."""
        names = ("unscheduled", "first", "best", "trials", "failed", "seconds")
        sums = {name: getattr(self, name) for name in names}
        return {**sums, "tasks": [one.as_json() for one in self]}

    def cells(self) -> list[tuple[str, ...]]:
        """Return a heading, a row of texts for each task, and the sums of several."""
        rows = [_HEADING, *(_cells(one, one.task, f"{one.weight:g}") for one in self)]
        return [*rows, _cells(self, "all, by weight")] if len(self) > 1 else rows

    def __str__(self) -> str:
        if len(self) == 1:
            return str(self.tasks[0])
        return aligned(self.cells(), _HEADING[1:8] + _HEADING[9:-1])

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


def _names(kind: type) -> set[str]:
    return {one.name for one in dataclasses.fields(kind)}


def _cells(of: TaskReport | RunReport, name: str, weight: str = "") -> tuple[str, ...]:
    """Return the texts of a row of `_HEADING`: of a task, or of all."""
    task = of if isinstance(of, TaskReport) else TaskReport("", "")
    more = ">" * (of.at_least and of.gain is not None)
    return (
        name,
        weight,
        (">" * of.at_least if task is of else more) + _us(of.unscheduled),
        _us(of.first),
        _us(of.best),
        _us(task.spread),
        "" if of.gain is None else more + factor_text(of.gain),
        "" if task.share is None else f"{task.share:.0%}",
        task.bound or "",
        str(of.trials),
        str(of.failed),
        "" if of.seconds is None else f"{of.seconds:.1f}",
        task.ended,
    )


def _us(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1e6:.4g}" if seconds < 1e-2 else f"{seconds * 1e6:.0f}"


def factor_text(times: float) -> str:
    """Return how many times, with as many digits as mean something."""
    return f"{times:.2f}" if times < 10 else f"{times:.0f}"


def _sum(parts: Iterator[tuple[float | None, float]]) -> float | None:
    found = list(parts)
    known = [value * weight for value, weight in found if value is not None]
    return sum(known) if found and len(known) == len(found) else None
