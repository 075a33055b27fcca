"""Tuners, which choose the configurations of a task to measure.

They walk over the indices of a space (in order, at random, downhill), or they use the strategy and
the cost model of the search.
"""

from __future__ import annotations

import logging
import math
import sys
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Final

import numpy as np

from codegen import Target
from schedule.random_state import RandomState
from search.arg_info import ArgInfo
from search.compat.autotvm.config import ConfigEntity
from search.compat.autotvm.errors import InstantiationError, SpaceIndexError, TemplateError
from search.compat.autotvm.feature import ConfigFeatures
from search.compat.autotvm.measure import MeasureInput, MeasureResult, Record
from search.compat.autotvm.spaces import TemplateSpace
from search.compat.autotvm.task import Task
from search.compat.autotvm.tuning import Callback, Tuner
from search.cost_model import CostModel, RandomModel, XGBConfig, XGBModel
from search.database import Database, MemoryDatabase, TuningRecord
from search.database.record_files import MeasureErrorNo
from search.database.records import FAILED
from search.search_strategy import EvolutionarySearch, SearchStrategy
from search.space_generator.space_generator import SpaceArg
from search.task import normalize_mod, with_num_cores

__all__ = [
    "Callback",
    "DropletTuner",
    "EvolutionTuner",
    "GATuner",
    "GridSearchTuner",
    "IndexBaseTuner",
    "RandomTuner",
    "Tuner",
    "XGBTuner",
]


class _WalkingTuner(Tuner):
    """Measures the configurations of a walk through the space, each once."""

    def __init__(self, task: Task, *, seed: int | None = None) -> None:
        super().__init__(task, seed=seed)
        self._walk = self.walk()
        self._ahead: int | None = None

    @abstractmethod
    def walk(self) -> Iterator[int]:
        """Yield valid indices, visited or not."""

    def has_next(self) -> bool:
        """Return True if the walk leads to an index that was not visited."""
        while self._ahead is None or self._ahead in self.visited:
            self._ahead = next(self._walk, None)
            if self._ahead is None:
                return False
        return True

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """Return configurations that were not visited."""
        batch: list[ConfigEntity] = []
        while len(batch) < batch_size and self.has_next():
            assert self._ahead is not None
            self.visited.add(self._ahead)
            batch.append(self.space.get(self._ahead))
        return batch


class IndexBaseTuner(_WalkingTuner):
    """Measures each configuration of a window of indices once.

    `range_idx` are the first and the last index; None means all. Raises SpaceIndexError for a
    window outside of the space.
    """

    def __init__(
        self,
        task: Task,
        range_idx: tuple[int, int] | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        count = task.space.range_length
        first, last = range_idx or (0, count - 1)
        if not 0 <= first <= last < count:
            raise SpaceIndexError(
                f"range_idx is {range_idx}; expected the first and the last index, both in "
                f"[0, {count})"
            )
        self.begin_idx, self.end_idx = first, last + 1
        super().__init__(task, seed=seed)


class GridSearchTuner(IndexBaseTuner):
    """Measures the configurations of a window one after the other."""

    def walk(self) -> Iterator[int]:
        """Yield the valid indices in ascending order."""
        index: int | None = self.begin_idx - 1
        while index is not None:
            index = self.space.get_next_index(index, start=self.begin_idx, end=self.end_idx)
            if index is not None:
                yield index


class RandomTuner(IndexBaseTuner):
    """Measures the configurations of a window in random order, each once."""

    def walk(self) -> Iterator[int]:
        """Yield the valid indices, each once."""
        return self.space.random_order(self.rng, self.begin_idx, self.end_idx)


class DropletTuner(_WalkingTuner):
    """Steps from a configuration to a faster neighbour until there is none.

    A neighbour has some knobs one value higher, or the same knobs one value lower (Canesche et
    al., The Droplet Search Algorithm for Kernel Scheduling, 2024). It becomes the best if its costs
    are lower with significance `pvalue`, by Welch's test; single costs are compared directly. If no
    neighbour is better, steps get longer, up to the length of the longest knob; then the search
    ends. It needs few trials, and no model.

    `start_position` has the index of the value of each knob (None: the first configuration).
    Raises TemplateError for an invalid start.
    """

    def __init__(
        self,
        task: Task,
        start_position: Sequence[int] | None = None,
        pvalue: float = 0.05,
        *,
        seed: int | None = None,
    ) -> None:
        space = task.space
        if start_position is None:
            start_position = space.point2knob(task.first_config().index)
        try:
            space.get(space.knob2point(start_position))
        except SpaceIndexError as error:
            raise TemplateError(
                f"start_position is {list(start_position)}; expected a valid index for each knob: "
                f"{error}"
            ) from None
        self.pvalue = pvalue
        self.best_knob = list(start_position)
        """The index of the value of each knob of the best configuration so far, or of the start."""
        self._costs: Sequence[float] | None = None
        """The costs of the best configuration, None before the first measurement."""
        super().__init__(task, seed=seed)

    def walk(self) -> Iterator[int]:
        """Yield the best configuration, then its valid neighbours, nearest ones first."""
        dims = self.space.dims
        yield self.space.knob2point(self.best_knob)
        for length in range(1, max(dims, default=1)):
            for moved in product((1, 0), repeat=len(dims)):
                for step in (length, -length):
                    knob = [
                        min(max(at + step * move, 0), dim - 1)
                        for at, move, dim in zip(self.best_knob, moved, dims, strict=True)
                    ]
                    index = self.space.knob2point(knob)
                    if self.space.is_index_valid(index):
                        yield index

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Step to a configuration that is significantly faster than the best."""
        super().update(inputs, results)
        for inp, result in zip(inputs, results, strict=True):
            index = self.index_of(inp)
            succeeded = result.error_no == MeasureErrorNo.NO_ERROR
            if index is None or not succeeded:
                continue
            if is_lower(result.costs, self._costs, self.pvalue):
                self._costs = result.costs
                self.best_knob = self.space.point2knob(index)
                self._walk, self._ahead = self.walk(), None


def is_lower(costs: Sequence[float], known: Sequence[float] | None, pvalue: float) -> bool:
    """Return True if costs have a lower mean than known ones, with a significance of `pvalue`.

    The variance of a single cost is unknown: it is compared directly.
    """
    if known is None:
        return True
    gain = float(np.mean(known) - np.mean(costs))
    if gain <= 0 or min(len(costs), len(known)) < 2:
        return gain > 0
    errors = [float(np.var(each, ddof=1)) / len(each) for each in (costs, known)]
    if sum(errors) == 0:
        return True
    spread = sum(e**2 / (len(each) - 1) for e, each in zip(errors, (costs, known), strict=True))
    freedom = sum(errors) ** 2 / spread
    # Student's density is a power of a cosine of the angle whose tangent is t / sqrt(freedom).
    angles = np.linspace(0, math.pi / 2, 4096)
    density = np.cos(angles) ** (freedom - 1)
    beyond = angles >= math.atan(gain / math.sqrt(sum(errors)) / math.sqrt(freedom))
    return float(density[beyond].sum() / density.sum()) <= pvalue


logger = logging.getLogger("autotvm")

_PLAN: Final = 8
_LEAST_PLAN: Final = 4
_PLANS: Final = 16
"""The minimum number of batches for a whole space."""
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
            # Otherwise, crossovers would pass values that the space no longer offers to other
            # configurations.
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

    A configuration that its template refuses is skipped.
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
