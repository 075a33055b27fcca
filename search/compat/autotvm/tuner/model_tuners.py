"""Tuners that use the strategy and the cost model of the search."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Sequence
from typing import Final

from codegen import Target
from schedule.random_state import RandomState
from search.arg_info import ArgInfo
from search.compat.autotvm.errors import InstantiationError, TemplateError
from search.compat.autotvm.feature import ConfigFeatures
from search.compat.autotvm.measure import MeasureInput, MeasureResult, Record
from search.compat.autotvm.task import Task
from search.compat.autotvm.template_space import TemplateSpace
from search.compat.autotvm.tuner.tuner import Tuner
from search.cost_model import CostModel, RandomModel, XGBConfig, XGBModel
from search.database import Database, MemoryDatabase, TuningRecord
from search.database.record_files import MeasureErrorNo
from search.database.records import FAILED
from search.search_strategy import EvolutionarySearch, SearchStrategy
from search.space_generator.space_generator import SpaceArg
from search.task import normalize_mod, with_num_cores

logger = logging.getLogger("autotvm")

_PLAN: Final = 8
_LEAST_PLAN: Final = 4
_PLANS: Final = 16
"""The minimum number of batches in which a whole space is measured."""
_RANDOM: Final = 0.01
"""The fraction of a batch that is random, as in AutoTVM; five times that in the first batch."""


class EvolutionTuner(Tuner):
    """Searches a template as `tune_tir` searches a design space.

    The knobs are decisions of a trace. So the cost model describes the loop nests of programs by
    `nest-feature`, estimates times before anything was measured, scores thousands of points a
    second without replaying them, and estimates its uncertainty, which weighs in the choice of a
    batch. Two configurations with the same program are measured once; the search ends when it finds
    no new program.

    `cost_model` and `strategy` are those of the search or their short names. The model is trained
    after at most `plan_size` measurements. `update` adds records of a log to the database that
    seeds the search, `load_history` adds records of other templates.
    """

    def __init__(
        self,
        task: Task,
        cost_model: str | CostModel | None = None,
        strategy: str | SearchStrategy = "evolutionary",
        plan_size: int = _PLAN,
        *,
        seed: int | None = None,
    ) -> None:
        super().__init__(task, seed=seed)
        if plan_size < 1:
            raise TemplateError(f"plan_size is {plan_size}; expected at least 1")
        if cost_model is None:
            cost_model = XGBModel(extractor=ConfigFeatures(task))
        self.cost_model = CostModel.create(cost_model)
        self.plan_size = plan_size
        self.database: Database = MemoryDatabase()
        self._strategy = SearchStrategy.create(strategy)
        self._target = with_num_cores(task.target or Target())

    def strategy(self) -> tuple[SpaceArg, SearchStrategy]:
        """Return the template as a design space, and the strategy."""
        return TemplateSpace(self.task), self._strategy

    def note_trial(self, inp: MeasureInput, result: MeasureResult) -> None:
        """Mark a trial as visited; the search itself has stored it and learns from it."""
        super().update([inp], [result])

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Add measurements of a log to the database that seeds the search."""
        super().update(inputs, results)
        for inp, result in zip(inputs, results, strict=True):
            # Values that the space no longer offers would be passed on to other configurations.
            if inp.task != self.task or self.index_of(inp) is not None:
                store(self.database, inp, result, self._target)

    def load_history(self, data_set: Iterable[Record], min_seed_records: int = 1) -> None:
        """Train the model on records of other tasks; call it before `tune`.

        Fewer than `min_seed_records` are ignored, with a warning.
        """
        usable = [record for record in data_set if record[0].task.known_space is not None]
        if len(usable) >= min_seed_records:
            self.update([inp for inp, _ in usable], [result for _, result in usable])
        else:
            logger.warning(
                "The history has %d usable records, fewer than %d: it is ignored",
                *(len(usable), min_seed_records),
            )


class XGBTuner(EvolutionTuner):
    """Measures the configurations that boosted trees expect to be fastest.

    `feature_type` is `nest` (the loops of a program, and the knobs), `per_store` (each store of a
    program, and the knobs) or `knob` (the knobs alone); `nest` replaces AutoTVM's `itervar` and
    `curve`. `loss_type` is `rank`: the model learns which of two configurations is the faster one.
    `optimizer` is a strategy of the search, or its short name. `plan_size` is as for
    `EvolutionTuner`, and at most a sixteenth of the space, so that the model is trained before most
    of it is measured. Training uses `num_threads`, 1 by default, and logs the loss every
    `log_interval` rounds (0: never).
    """

    def __init__(
        self,
        task: Task,
        plan_size: int = 64,
        feature_type: str = "nest",
        loss_type: str = "rank",
        num_threads: int | None = None,
        optimizer: str | SearchStrategy = "evolutionary",
        log_interval: int = 50,
        *,
        seed: int | None = None,
    ) -> None:
        if loss_type != "rank":
            raise TemplateError(
                f"unknown loss_type {loss_type!r}; expected 'rank', the only loss of the model of "
                "the search"
            )
        if optimizer == "sa":
            raise TemplateError(
                "optimizer is 'sa', simulated annealing, which is not supported; expected "
                "'evolutionary' or another strategy of the search"
            )
        if optimizer == "evolutionary":
            optimizer = EvolutionarySearch(eps_greedy=_RANDOM)
        rng = RandomState(-1 if seed is None else seed)
        model = XGBModel(
            extractor=ConfigFeatures(task, feature_type),
            config=XGBConfig(seed=rng.fork(), nthread=num_threads or 1),
            verbose_eval=log_interval or sys.maxsize,
        )
        super().__init__(task, model, optimizer, plan_size, seed=rng.fork())
        self.plan_size = min(plan_size, max(_LEAST_PLAN, len(self.space) // _PLANS))


class GATuner(EvolutionTuner):
    """Breeds generations of `pop_size` configurations from the fastest ones, without a model.

    Half of a generation are mutations, more often of the fastest; the other half is random.
    """

    def __init__(self, task: Task, pop_size: int = 100, *, seed: int | None = None) -> None:
        strategy = EvolutionarySearch(first_batch=pop_size)
        super().__init__(task, RandomModel(seed=seed), strategy, pop_size, seed=seed)


def store(database: Database, inp: MeasureInput, result: MeasureResult, target: Target) -> None:
    """Store a measurement in a database of the search, as one for `target`.

    A configuration that its template refuses has no trace, and is skipped.
    """
    try:
        sch = inp.task.instantiate(inp.config)
    except InstantiationError:
        return
    succeeded = result.error_no == MeasureErrorNo.NO_ERROR
    database.commit_tuning_record(
        TuningRecord(
            sch.trace,
            database.commit_workload(normalize_mod(sch.initial_mod)),
            tuple(map(float, result.costs)) if succeeded else (FAILED,),
            target,
            ArgInfo.from_entry_func(sch.mod),
        )
    )
