"""Searching again what a search has measured, with other strategies or models, without measuring.

What the first search did not measure is not answered: a replay chooses among the points that were
measured (`RecordedSpace`). So it says how soon a strategy finds the best of those, and nothing
about points that nobody has tried.
"""

from __future__ import annotations

import copy
import logging
import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from codegen import Target
from schedule import Schedule
from search.context import TuneContext
from search.cost_model.cost_model import CostModel
from search.database import Database, MemoryDatabase, TuningRecord, database_at
from search.database.at_place import database_in
from search.database.best_records import those_that_count, usable
from search.database.records import FAILED
from search.database.target_key import target_key
from search.errors import TuningError, blamed_on
from search.kinds import nearest
from search.reports.run_directory import TRIALS, load_run
from search.reports.table import RunTable
from search.reports.trial import Stage, Trial
from search.runner import RunnerResult
from search.runner.measure_candidate import MeasureCandidate, described
from search.runs.search_comparison import SearchComparison
from search.search_strategy import SearchStrategy
from search.search_strategy.individual import trace_key
from search.space_generator.design_space import Decisions, DesignSpace
from search.space_generator.recorded_space import RecordedSpaces

CostModelArg: TypeAlias = "str | CostModel | Callable[[], CostModel] | None"

_EMPTY_BATCHES: Final = 3
"""Batches in a row of which nothing was measured, after which a replay ends."""
_QUIET: Final = logging.getLogger("tensorir.search.replayed")


@dataclass(frozen=True, eq=False)
class _Recorded:
    """A task of the past, with what was measured of it."""

    name: str
    context: TuneContext
    answers: Mapping[str, RunnerResult]
    """The result of each trace that was measured, by `trace_key`."""
    spent: Mapping[str, tuple[float, ...]]
    """The seconds of building and measuring it."""
    log: Sequence[Trial]
    """The trials of the search."""


class Replayed:
    """A search that has ended, whose measurements answer other searches.

        past = search.Replayed("./tuned")
        run = past.tune(strategy="replay-trace", seed=1)     # the trials, in another order
        print(past.compare({"evolution": {}, "at random": {"strategy": "replay-trace"}}))

    Nothing is built or measured, so that a replay takes the time that the strategy itself takes. It
    chooses among what was measured: steps and mixes lead to the nearest of those, and a strategy
    that proposes anything else, one of one's own perhaps, gets no answer to it. Failures are
    replayed as failures. Where something was measured several times the last time counts.

    `database` is that of the search, or its place, where it is not a file in `work_dir`.
    DatabaseError or TuningError if nothing was measured there.
    """

    def __init__(
        self, work_dir: str | os.PathLike[str], database: str | Database | None = None
    ) -> None:
        self.work_dir = Path(work_dir)
        given = database_at(database) if isinstance(database, str) else database
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
        """The names of the tasks; where several are called the same, with the target."""
        return list(self._tasks)

    def num_points(self, task: str | None = None) -> int:
        """Return how many schedules of a task were measured."""
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
        """Return the trials of the search as they were made, empty without its log."""
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
        """Search a task again and return the trials in the order in which they were chosen.

        `strategy` is cloned, and a model that is given is copied, so that each replay begins with
        the same; a function without parameters returns a new model. `task` may be left out where
        there is one. The search ends after `max_trials` (by default when all points are used up).
        The times of trials (`time`) are the seconds of building and measuring that they took in the
        past, summed up. TuningError for a task that there is not.
        """
        recorded = self._task(task)
        made = SearchStrategy.create(strategy).clone()
        context = recorded.context.with_strategy(made, seed)
        context.logger = _QUIET
        model = _model(cost_model, seed)
        most = len(recorded.answers) if max_trials is None else max_trials
        context.pre_tuning(
            most, num_trials_per_iter, context.generate_design_space(), MemoryDatabase(), model
        )
        trials: list[Trial] = []
        in_vain = batch = 0
        try:
            while len(trials) < most and in_vain < _EMPTY_BATCHES:
                candidates = context.generate_measure_candidates()
                if candidates is None:
                    break
                known = [(c, key) for c in candidates if (key := _key(c)) in recorded.answers]
                known = known[: most - len(trials)]
                in_vain = 0 if known else in_vain + 1
                chosen = [candidate for candidate, _ in known]
                results = [recorded.answers[key] for _, key in known]
                context.notify_runner_results(chosen, results)
                if model is not None and chosen:
                    with blamed_on(model, lambda chosen=chosen: described(chosen)):  # type: ignore[misc]
                        model.update(context, chosen, results)
                for candidate, key in known:
                    trials.append(_trial(recorded, candidate, key, batch, trials))
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
        """Replay several searches, each with several seeds, and compare how soon they are good.

        `searches` has for each label the arguments of `tune`, or is a list of strategies by name.
        `seeds` is a count, or the seeds.
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
                f"say which task: one of {', '.join(self._tasks)}"
                if name is None
                else f"there is no task {name!r}; there are {', '.join(self._tasks)}"
                f"{nearest(name, self._tasks)}"
            )
        return self._tasks[name]

    def __repr__(self) -> str:
        counts = ", ".join(f"{name} ({len(t.answers)})" for name, t in self._tasks.items())
        return f"<Replayed {self.work_dir}: measured schedules of {counts}>"


def _tasks(database: Database, log: Sequence[Trial]) -> Iterable[_Recorded]:
    """Yield what a database knows, by program and target, under the names that a log has."""
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
        yield _recorded(label, records, of_task)


def _key_of_task(trial: Trial) -> tuple[str, str]:
    return trial.workload, target_key(Target(trial.target))


def _recorded(name: str, records: Sequence[TuningRecord], log: Sequence[Trial]) -> _Recorded:
    """Return a task with the spaces that its records are points of."""
    first = records[0]
    mod, target = first.workload.mod, first.target
    spaces: list[DesignSpace] = []
    made: list[Schedule] = []
    points: list[list[Decisions]] = []
    answers: dict[str, RunnerResult] = {}
    spent: dict[str, tuple[float, ...]] = {}
    times = {trial.run_secs: (trial.build_secs, trial.measure_secs) for trial in log}
    columns = zip(*times.values(), strict=True)
    usual = tuple(statistics.fmean(column) for column in columns) or (0.0, 0.0)
    is_completed = False
    for record, sch in usable(those_that_count(records), TuningRecord.schedule):
        among = ((k, space.decisions_of(sch.trace)) for k, space in enumerate(spaces))
        found = next(((k, point) for k, point in among if point is not None), None)
        if found is None:
            spaces.append(DesignSpace.of(sch, len(spaces), mod))
            made.append(sch)
            points.append([])
            found = len(spaces) - 1, spaces[-1].decisions
        points[found[0]].append(found[1])
        key = trace_key(sch.trace)
        answers[key] = _result(record)
        spent[key] = times.get(tuple(record.run_secs or ()), usual)
        is_completed |= sch.trace.insts[-1].kind.name != "EnterPostproc"
    context = TuneContext(
        mod,
        target=target,
        space_generator=RecordedSpaces(made, points, None if is_completed else []),
        task_name=name,
        rand_state=1,
    )
    return _Recorded(name, context, answers, spent, log)


def _result(record: TuningRecord) -> RunnerResult:
    times = tuple(seconds for seconds in record.run_secs or () if seconds != FAILED)
    if not times:
        return RunnerResult(error_msg="it failed when it was measured")
    return RunnerResult(run_secs=times, stopped=record.bound_seconds is not None)


def _model(given: CostModelArg, seed: int) -> CostModel | None:
    if given is None:
        return None
    if isinstance(given, CostModel):
        return copy.deepcopy(given)
    if not isinstance(given, str):
        return given()
    return CostModel.create(given, **({"seed": seed} if given == "random" else {}))


def _key(candidate: MeasureCandidate) -> str:
    return trace_key(candidate.sch.trace)


def _trial(
    recorded: _Recorded,
    candidate: MeasureCandidate,
    key: str,
    batch: int,
    before: Sequence[Trial],
) -> Trial:
    result = recorded.answers[key]
    build, measure = recorded.spent[key]
    stage: Stage = "stopped" if result.stopped else "run" if result.error_msg else "done"
    return Trial(
        task=recorded.name,
        workload="",
        target=str(recorded.context.target),
        batch=batch,
        number=len(before),
        stage=stage,
        error=result.error_msg,
        build_secs=build,
        measure_secs=measure,
        run_secs=result.run_secs or (),
        predicted=candidate.predicted,
        time=(before[-1].time if before else 0.0) + build + measure,
        space=candidate.space_index,
        decisions=None if candidate.decisions is None else list(candidate.decisions),
    )
