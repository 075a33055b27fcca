"""The tasks of a search with what became of their trials, each summed up once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from search.trials.report import TaskReport
from search.trials.task_list import ListedTask
from search.trials.trial import Trial


@dataclass(eq=False)
class SearchedTask:
    """A task of a search, which is a program for a target under a name."""

    label: str
    """The name, and what else tells it from the other tasks of the page."""
    name: str
    workload: str
    """The key of its program in the database."""
    target: str
    weight: float | None = None
    """How often it counts in a call of the model; None where no run has written that down."""
    trials: list[Trial] = field(default_factory=list)
    first: float | None = None
    """The seconds per call of the first trial that was measured: the default schedule, often."""
    best: float | None = None
    """The least seconds per call."""
    done: int = 0
    stopped: int = 0
    failed: int = 0
    build_secs: float = 0.0
    measure_secs: float = 0.0
    report: TaskReport | None = None
    """What the last run that came to its end reported of it."""

    def add(self, trial: Trial) -> None:
        """Count a trial."""
        self.trials.append(trial)
        self.done += trial.stage == "done"
        self.stopped += trial.stage == "stopped"
        self.failed += trial.failed
        self.build_secs += trial.build_secs
        self.measure_secs += trial.measure_secs
        if (seconds := trial.seconds) is not None:
            self.first = seconds if self.first is None else self.first
            self.best = seconds if self.best is None else min(self.best, seconds)

    @property
    def settled(self) -> float | None:
        """The seconds per call of the best schedule, as it was measured again after all trials.

        Until then it is the least that a trial has taken, which is lucky among many.
        """
        report = self.report
        if report is None or report.best is None:
            return self.best
        is_newer = bool(self.trials) and self.trials[-1].time > report.time
        return self.best if is_newer else report.best

    @property
    def share(self) -> float:
        """The seconds that it takes in a call of the model at its best; 0 if that is not known."""
        return (self.settled or 0.0) * self.times

    @property
    def times(self) -> float:
        """How often it counts in a call; once where that is not known."""
        return 1.0 if self.weight is None else self.weight

    @property
    def unscheduled(self) -> float | None:
        """The seconds per call of the program as it was given; None where it was not measured."""
        return None if self.report is None else self.report.unscheduled


class SearchedTasks:
    """The tasks in the order in which they were first seen, so that a task keeps its number.

    `places` has for each trial that was added the number of its task.
    """

    def __init__(self) -> None:
        self.all: list[SearchedTask] = []
        self.places: list[int] = []
        self._numbers: dict[tuple[str, str, str], int] = {}

    def list(self, listed: Iterable[ListedTask]) -> None:
        """Take the weights of tasks that a run has written down, and those without a trial yet."""
        for one in listed:
            self.all[self._number(one.task, one.workload, one.target)].weight = one.weight

    def report(self, reports: Iterable[TaskReport]) -> None:
        """Take what runs have reported of tasks, the last of each."""
        for one in reports:
            task = self.all[self._number(one.task, one.workload, one.target)]
            task.report = one
            task.weight = one.weight if task.weight is None else task.weight

    def label(self, trial: Trial) -> str:
        """Return the label of the task of a trial that was added."""
        return self.all[self._number(trial.task, trial.workload, trial.target)].label

    def add(self, trials: Iterable[Trial]) -> None:
        """Count trials, in their order."""
        for trial in trials:
            number = self._number(trial.task, trial.workload, trial.target)
            self.places.append(number)
            self.all[number].add(trial)

    def largest(self, count: int | None = None) -> Sequence[SearchedTask]:
        """Return those first in which most of the time of a call goes."""
        return sorted(self.all, key=lambda task: -task.share)[:count]

    def _number(self, name: str, workload: str, target: str) -> int:
        key = (name, workload, target)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.all)
            self.all.append(SearchedTask(self._label(*key), *key))
        return number

    def _label(self, name: str, workload: str, target: str) -> str:
        """Return the name; if there is such a task, with the target or with the program's key."""
        alike = [task for task in self.all if task.name == name]
        if not alike:
            return name
        if all(task.target != target for task in alike):
            return f"{name} on {target}"
        return f"{name} (program {len({task.workload for task in alike} | {workload})})"
