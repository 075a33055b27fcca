"""The model of a run for texts, plots and the page: its tasks, and the trials of each.

Trials are added one by one, so that a running search can be followed.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from search.reports.report import RunReport, TaskReport
from search.reports.trial import Stage, Trial

_NUMBERS: Final = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_FOLDERS: Final = re.compile(r"(?:/[^\s/:'\"]+)+/")
_TRACEBACK: Final = "Traceback (most recent call last)"

ProgramName: TypeAlias = tuple[str, str, str]
"""The name of a task, the key of its program, and the target."""


def program_of(of: Trial | TaskReport) -> ProgramName:
    """Return the program of a trial or a report."""
    return of.task, of.workload, of.target


@dataclass(eq=False)
class TaskTrials:
    """The trials of one program for one target under one name, with their sums."""

    number: int
    """Its number among the tasks."""
    known: TaskReport
    """The report of the last complete run; otherwise only name, target and weight."""
    is_listed: bool = False
    """True if `known` comes from a file, so its weight is not just the default."""
    trials: list[Trial] = field(default_factory=list)
    """The trials, ordered by their ends."""
    course: list[float | None] = field(default_factory=list)
    """The minimum seconds per call after each trial, None before the first measurement."""
    first: float | None = None
    """The seconds per call of the first measured trial."""
    counts: Counter[Stage] = field(default_factory=Counter)
    """The number of trials by the stage of their end."""
    build_secs: float = 0.0
    measure_secs: float = 0.0
    total_secs: float = 0.0
    """Seconds of building and measuring, in logs that have only their sum."""

    def add(self, trial: Trial) -> None:
        """Add a trial."""
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
        """The minimum seconds per call of a trial."""
        return self.course[-1] if self.course else None

    @property
    def failed(self) -> int:
        """The number of failed trials."""
        return len(self.trials) - self.counts["done"] - self.counts["stopped"]

    @property
    def report(self) -> TaskReport:
        """The report of the last complete run, updated by later trials."""
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
        """The fraction of pairs in a batch that the predictions order correctly; `right_pairs`."""
        scored = [(t.predicted, t.seconds, t.batch) for t in self.trials if t.predicted is not None]
        known = np.array([one for one in scored if one[1]], np.float64).reshape(-1, 3)
        scores, seconds, batch = known.T
        return right_pairs(scores, 1 / seconds, batch)

    @property
    def cost(self) -> float:
        """The seconds of its best schedule in a call of the model, 0 if unknown."""
        report = self.report
        return (report.best or 0.0) * report.weight


def right_pairs(
    predicted: NDArray[np.float64], speed: NDArray[np.float64], batch: NDArray[np.float64]
) -> float:
    """Return the fraction of pairs that a prediction orders correctly.

    Only pairs in one batch count, because the model learns between batches, and only pairs with
    different speeds. A pair with equal predictions counts half. NaN without pairs.
    """
    right, count = 0.0, 0
    for one in np.unique(batch):  # All pairs at once would need a matrix of all trials.
        scores, fast = predicted[batch == one], speed[batch == one]
        pairs = fast[:, None] > fast[None, :]
        order = np.sign(scores[:, None] - scores[None, :])[pairs]
        right += float(((order + 1) / 2).sum())
        count += len(order)
    return right / count if count else math.nan


class Tasks:
    """The tasks in the order of their first appearance, so a task keeps its number.

    `trials` are all trials; `places` are the numbers of their tasks, and `best_so_far` the minimum
    seconds per call of the task up to each trial, None before the first measurement.
    """

    def __init__(self, trials: Sequence[Trial] = (), reports: Iterable[TaskReport] = ()) -> None:
        self.trials: list[Trial] = []
        self.places: list[int] = []
        self.best_so_far: list[float | None] = []
        self.start = 0.0
        """The start of the first trial in seconds since 1970."""
        self._all: list[TaskTrials] = []
        self._numbers: dict[ProgramName, int] = {}
        self.add(trials)
        self.set_reports(reports)

    def add(self, trials: Sequence[Trial]) -> None:
        """Add trials in their order."""
        if trials and not self.trials:
            self.start = min(trial.time - trial.spent for trial in trials)
        for trial in trials:
            task = self.of(program_of(trial))
            task.add(trial)
            self.trials.append(trial)
            self.places.append(task.number)
            self.best_so_far.append(task.best)

    def set_reports(self, reports: Iterable[TaskReport]) -> None:
        """Set the reports of tasks; a later report of a task replaces an earlier one."""
        for one in reports:
            task = self.of(program_of(one))
            task.known, task.is_listed = one, True

    def of(self, program: ProgramName) -> TaskTrials:
        """Return the task of a program; a new task if there is none."""
        if program not in self._numbers:
            name, workload, target = program
            self._numbers[program] = len(self._all)
            known = TaskReport(name, target, workload)
            self._all.append(TaskTrials(len(self._all), known))
        return self._all[self._numbers[program]]

    @property
    def labels(self) -> list[str]:
        """The names of the tasks, with targets or numbers of programs if a name has several.

        They do not depend on the order of the tasks.
        """
        programs: dict[str, dict[str, list[str]]] = {}
        for name, workload, target in self._numbers:
            programs.setdefault(name, {}).setdefault(target, []).append(workload)
        labels = []
        for name, workload, target in self._numbers:
            on = f" on {target}" * (len(programs[name]) > 1)
            place = sorted(programs[name][target]).index(workload)
            labels.append(f"{name}{on}" + f" (program {place + 1})" * (place > 0))
        return labels

    @property
    def known(self) -> list[TaskReport]:
        """The reports of the last complete runs."""
        return [task.known for task in self]

    @property
    def report(self) -> RunReport:
        """The reports of all tasks; tasks without trials come last."""
        return RunReport([one.report for one in sorted(self, key=lambda one: not one.trials)])

    def largest(self, count: int | None = None) -> Sequence[TaskTrials]:
        """Return the tasks, most expensive first."""
        return sorted(self, key=lambda task: -task.cost)[:count]

    @property
    def seconds(self) -> float:
        """The time from the start of the first trial to the end of the last one."""
        return max((trial.time for trial in self.trials), default=self.start) - self.start

    def stages(self) -> dict[str, float]:
        """Return the seconds of each stage of the search.

        `build` is the sum of parallel processes; `search and wait` is the time without measuring.
        Logs with only the sum of both have `build and measure`.
        """
        build = sum(task.build_secs for task in self)
        measure = sum(task.measure_secs for task in self)
        both = sum(task.total_secs for task in self)
        stages = {"build and measure": both} if both else {"build": build, "measure": measure}
        return {**stages, "search and wait": max(self.seconds - (both or measure), 0.0)}

    def __getitem__(self, number: int) -> TaskTrials:
        return self._all[number]

    def __iter__(self) -> Iterator[TaskTrials]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


@dataclass(eq=False)
class Failure:
    """Failed trials with the same stage and reason, apart from numbers and directories."""

    ending: str
    """The name of the error, such as `RUN_ERROR`."""
    reason: str
    """The reason of the first trial; empty in logs without texts of errors."""
    trials: list[Trial] = field(default_factory=list)
    """The trials, ordered by their ends."""


def failures_of(trials: Iterable[Trial]) -> list[Failure]:
    """Return the failed trials by reason, most frequent first."""
    groups: dict[tuple[str, str], Failure] = {}
    for trial in trials:
        if trial.failed:
            reason = _reason(trial.error)
            key = (trial.ending, _FOLDERS.sub("", _NUMBERS.sub("#", reason)))
            groups.setdefault(key, Failure(trial.ending, reason)).trials.append(trial)
    return sorted(groups.values(), key=lambda group: -len(group.trials))


def _reason(error: str | None) -> str:
    """Return the most telling line of an error: the last of a traceback, otherwise the first."""
    lines = [line.strip() for line in (error or "").splitlines() if line.strip()]
    if not lines:
        return ""
    return lines[-1] if any(_TRACEBACK in line for line in lines) else lines[0]
