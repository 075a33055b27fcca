"""A tuner that begins at one configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from search.autotvm.errors import TemplateError
from search.autotvm.feature import ConfigFeatures
from search.autotvm.tuner.model_based import ModelBasedTuner
from search.cost_model import XGBModel

if TYPE_CHECKING:
    from search.autotvm.space.entity import ConfigEntity
    from search.autotvm.task import Task

_PLAN: Final = 8


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
        dims = self.space.dims
        if start_position is None:
            first = self.space.point2knob(task.first_config().index)
        else:
            first = list(start_position)
        inside = len(first) == len(dims) and all(
            0 <= digit < dim for digit, dim in zip(first, dims, strict=True)
        )
        index = self.space.knob2point(first) if inside else -1
        if not self.space.is_index_valid(index):
            raise TemplateError(
                f"start_position has an index for each knob, below {dims}, that the filter of the "
                f"space lets through; got {first}"
            )
        self.pvalue = pvalue
        self._start = self.space.get(index)

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
