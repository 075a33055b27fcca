"""Tuners that measure the configurations that a model expects most of."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from search.autotvm.errors import SpaceIndexError, TemplateError
from search.autotvm.tuner.diversity import submodular_pick
from search.autotvm.tuner.tuner import Tuner

if TYPE_CHECKING:
    from search.autotvm.measure.measurement import MeasureInput, MeasureResult
    from search.autotvm.record import Record
    from search.autotvm.space.entity import ConfigEntity
    from search.autotvm.task import Task
    from search.autotvm.tuner.annealing import ModelOptimizer

logger = logging.getLogger("autotvm")

_RANDOM_SHARE: Final = 0.05
_LEAST_FLOPS: Final = 1e-6
_LEAST_PLAN: Final = 4
_PLANS: Final = 16
"""The least number of plans that make up a space that is not tiny."""


class FittedModel(ABC):
    """Scores configurations of a task by what it learned from measurements of them."""

    @abstractmethod
    def fit(self, xs: Sequence[int], ys: Sequence[float], plan_size: int) -> None:
        """Learn from the indices of configurations and their operations per second."""

    @abstractmethod
    def fit_log(self, records: Iterable[Record], plan_size: int, min_seed_records: int) -> bool:
        """Learn from records of any tasks; return False where there are too few."""

    @abstractmethod
    def predict(self, xs: Sequence[int]) -> npt.NDArray[np.float64]:
        """Return a score for each index; higher is faster."""

    @abstractmethod
    def load_basemodel(self, base_model: FittedModel) -> None:
        """Start from the scores of another model, which count less the more is measured."""

    @abstractmethod
    def spawn_base_model(self) -> FittedModel:
        """Return a model that has learned nothing, to be the base of this one."""


class ModelBasedTuner(Tuner):
    """Measures random configurations, then plans of those that a model expects most of.

    After each `plan_size` measurements the model is fitted, and `model_optimizer` finds the next
    plan; the last 5 % of one are random configurations. A plan has a sixteenth of the space at
    most, so that the model is asked before most is measured. With `diversity_filter_ratio` r, 1 or
    more, the plan is chosen from r times as many for its different values of knobs.
    """

    def __init__(
        self,
        task: Task,
        cost_model: FittedModel,
        model_optimizer: ModelOptimizer,
        plan_size: int,
        diversity_filter_ratio: float | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        super().__init__(task, seed=seed)
        if diversity_filter_ratio is not None and diversity_filter_ratio < 1:
            raise TemplateError(
                f"diversity_filter_ratio is at least 1, got {diversity_filter_ratio}"
            )
        if plan_size < 1:
            raise TemplateError(f"plan_size is at least 1, got {plan_size}")
        self.cost_model = cost_model
        self.model_optimizer = model_optimizer
        self.plan_size = min(plan_size, max(_LEAST_PLAN, len(self.space) // _PLANS))
        self.diversity_filter_ratio = diversity_filter_ratio
        self.trials: list[int] = []
        self.trial_pt = 0
        self.train_ct = 0
        self.visited: set[int] = set()
        self.xs: list[int] = []
        self.ys: list[float] = []

    def has_next(self) -> bool:
        """Say whether a configuration was not visited."""
        return len(self.visited) < len(self.space)

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """Return the next of the plan, or random ones; no more than until the next fit."""
        batch: list[ConfigEntity] = []
        until_fit = self.plan_size * (self.train_ct + 1) - len(self.xs)
        wanted = min(batch_size, until_fit) if until_fit > 0 else batch_size
        while len(batch) < wanted and self.has_next():
            index = self._next_index()
            if index is None:
                break
            self.visited.add(index)
            batch.append(self.space.get(index))
        return batch

    def _next_index(self) -> int | None:
        while self.trial_pt < len(self.trials) and self.trials[self.trial_pt] in self.visited:
            self.trial_pt += 1
        if self.trial_pt < len(self.trials) - int(_RANDOM_SHARE * self.plan_size):
            return self.trials[self.trial_pt]
        self.trial_pt += 1
        try:
            return self.space.get_rand_index(to_exclude=self.visited, rng=self.rng)
        except SpaceIndexError:
            return None  # the length of the space was an estimate

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Enter measurements; fit and plan anew when there are enough."""
        for inp, result in zip(inputs, results, strict=True):
            index = self.index_of(inp)
            if index is None:
                continue
            self.xs.append(index)
            self.ys.append(self.most_flops(result))
            self.visited.add(index)
        enough = len(self.xs) >= self.plan_size * (self.train_ct + 1)
        if enough and max(self.ys) > _LEAST_FLOPS and self.has_next():
            self.cost_model.fit(self.xs, self.ys, self.plan_size)
            self._plan(self.cost_model)
            self.train_ct = len(self.xs) // self.plan_size

    def _plan(self, model: FittedModel) -> None:
        ratio = self.diversity_filter_ratio
        wanted = self.plan_size if ratio is None else int(ratio * self.plan_size)
        found = self.model_optimizer.find_maximums(model, wanted, self.visited)
        if ratio is not None:
            knobs = [self.space.point2knob(index) for index in found]
            scores = [0.0] * len(found)
            found = [found[k] for k in submodular_pick(scores, knobs, self.plan_size)]
        self.trials, self.trial_pt = found, 0

    def load_history(self, data_set: Iterable[Record], min_seed_records: int = 500) -> None:
        """Learn from records of another task; it is called before `tune`.

        Those of templates of the same name count. Fewer than `min_seed_records` are of no use,
        which the log says.
        """
        same = [record for record in data_set if record[0].task.name == self.task.name]
        base = self.cost_model.spawn_base_model()
        if not base.fit_log(same, self.plan_size, min_seed_records):
            logger.warning(
                "The history has %d usable records of %s; fewer than %d teach nothing",
                *(len(same), self.task.name, min_seed_records),
            )
            return
        self.cost_model.load_basemodel(base)
        self._plan(base)
