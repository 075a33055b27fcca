"""A tuner that is the search system's: its strategy, its cost model, its features."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from search.arg_info import ArgInfo
from search.autotvm.errors import InstantiationError
from search.autotvm.feature import ConfigFeatures
from search.autotvm.measure.measurement import MeasureInput, MeasureResult
from search.autotvm.template_space import TemplateSpace
from search.autotvm.tuner.tuner import Tuner
from search.context import TuneContext, normalize_mod
from search.cost_model import CostModel, XGBModel
from search.database import Database, MemoryDatabase, TuningRecord
from search.database.records import FAILED
from search.measuring.measure_candidate import MeasureCandidate
from search.records.measure_error_no import MeasureErrorNo
from search.runner import RunnerResult
from search.search_strategy.search_strategy import SearchStrategy
from search.task_scheduler.learn_from_records import learn_from_records

if TYPE_CHECKING:
    from codegen import Target
    from schedule import Schedule
    from search.autotvm.record import Record
    from search.autotvm.space.entity import ConfigEntity
    from search.autotvm.task import Task


class EvolutionTuner(Tuner):
    """Searches a template as `tune_tir` searches a design space.

    The knobs are decisions of a trace, so what is known of traces helps: the model describes
    programs by what decides how fast their loop nests run on the target (`nest-feature`), estimates
    times before anything was measured, and scores thousands of points a second without making their
    programs; it says how certain it is, and the batches weigh that. Two configurations with the
    same program are measured once.

    `cost_model` and `strategy` are those of the search or their short names. `load_history` learns
    from records of any templates.
    """

    plan_size = 8
    """The most configurations that are chosen before the model learns again."""

    def __init__(
        self,
        task: Task,
        cost_model: CostModel | None = None,
        strategy: str | SearchStrategy = "evolutionary",
        *,
        seed: int | None = None,
    ) -> None:
        super().__init__(task, seed=seed)
        self.cost_model = cost_model or XGBModel(extractor=ConfigFeatures(task))
        self.database = MemoryDatabase()
        self._context = TuneContext(
            task.mod,
            target=task.target,
            space_generator=TemplateSpace(task),
            search_strategy=strategy,
            task_name=task.name,
            rand_state=self.rng.fork(),
        )
        self._spaces: list[Schedule] | None = None
        self._planned_for: int | None = None
        """The number of trials that the search in progress was started for."""
        self._over_for: int | None = None
        """The same, if that search finds nothing new any more."""
        self._waiting: list[tuple[MeasureCandidate, ConfigEntity]] = []
        """The part of the batch of the search that was not sent off."""
        self._sent: dict[int, tuple[MeasureCandidate, ConfigEntity]] = {}
        """The other part, by the identity of the configuration."""
        self._measured: list[tuple[MeasureCandidate, RunnerResult]] = []
        """What the search was not told."""

    def has_next(self) -> bool:
        """Say whether the search finds another configuration."""
        if not self._waiting:
            self._waiting = self._generated()
        return bool(self._waiting)

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """Return the next configurations of the batch of the search."""
        self.has_next()
        taken, self._waiting = self._waiting[:batch_size], self._waiting[batch_size:]
        self._sent.update((id(config), (candidate, config)) for candidate, config in taken)
        return [config for _, config in taken]

    def _generated(self) -> list[tuple[MeasureCandidate, ConfigEntity]]:
        """Return the next batch of the search, which is told of the one before."""
        self._tell()
        trials = self.n_trial or len(self.space)
        if self._over_for == trials:
            return []
        if self._planned_for != trials:
            self._begin(trials)
        candidates = self._context.generate_measure_candidates() or []
        if not candidates:
            self._over_for = trials
        return [(one, self.task.config_of(one.sch)) for one in candidates]

    def _begin(self, trials: int) -> None:
        if self._spaces is None:
            self._spaces = self._context.generate_design_space()
        if self._planned_for is not None:
            self._context.post_tuning()
        self._planned_for = trials
        learn_from_records(self.cost_model, self.database, self._context)
        self._context.pre_tuning(
            trials, self.plan_size, self._spaces, self.database, self.cost_model
        )

    def _tell(self) -> None:
        """Tell the search and its model what the batch gave."""
        if self._measured:
            candidates, results = zip(*self._measured, strict=True)
            self._context.notify_runner_results(candidates, results)
            self.cost_model.update(self._context, candidates, results)
        self._sent, self._measured = {}, []

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Enter measurements; those of a log before `tune` seed the search."""
        super().update(inputs, results)
        for inp, result in zip(inputs, results, strict=True):
            candidate, _ = self._sent.get(id(inp.config), (None, None))
            if candidate is None:
                self._store(inp, result)
                continue
            self._measured.append((candidate, _runner_result(result)))
            commit(self.database, candidate.sch, self._context.target, result)

    def load_history(self, data_set: Iterable[Record], min_seed_records: int = 500) -> None:
        """Let the model learn from records of other tasks; it is called before `tune`.

        There is no least number of them: the model weighs what it learns itself.
        """
        for inp, result in data_set:
            if inp.task.known_space() is not None:
                self._store(inp, result)

    def _store(self, inp: MeasureInput, result: MeasureResult) -> None:
        try:
            sch = inp.task.instantiate(inp.config)
        except InstantiationError:
            return
        commit(self.database, sch, self._context.target, result)


def commit(database: Database, sch: Schedule, target: Target | None, result: MeasureResult) -> None:
    """Store the measurement of a schedule in a database of the search."""
    database.commit_tuning_record(
        TuningRecord(
            sch.trace,
            database.commit_workload(normalize_mod(sch.initial_mod)),
            tuple(map(float, result.costs)) if _succeeded(result) else (FAILED,),
            target,
            ArgInfo.from_entry_func(sch.mod),
        )
    )


def _succeeded(result: MeasureResult) -> bool:
    return result.error_no == MeasureErrorNo.NO_ERROR


def _runner_result(result: MeasureResult) -> RunnerResult:
    if _succeeded(result):
        return RunnerResult(run_secs=tuple(map(float, result.costs)))
    if result.slower_than is not None:
        return RunnerResult(run_secs=(result.slower_than,), stopped=True)
    return RunnerResult(error_msg=f"{MeasureErrorNo(result.error_no)!s}: {result.costs}")
