"""AutoTVM's names for tuners that measure what a model expects most of."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from schedule.random_state import RandomState
from search.autotvm.errors import SpaceIndexError, TemplateError
from search.autotvm.feature import ConfigFeatures
from search.autotvm.tuner.evolution_tuner import EvolutionTuner
from search.cost_model import XGBConfig, XGBModel
from search.search_strategy import EvolutionarySearch, SearchStrategy

if TYPE_CHECKING:
    from search.autotvm.record import Record
    from search.autotvm.space.entity import ConfigEntity
    from search.autotvm.task import Task
    from search.cost_model import CostModel

logger = logging.getLogger("autotvm")

_LEAST_PLAN: Final = 4
_PLANS: Final = 16
"""The least number of plans that make up a space that is not tiny."""
_RANDOM: Final = 0.01
"""The share of a batch that is random; it is five times that in the first one, as in AutoTVM's."""
_PLAN: Final = 8
_LOSSES: Final = ("reg", "rank", "rank-binary")


class ModelBasedTuner(EvolutionTuner):
    """Searches as `EvolutionTuner` does, then measures at random what that has left out.

    `cost_model` is one of the search, and `model_optimizer` the strategy that finds what it expects
    most of. The model is trained again after `plan_size` measurements, at the latest after a
    sixteenth of the space, so that it is asked before most is measured.
    `diversity_filter_ratio`, 1 or more, has no effect: of what the model takes for alike, a batch
    has one in any case.
    """

    def __init__(
        self,
        task: Task,
        cost_model: CostModel,
        model_optimizer: str | SearchStrategy,
        plan_size: int,
        diversity_filter_ratio: float | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        if diversity_filter_ratio is not None and diversity_filter_ratio < 1:
            raise TemplateError(
                f"diversity_filter_ratio is at least 1, got {diversity_filter_ratio}"
            )
        if plan_size < 1:
            raise TemplateError(f"plan_size is at least 1, got {plan_size}")
        super().__init__(task, cost_model, model_optimizer, seed=seed)
        self.plan_size = min(plan_size, max(_LEAST_PLAN, len(self.space) // _PLANS))

    def has_next(self) -> bool:
        """Say whether a configuration was not visited."""
        return super().has_next() or len(self.visited) < len(self.space)

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """Return the next configurations of the search, or random ones when there are no more."""
        # A parent from a log may have values that the space does not offer any more: index -1.
        found = super().next_batch(batch_size)
        batch = [one for one in found if one.index >= 0 and one.index not in self.visited]
        if not batch and len(self.visited) < len(self.space):
            # The length of the space may be an estimate.
            with contextlib.suppress(SpaceIndexError):
                index = self.space.get_rand_index(to_exclude=self.visited, rng=self.rng)
                batch = [self.space.get(index)]
        self.visited.update(config.index for config in batch)
        return batch

    def load_history(self, data_set: Iterable[Record], min_seed_records: int = 500) -> None:
        """Learn from records of another task; it is called before `tune`.

        Those of templates of the same name count. Fewer than `min_seed_records` are of no use,
        which the log says.
        """
        same = [record for record in data_set if record[0].task.name == self.task.name]
        if len(same) < max(1, min_seed_records):
            logger.warning(
                "The history has %d usable records of %s; fewer than %d teach nothing",
                *(len(same), self.task.name, min_seed_records),
            )
            return
        super().load_history(same)


class XGBTuner(ModelBasedTuner):
    """Measures what trees, fitted to the measurements so far, expect most of.

    `feature_type`: `itervar`, `curve` and `nest` see the loops of the program as the search does
    (`NestFeature`), `per_store` each store of it (`PerStoreFeature`), `knob` the values of the
    knobs alone (for one task only), which the others see too; see `ConfigFeatures`.
    `loss_type`, `reg`, `rank` or `rank-binary`, has no effect: the trees learn which of two is
    faster (`XGBModel`), which is what choosing takes. `num_threads` None is one: more gain nothing
    with so few measurements. Every `log_interval` rounds training is logged, with 0 the first only.
    `optimizer` is `sa`, for the evolution of the search, where AutoTVM anneals, or a strategy.
    `plan_size` and `diversity_filter_ratio` as for `ModelBasedTuner`.
    """

    def __init__(
        self,
        task: Task,
        plan_size: int = 64,
        feature_type: str = "itervar",
        loss_type: str = "reg",
        num_threads: int | None = None,
        optimizer: str | SearchStrategy = "sa",
        diversity_filter_ratio: float | None = None,
        log_interval: int = 50,
        *,
        seed: int | None = None,
    ) -> None:
        if loss_type not in _LOSSES:
            raise TemplateError(f"loss_type is one of {list(_LOSSES)}, got {loss_type!r}")
        if optimizer != "sa" and not isinstance(optimizer, SearchStrategy):
            raise TemplateError(f"optimizer is 'sa' or a SearchStrategy, got {optimizer!r}")
        rng = RandomState(-1 if seed is None else seed)
        model = XGBModel(
            extractor=ConfigFeatures(task, feature_type),
            config=XGBConfig(seed=rng.fork(), nthread=num_threads or 1),
            verbose_eval=log_interval or sys.maxsize,
        )
        strategy = EvolutionarySearch(eps_greedy=_RANDOM) if optimizer == "sa" else optimizer
        super().__init__(task, model, strategy, plan_size, diversity_filter_ratio, seed=rng.fork())


class DropletTuner(ModelBasedTuner):
    """Measures a configuration, then searches as `ModelBasedTuner` does from what that gave.

    It starts at `start_position`, the index of the value of each knob (None: all 0). The search of
    AutoTVM, a descent along the knobs (Canesche et al., Droplet Search, 2024), ends in local optima
    and needs more trials. So `pvalue`, the significance of its steps, has no effect.

    TemplateError for a start that is no configuration.
    """

    def __init__(
        self,
        task: Task,
        start_position: Sequence[int] | None = None,
        pvalue: float = 0.05,
        *,
        seed: int | None = None,
    ) -> None:
        model = XGBModel(extractor=ConfigFeatures(task))
        super().__init__(task, model, "evolutionary", _PLAN, seed=seed)
        if start_position is None:
            self._start = task.first_config()
        else:
            try:
                self._start = self.space.get(self.space.knob2point(start_position))
            except SpaceIndexError:
                raise TemplateError(
                    f"start_position has an index for each knob, below {self.space.dims}, that the "
                    f"filter of the space lets through; got {list(start_position)}"
                ) from None
        self.pvalue = pvalue

    def has_next(self) -> bool:
        """Say whether a configuration was not visited."""
        return self._start.index not in self.visited or super().has_next()

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """Return the start, then the next configurations of the search."""
        if self._start.index in self.visited:
            return super().next_batch(batch_size)
        self.visited.add(self._start.index)
        return [self._start]

    @property
    def best_knob(self) -> list[int]:
        """The index of the value of each knob of the fastest configuration so far, or the start."""
        return self.space.point2knob((self.best_config or self._start).index)
