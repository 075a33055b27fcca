"""A schedule for a program of which nothing is known: the most promising of a random sample."""

from __future__ import annotations

import logging
import math
import os
import tempfile
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codegen.history import without_history
from search.arg_info import ArgInfo
from search.builder import Builder, BuilderInput
from search.context import TuneContext
from search.cost_model.cost_model import CostModel
from search.cost_model.saved_model import OutdatedModelError
from search.cost_model.xgb_model import XGBModel
from search.database.memory_database import MemoryDatabase
from search.database.records import TuningRecord, Workload
from search.errors import TuningError
from search.runner import Runner
from search.search_strategy.evolutionary_search import EvolutionarySearch
from search.tune_config import TuneConfig
from search.tuning_run import TuningRun

if TYPE_CHECKING:
    from codegen import Target
    from tensorir.function import IRModule

logger = logging.getLogger("tensorir.search")

_MOST_BUILDS: Final = 8
"""The most programs that are built until one succeeds."""


class Sampler(ABC):
    """Makes schedules up of programs that nothing is known of."""

    @abstractmethod
    def sample(self, mod: IRModule, target: Target, task_name: str = "main") -> TuningRecord | None:
        """Return a record of a schedule of a module of one function, None if there is none.

        It has times only if it was measured.
        """


@dataclass(frozen=True)
class SampleOnMiss(Sampler):
    """Makes up a schedule of a program that no record is known of.

    This is the first batch of an `EvolutionarySearch`, without evolution: `population` points of
    the design spaces of the program are drawn, a cost model orders them, and a few are taken at
    random (`eps_greedy=eps`). With `num_measure` above 0 so many of the best are measured, and the
    fastest is taken; else the first that can be built.

    `cost_model` is a model, or the path of a saved `XGBModel`; without one it is an `XGBModel` that
    has seen nothing, whose scores are estimates. One that is given learns from what is measured.
    The same `seed` draws the same programs.
    """

    cost_model: CostModel | str | os.PathLike[str] | None = None
    num_measure: int = -1
    population: int = 64
    eps: float = 0.01
    seed: int = 1
    builder: str | Builder = "local"
    runner: str | Runner = "local"

    def __post_init__(self) -> None:
        if self.population < 1:
            raise TuningError(f"population is at least 1, got {self.population}")
        if not 0 <= self.eps <= 1:
            raise TuningError(f"eps lies between 0 and 1, got {self.eps}")

    def sample(self, mod: IRModule, target: Target, task_name: str = "main") -> TuningRecord | None:
        """Return a record of the program that was chosen; None if none could be built or measured.

        None, too, for a program whose arguments cannot be made up: one with symbolic shapes or with
        parameters that are numbers.
        """
        try:
            ArgInfo.from_entry_func(mod)
        except TuningError as error:
            logger.info('Function "%s" is not sampled: %s', task_name, error)
            return None
        count = self.num_measure if self.num_measure > 0 else min(_MOST_BUILDS, self.population)
        context = TuneContext(
            mod,
            target=target,
            space_generator="post-order-apply",
            search_strategy=EvolutionarySearch(
                population_size=self.population,
                init_measured_ratio=0,
                init_min_unmeasured=self.population,
                genetic_num_iters=0,
                eps_greedy=self.eps,
                first_batch=count,
            ),
            task_name=task_name,
            rand_state=self.seed,
        )
        with without_history():
            return self._measured(context) if self.num_measure > 0 else self._built(context, count)

    def _built(self, context: TuneContext, count: int) -> TuningRecord | None:
        """Return a record of the most promising program that can be built."""
        assert context.target is not None
        assert context.mod is not None
        context.pre_tuning(count, count, cost_model=self._model())
        candidates = context.generate_measure_candidates() or []
        context.post_tuning()
        scores = [-math.inf if c.predicted is None else c.predicted for c in candidates]
        builder = Builder.create(self.builder)
        try:
            for place in sorted(range(len(scores)), key=lambda k: -scores[k]):
                chosen = candidates[place]
                (built,) = builder.build([BuilderInput(chosen.mod, context.target)])
                if built.artifact_path is not None:
                    builder.remove_artifact(built.artifact_path)
                    return TuningRecord(
                        chosen.sch.trace,
                        Workload(context.mod),
                        target=context.target,
                        args_info=chosen.args_info,
                    )
        finally:
            if builder is not self.builder:
                builder.close()
        return None

    def _measured(self, context: TuneContext) -> TuningRecord | None:
        """Return the record of the fastest of the most promising programs."""
        assert context.mod is not None
        database = MemoryDatabase()
        with (
            tempfile.TemporaryDirectory(prefix="sample_") as folder,
            TuningRun.open(
                [context],
                [1.0],
                folder,
                TuneConfig(self.num_measure, self.num_measure),
                builder=self.builder,
                runner=self.runner,
                database=database,
                cost_model=self._model(),
            ) as run,
        ):
            try:
                run.tune()
            except TuningError as error:
                logger.warning("Sampling ended early: %s", error)
        return database.query_tuning_record(context.mod, context.target)

    def _model(self) -> CostModel:
        if isinstance(self.cost_model, CostModel):
            return self.cost_model
        model = XGBModel()
        if self.cost_model is not None:
            try:
                model.load(self.cost_model)
            except OutdatedModelError as error:
                logger.warning("Sampling orders candidates by estimates: %s", error)
        return model
