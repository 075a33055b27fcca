"""Samplers of schedules for programs without records: by estimates, or the best of a few runs."""

from __future__ import annotations

import logging
import os
import tempfile
from abc import ABC, abstractmethod
from dataclasses import dataclass

from codegen import Target
from codegen.history import without_history
from search.arg_info import ArgInfo
from search.builder import Builder
from search.context import TuneContext
from search.cost_model.cost_model import CostModel
from search.cost_model.measurements import OutdatedModelError
from search.cost_model.xgb_model import XGBModel
from search.database.keyed_database import MemoryDatabase
from search.database.records import TuningRecord, Workload
from search.errors import TuningError
from search.history.default_designs import default_designs
from search.loop import tune_run
from search.options import TuneConfig
from search.run import Run
from search.runner import Runner
from search.search_strategy.evolutionary_search import EvolutionarySearch
from tensorir.function import IRModule

logger = logging.getLogger("tensorir.search")


class Sampler(ABC):
    """Samples schedules of programs without records."""

    @abstractmethod
    def sample(self, mod: IRModule, target: Target, task_name: str = "main") -> TuningRecord | None:
        """Return a record of a schedule of a module of one function, or None.

        It has times only if it was measured.
        """


@dataclass(frozen=True)
class SampleOnMiss(Sampler):
    """Samples a schedule of a program without a record.

    It is the schedule of `default_schedule`: the best score of a cost model among many points of
    the design spaces. With `num_measure` above 0 this number of points is measured, most by their
    scores and some at random, and the fastest is chosen.

    `cost_model` is a model, or the path of a saved `XGBModel`; the default is an untrained
    `XGBModel`, whose scores are analytic estimates. A model that is given learns from the
    measurements. The same `seed` measures the same programs.
    """

    cost_model: CostModel | str | os.PathLike[str] | None = None
    num_measure: int = -1
    seed: int = 1
    builder: str | Builder = "local"
    runner: str | Runner = "local"

    def sample(self, mod: IRModule, target: Target, task_name: str = "main") -> TuningRecord | None:
        """Return the record of the chosen schedule; None if none could be measured.

        None, too, for a program without random arguments: one with symbolic shapes or scalar
        parameters.
        """
        try:
            arguments = ArgInfo.from_entry_func(mod)
        except TuningError as error:
            logger.info('Function "%s" is not sampled: %s', task_name, error)
            return None
        context = TuneContext(
            mod,
            target=target,
            space_generator="post-order-apply",
            search_strategy=EvolutionarySearch(first_batch=max(1, self.num_measure)),
            task_name=task_name,
            rand_state=self.seed,
        )
        if self.num_measure > 0:
            with without_history():
                return self._measure_best(context)
        for sch, _ in default_designs(context, self._model(context.known_target)):
            assert context.mod is not None
            return TuningRecord(
                sch.trace, Workload(context.mod), target=context.target, args_info=arguments
            )
        return None

    def _measure_best(self, context: TuneContext) -> TuningRecord | None:
        """Return the record of the fastest of the most promising schedules."""
        assert context.mod is not None
        database = MemoryDatabase()
        config = TuneConfig(
            self.num_measure,
            self.num_measure,
            builder=self.builder,
            runner=self.runner,
            database=database,
            cost_model=self._model(context.known_target),
        )
        with (
            tempfile.TemporaryDirectory(prefix="sample_") as folder,
            Run.open([context], [1.0], folder, config) as run,
        ):
            try:
                tune_run(run)
            except TuningError as error:
                logger.warning("Sampling ended early: %s", error)
        return database.query_tuning_record(context.mod, context.target)

    def _model(self, target: Target) -> CostModel:
        if isinstance(self.cost_model, CostModel):
            return self.cost_model
        model = XGBModel.of(target)
        if self.cost_model is not None:
            try:
                model.load(self.cost_model)
            except OutdatedModelError as error:
                logger.warning("Sampling orders candidates by estimates: %s", error)
        return model
