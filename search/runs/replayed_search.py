"""Replays of a search with other strategies or models, which use its measurements.

A replay chooses among the points that the search measured (`RecordedSpace`). So it shows how soon a
strategy finds the best of these points, and nothing about other points.
"""

from __future__ import annotations

import copy
import logging
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from codegen import Target
from schedule import Schedule
from search.context import TuneContext
from search.cost_model.cost_model import CostModel
from search.database import Database, MemoryDatabase, TuningRecord, database_at
from search.database.best_records import latest_records, usable
from search.database.keyed_database import database_in
from search.database.target_key import target_key
from search.errors import TuningError, blamed_on
from search.kinds import suggestion
from search.reports.drawing import colour, finish_axes, new_axes
from search.reports.run_directory import TRIALS, load_run
from search.reports.table import RunTable
from search.reports.trial import Trial
from search.runner import RunnerResult
from search.runner.measure_candidate import describe_candidates
from search.runs.next_batch import result_of
from search.runs.note_trial import trial_of
from search.search_strategy import SearchStrategy
from search.search_strategy.individual import trace_key
from search.space_generator.design_space import Decisions, DesignSpace
from search.space_generator.restricted_space import RecordedSpaces
from tensorir.function import IRModule
from tensorir.paths import PathLike, as_path
from tensorir.text_table import aligned, html_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GOOD: Final = 1.05
"""The factor to the best time within which a search has converged."""
_FRACTIONS: Final = (8, 4, 2, 1)
CostModelArg: TypeAlias = "str | CostModel | Callable[[], CostModel] | None"

_EMPTY_BATCHES: Final = 3
"""The batches in a row without a measured candidate after which a replay ends."""
_QUIET: Final = logging.getLogger("tensorir.search.replayed")


@dataclass(frozen=True, eq=False)
class _Recorded:
    """A task of a search, with its measurements."""

    name: str
    mod: IRModule
    target: Target | None
    spaces: RecordedSpaces
    answers: Mapping[str, RunnerResult]
    """The result of each measured trace, by `trace_key`, with the seconds that it took."""
    log: Sequence[Trial]
    """The trials of the search."""


class Replayed:
    """A search that has ended, and can be replayed with other strategies or models.

        past = search.Replayed("./tuned")
        run = past.tune(strategy="replay-trace", seed=1)     # the trials, in another order
        print(past.compare({"evolution": {}, "at random": {"strategy": "replay-trace"}}))

    Nothing is built or measured, so a replay takes only the time of the strategy. Mutation and
    crossover return the nearest measured points; other candidates, of a user-defined strategy for
    example, get no result. Failures are replayed as failures. Of several measurements of a schedule
    the last one is used.

    `database` is the database of the search, or its location, if it is not a file in `work_dir`.
    Raises DatabaseError or TuningError if nothing was measured there.
    """

    def __init__(self, work_dir: PathLike, database: PathLike | Database | None = None) -> None:
        self.work_dir = as_path(work_dir, "work_dir")
        given = None if database is None else database_at(database)
        known = given or database_in(self.work_dir)
        if known is None:
            raise TuningError(
                f"there is no database in {self.work_dir}: give the work_dir of a search, or its "
                "database"
            )
        has_log = (self.work_dir / TRIALS.file).exists()
        self._log: list[Trial] = load_run(self.work_dir).trials if has_log else []
        self._tasks = {task.name: task for task in _tasks(known, self._log)}
        if not self._tasks:
            raise TuningError(f"nothing was measured in {self.work_dir}")

    @property
    def tasks(self) -> list[str]:
        """The names of the tasks; equal names have the target appended."""
        return list(self._tasks)

    def num_points(self, task: str | None = None) -> int:
        """Return the number of measured schedules of a task."""
        return len(self._task(task).answers)

    def best_seconds(self, task: str | None = None) -> float:
        """Return the time of the fastest schedule of a task; TuningError if all have failed."""
        recorded = self._task(task)
        times = [r.median_secs for r in recorded.answers.values() if not r.stopped]
        found = [seconds for seconds in times if seconds is not None]
        if not found:
            raise TuningError(f'every trial of task "{recorded.name}" has failed')
        return min(found)

    def recorded(self, task: str | None = None) -> RunTable:
        """Return the trials of the original search; empty without its log."""
        return RunTable(self._task(task).log)

    def tune(
        self,
        strategy: str | SearchStrategy = "evolutionary",
        cost_model: CostModelArg = "xgb",
        *,
        task: str | None = None,
        max_trials: int | None = None,
        num_trials_per_iter: int = 64,
        seed: int = 1,
    ) -> RunTable:
        """Replay the search of a task; return the trials in the order in which they were chosen.

        `strategy` is cloned, and a given model is copied, so that each replay starts from the same
        state; a function without parameters returns a new model. `task` is optional if there is
        only one. The replay ends after `max_trials`, by default after all points. The times of
        trials (`time`) are sums of the original seconds of building and measuring. TuningError for
        an unknown task.
        """
        recorded = self._task(task)
        context = TuneContext(
            recorded.mod,
            target=recorded.target,
            space_generator=recorded.spaces.clone(),
            search_strategy=SearchStrategy.create(strategy).clone(),
            task_name=recorded.name,
            rand_state=seed,
            logger=_QUIET,
        )
        model = _model(cost_model, seed)
        most = len(recorded.answers) if max_trials is None else max_trials
        context.pre_tuning(
            most, num_trials_per_iter, context.generate_design_space(), MemoryDatabase(), model
        )
        trials: list[Trial] = []
        empty = batch = 0
        try:
            while len(trials) < most and empty < _EMPTY_BATCHES:
                candidates = context.generate_measure_candidates()
                if candidates is None:
                    break
                keyed = ((candidate, trace_key(candidate.sch.trace)) for candidate in candidates)
                known = [(candidate, key) for candidate, key in keyed if key in recorded.answers]
                known = known[: most - len(trials)]
                empty = 0 if known else empty + 1
                chosen = [candidate for candidate, _ in known]
                results = [recorded.answers[key] for _, key in known]
                context.notify_runner_results(chosen, results)
                if model is not None and chosen:
                    with blamed_on(model, lambda chosen=chosen: describe_candidates(chosen)):  # type: ignore[misc]
                        model.update(context, chosen, results)
                for candidate, result in zip(chosen, results, strict=True):
                    seconds = (trials[-1].time if trials else 0.0) + result.build_seconds
                    trials.append(
                        trial_of(
                            candidate,
                            result,
                            task=recorded.name,
                            workload="",
                            target=str(recorded.target),
                            batch=batch,
                            number=len(trials),
                            time=seconds + result.seconds,
                        )
                    )
                batch += 1
        finally:
            context.post_tuning()
        return RunTable(trials)

    def compare(
        self,
        searches: Mapping[str, Mapping[str, Any]] | Iterable[str],
        *,
        task: str | None = None,
        seeds: int | Sequence[int] = 3,
        max_trials: int | None = None,
        num_trials_per_iter: int = 64,
    ) -> SearchComparison:
        """Replay several searches, each with several seeds, and compare their convergence.

        `searches` maps labels to arguments of `tune`, or is a list of names of strategies. `seeds`
        is a count, or the seeds.
        """
        if not isinstance(searches, Mapping):
            searches = {name: {"strategy": name} for name in searches}
        listed = range(1, seeds + 1) if isinstance(seeds, int) else seeds
        common = {"max_trials": max_trials, "num_trials_per_iter": num_trials_per_iter}
        runs = {
            label: [self.tune(**{**common, **options}, task=task, seed=seed) for seed in listed]
            for label, options in searches.items()
        }
        return SearchComparison(runs, self.best_seconds(task), self.num_points(task))

    def _task(self, name: str | None) -> _Recorded:
        if name is None and len(self._tasks) == 1:
            return next(iter(self._tasks.values()))
        if name not in self._tasks:
            raise TuningError(
                f"several tasks, pass one of them: {', '.join(self._tasks)}"
                if name is None
                else f"unknown task {name!r}; the tasks are {', '.join(self._tasks)}"
                f"{suggestion(name, self._tasks)}"
            )
        return self._tasks[name]

    def __repr__(self) -> str:
        counts = ", ".join(f"{name} ({len(t.answers)})" for name, t in self._tasks.items())
        return f"<Replayed {self.work_dir}: measured schedules of {counts}>"


def _tasks(database: Database, log: Sequence[Trial]) -> Iterable[_Recorded]:
    """Yield the programs of a database for each target, with the names of tasks in a log."""
    groups: dict[tuple[str, str], list[TuningRecord]] = {}
    for record in database.get_all_tuning_records():
        if record.target is not None and record.schedules:
            key = (database.workload_key(record.workload.mod), target_key(record.target))
            groups.setdefault(key, []).append(record)
    names = {_key_of_task(trial): trial.task for trial in log}
    taken: dict[str, int] = {}
    for key, records in groups.items():
        name = names.get(key, "main")
        taken[name] = taken.get(name, 0) + 1
        label = name if taken[name] == 1 else f"{name} on {records[0].target}"
        of_task = [trial for trial in log if _key_of_task(trial) == key]
        yield _record_task(label, records, of_task)


def _key_of_task(trial: Trial) -> tuple[str, str]:
    return trial.workload, target_key(Target(trial.target))


def _record_task(name: str, records: Sequence[TuningRecord], log: Sequence[Trial]) -> _Recorded:
    """Return a task with its records, as points of design spaces."""
    first = records[0]
    mod, target = first.workload.mod, first.target
    spaces: list[DesignSpace] = []
    made: list[Schedule] = []
    points: list[list[Decisions]] = []
    answers: dict[str, RunnerResult] = {}
    times = {trial.run_secs: (trial.build_secs, trial.measure_secs) for trial in log}
    columns = zip(*times.values(), strict=True)
    usual = tuple(map(statistics.fmean, columns)) or (0.0, 0.0)
    is_completed = False
    for record, sch in usable(latest_records(records), TuningRecord.schedule):
        among = ((k, space.decisions_of(sch.trace)) for k, space in enumerate(spaces))
        found = next(((k, point) for k, point in among if point is not None), None)
        if found is None:
            spaces.append(DesignSpace.of(sch, len(spaces), mod))
            made.append(sch)
            points.append([])
            found = len(spaces) - 1, spaces[-1].decisions
        points[found[0]].append(found[1])
        key = trace_key(sch.trace)
        building, measuring = times.get(tuple(record.run_secs or ()), usual)
        answers[key] = replace(result_of(record), build_seconds=building, seconds=measuring)
        is_completed |= sch.trace.insts[-1].kind.name != "EnterPostproc"
    spaces_of_records = RecordedSpaces(made, points, None if is_completed else [])
    return _Recorded(name, mod, target, spaces_of_records, answers, log)


def _model(given: CostModelArg, seed: int) -> CostModel | None:
    if given is None:
        return None
    if isinstance(given, CostModel):
        return copy.deepcopy(given)
    if not isinstance(given, str):
        return given()
    return CostModel.create(given, **({"seed": seed} if given == "random" else {}))


class SearchComparison:
    """The convergence of several searches of the same points.

    `runs` has for each label a table of trials for each seed; `best_seconds` is the time of the
    fastest of the `num_points` points. A printed row has the best time after an eighth, a quarter,
    half and all of the trials, relative to the fastest point (1.00 means found), and the number of
    trials until it was within 5 %; all numbers are medians of the seeds.
    """

    def __init__(
        self, runs: Mapping[str, Sequence[RunTable]], best_seconds: float, num_points: int
    ) -> None:
        self.runs = {label: list(tables) for label, tables in runs.items()}
        self.best_seconds = best_seconds
        self.num_points = num_points

    @property
    def trials(self) -> int:
        """The number of trials of the longest run."""
        return max((len(run) for runs in self.runs.values() for run in runs), default=0)

    def curves(self, label: str) -> NDArray[np.float64]:
        """Return the best time after each trial relative to the fastest point, [seeds, trials].

        1 is the fastest; infinite until a trial has succeeded. The last value of a run that ended
        early is repeated.
        """
        table = np.full((len(self.runs[label]), self.trials), math.inf)
        for row, run in zip(table, self.runs[label], strict=True):
            course = run.by_task.best_so_far
            best = [math.inf if one is None else one for one in course] or [math.inf]
            row[: len(best)] = best
            row[len(best) :] = best[-1]
        relative: NDArray[np.float64] = table / self.best_seconds
        return relative

    def trials_until(self, label: str, factor: float = _GOOD) -> list[int | None]:
        """Return for each seed the trials until the best was within a factor of the fastest point.

        None if that did not happen.
        """
        near = self.curves(label) <= factor
        return [int(row.argmax()) + 1 if row.any() else None for row in near]

    def summary(self) -> list[tuple[str, ...]]:
        """Return a heading and a row of texts for each search."""
        places = [max(1, self.trials // part) for part in _FRACTIONS]
        rows = [("search", *(f"after {count}" for count in places), "trials to within 5%")]
        for label in self.runs:
            middle = np.median(self.curves(label), axis=0)
            until = [count or math.inf for count in self.trials_until(label)]
            typical = float(np.median(until))
            rows.append(
                (
                    label,
                    *(f"{middle[count - 1]:.2f}" for count in places),
                    f"{typical:g}" if typical < math.inf else "never",
                )
            )
        return rows

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the median of the seeds after each trial, with the range of all; return the axes."""
        ax = new_axes(ax)
        for k, label in enumerate(self.runs):
            curves = self.curves(label)
            trials = np.arange(1, curves.shape[1] + 1)
            known = np.isfinite(curves).all(axis=0)
            ax.plot(trials, np.median(curves, axis=0), color=colour(k), label=label)
            ax.fill_between(
                trials[known],
                curves.min(axis=0)[known],
                curves.max(axis=0)[known],
                color=colour(k),
                alpha=0.15,
            )
        return finish_axes(ax, "trials", "best time so far / fastest point")

    def __str__(self) -> str:
        count = len(next(iter(self.runs.values()), []))
        heading = (
            f"{self.num_points} measured points, the fastest {self.best_seconds * 1e6:.4g} us; "
            f"medians of {count} seed{'s' * (count != 1)}"
        )
        return f"{heading}\n{aligned(self.summary())}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(self.summary())
