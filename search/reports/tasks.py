"""The model of what is told about a run: its tasks, and what became of the trials of each.

Text, pictures and the page say what is here, each in its way. Trials are summed up as they are
added, so that a search which goes on is told without beginning anew.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from search.reports.report import RunReport, TaskReport
from search.reports.trial import Stage, Trial

_NUMBERS: Final = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_ELSEWHERE: Final = re.compile(r"(?:/[^\s/:'\"]+)+/")
_TRACEBACK: Final = "Traceback (most recent call last)"

ProgramName: TypeAlias = tuple[str, str, str]
"""The name of a task, the key of its program, and the target."""


def program_of(of: Trial | TaskReport) -> ProgramName:
    """Return which program a trial or a report is of."""
    return of.task, of.workload, of.target


@dataclass(eq=False)
class TaskTrials:
    """The trials of one program for a target under a name, summed up."""

    number: int
    """Its place among the tasks."""
    label: str
    """The name, and what else tells it from the tasks before it."""
    known: TaskReport
    """What the last run that came to its end reported; else its name, target and weight."""
    is_listed: bool = False
    """Whether a run wrote down `known`, so that the weight is one that somebody gave."""
    trials: list[Trial] = field(default_factory=list)
    """In the order in which they ended."""
    course: list[float | None] = field(default_factory=list)
    """After each of the trials the least seconds per call so far, None before the first."""
    first: float | None = None
    """The seconds per call of the first trial that was measured."""
    counts: Counter[Stage] = field(default_factory=Counter)
    """How many trials ended in which stage."""
    build_secs: float = 0.0
    measure_secs: float = 0.0
    total_secs: float = 0.0
    """The seconds of those whose log does not tell building from measuring."""

    def add(self, trial: Trial) -> None:
        """Count a trial."""
        seconds, best = trial.seconds, self.best
        self.trials.append(trial)
        self.counts[trial.stage] += 1
        self.build_secs += trial.build_secs
        self.measure_secs += trial.measure_secs
        self.total_secs += trial.total_secs or 0.0
        if seconds is not None:
            self.first = seconds if self.first is None else self.first
            best = seconds if best is None else min(best, seconds)
        self.course.append(best)

    @property
    def best(self) -> float | None:
        """The least seconds per call of a trial."""
        return self.course[-1] if self.course else None

    @property
    def failed(self) -> int:
        """The number of trials that failed."""
        return len(self.trials) - self.counts["done"] - self.counts["stopped"]

    @property
    def report(self) -> TaskReport:
        """Before and after: what the last run that came to its end reported.

        Where there are later trials, it says what these do not change, and a new best.
        """
        known, best = self.known, self.best
        if all(trial.time <= known.time for trial in reversed(self.trials)):
            return known
        if known.best is None or (best is not None and best < known.best):
            known = dataclasses.replace(known, best=best, spread=None, rounds=0)
        return dataclasses.replace(
            known,
            first=known.first or self.first,
            trials=len(self.trials),
            failed=self.failed,
            stopped=self.counts["stopped"],
            seconds=None,
            time=max(trial.time for trial in self.trials),
        )

    @property
    def pairs_in_order(self) -> float:
        """The share of pairs of one batch that the predictions order right, see `right_pairs`."""
        asked = [(t.predicted, t.seconds, t.batch) for t in self.trials if t.predicted is not None]
        known = np.array([one for one in asked if one[1]], np.float64).reshape(-1, 3)
        said, seconds, batch = known.T
        return right_pairs(said, 1 / seconds, batch)

    @property
    def cost(self) -> float:
        """The seconds that it takes in a call of the model at its best; 0 if that is not known."""
        report = self.report
        return (report.best or 0.0) * report.weight


def right_pairs(
    predicted: NDArray[np.float64], speed: NDArray[np.float64], batch: NDArray[np.float64]
) -> float:
    """Return the share of pairs of one batch, but different speed, that a prediction orders alike.

    A pair that is predicted the same counts half. NaN if there is no such pair. The model learns
    between batches, so that only predictions of one batch compare.
    """
    right, count = 0.0, 0
    for one in np.unique(batch):  # all pairs at once would be a matrix of all trials
        said, fast = predicted[batch == one], speed[batch == one]
        pairs = fast[:, None] > fast[None, :]
        order = np.sign(said[:, None] - said[None, :])[pairs]
        right += float(((order + 1) / 2).sum())
        count += len(order)
    return right / count if count else math.nan


class Tasks(Sequence[TaskTrials]):
    """The tasks in the order in which they were first seen, so that a task keeps its number.

    `trials` are those that were added; `places` has for each the number of its task, and
    `best_so_far` the least seconds per call of that task up to it, None before the first.
    """

    def __init__(self, trials: Sequence[Trial] = (), reports: Iterable[TaskReport] = ()) -> None:
        self.trials: list[Trial] = []
        self.places: list[int] = []
        self.best_so_far: list[float | None] = []
        self.start = 0.0
        """When the first trial began, in seconds since 1970."""
        self._all: list[TaskTrials] = []
        self._numbers: dict[ProgramName, int] = {}
        self.add(trials)
        self.know(reports)

    def add(self, trials: Sequence[Trial]) -> None:
        """Count trials, in their order."""
        if trials and not self.trials:
            self.start = min(trial.time - trial.spent for trial in trials)
        for trial in trials:
            task = self.of(program_of(trial))
            task.add(trial)
            self.trials.append(trial)
            self.places.append(task.number)
            self.best_so_far.append(task.best)

    def know(self, reports: Iterable[TaskReport]) -> None:
        """Take what runs wrote down of tasks, of which the last one holds."""
        for one in reports:
            task = self.of(program_of(one))
            task.known, task.is_listed = one, True

    def of(self, program: ProgramName) -> TaskTrials:
        """Return the task of a program, which is a new one if there is none."""
        if program not in self._numbers:
            name, workload, target = program
            self._numbers[program] = len(self._all)
            known = TaskReport(name, target, workload)
            self._all.append(TaskTrials(len(self._all), self._label(*program), known))
        return self._all[self._numbers[program]]

    def _label(self, name: str, workload: str, target: str) -> str:
        """Return the name; if there is such a task, with the target or with the program's key."""
        alike = [task.known for task in self._all if task.known.task == name]
        if not alike:
            return name
        if all(one.target != target for one in alike):
            return f"{name} on {target}"
        return f"{name} (program {len({one.workload for one in alike} | {workload})})"

    @property
    def report(self) -> RunReport:
        """Before and after, for each task; those without a trial come last."""
        return RunReport([one.report for one in sorted(self, key=lambda one: not one.trials)])

    def largest(self, count: int | None = None) -> Sequence[TaskTrials]:
        """Return those first in which most of the time of a call goes."""
        return sorted(self, key=lambda task: -task.cost)[:count]

    @property
    def seconds(self) -> float:
        """The time from the start of the first trial to the end of the last one."""
        return max((trial.time for trial in self.trials), default=self.start) - self.start

    def stages(self) -> dict[str, float]:
        """Return the seconds of each stage of the search.

        `build` adds up processes beside each other; `search and wait` is what measuring leaves.
        Logs that do not tell the two apart have `build and measure`.
        """
        build = sum(task.build_secs for task in self)
        measure = sum(task.measure_secs for task in self)
        both = sum(task.total_secs for task in self)
        stages = {"build and measure": both} if both else {"build": build, "measure": measure}
        return {**stages, "search and wait": max(self.seconds - (both or measure), 0.0)}

    @overload
    def __getitem__(self, key: int) -> TaskTrials: ...
    @overload
    def __getitem__(self, key: slice) -> Sequence[TaskTrials]: ...
    def __getitem__(self, key: int | slice) -> TaskTrials | Sequence[TaskTrials]:
        """Return tasks by their numbers."""
        return self._all[key]

    def __len__(self) -> int:
        return len(self._all)


@dataclass(eq=False)
class Failure:
    """Trials that failed in one stage for one reason, but for numbers and directories in it."""

    ending: str
    """The name of the error, such as `RUN_ERROR`."""
    reason: str
    """That of the first of them; empty in logs that have no texts of errors."""
    trials: list[Trial] = field(default_factory=list)
    """In the order in which they ended; the first is the example."""


def failures_of(trials: Iterable[Trial]) -> list[Failure]:
    """Return the groups of those of some trials that failed, the largest first."""
    groups: dict[tuple[str, str], Failure] = {}
    for trial in trials:
        if trial.failed:
            reason = reason_of(trial.error)
            key = (trial.ending, kind_of(reason))
            groups.setdefault(key, Failure(trial.ending, reason)).trials.append(trial)
    return sorted(groups.values(), key=lambda group: -len(group.trials))


def reason_of(error: str | None) -> str:
    """Return the line of an error that says most, an empty text where there is none.

    An error with a traceback says in its last line what happened, another one in its first.
    """
    lines = [line.strip() for line in (error or "").splitlines() if line.strip()]
    if not lines:
        return ""
    return lines[-1] if any(_TRACEBACK in line for line in lines) else lines[0]


def kind_of(reason: str) -> str:
    """Return a text that reasons share which differ in numbers and directories only."""
    return _ELSEWHERE.sub("", _NUMBERS.sub("#", reason))
