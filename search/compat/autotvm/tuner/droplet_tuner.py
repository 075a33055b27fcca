"""Droplet search: a descent along the knobs, by measured times alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from search.compat.autotvm.errors import SpaceIndexError, TemplateError
from search.compat.autotvm.measure import MeasureInput, MeasureResult
from search.compat.autotvm.task import Task
from search.compat.autotvm.tuner.index_tuners import WalkingTuner
from search.database.measure_error_no import MeasureErrorNo


class DropletTuner(WalkingTuner):
    """Steps from a configuration to a faster neighbour until there is none.

    A neighbour has some knobs one value further up, or the same knobs one further down (Canesche et
    al., The Droplet Search Algorithm for Kernel Scheduling, 2024). It becomes the best if its costs
    are lower with significance `pvalue`, by Welch's test; one cost is always significant. Where no
    neighbour is better, steps get longer, up to the length of the longest knob; then the search
    ends. It needs few trials, and no model.

    `start_position` has the index of the value of each knob (None: the first configuration).
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
        space = task.space
        if start_position is None:
            start_position = space.point2knob(task.first_config().index)
        try:
            space.get(space.knob2point(start_position))
        except SpaceIndexError:
            raise TemplateError(
                f"start_position has an index for each knob, below {space.dims}, that the filter "
                f"of the space lets through; got {list(start_position)}"
            ) from None
        self.pvalue = pvalue
        self.best_knob = list(start_position)
        """The index of the value of each knob of the best configuration so far, or of the start."""
        self._costs: Sequence[float] | None = None
        """The costs of the best configuration, None before one was measured."""
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
            if index is None:
                continue
            fits = result.error_no == MeasureErrorNo.NO_ERROR
            if fits and is_lower(result.costs, self._costs, self.pvalue):
                self._costs = result.costs
                self.best_knob = self.space.point2knob(index)
                self._walk, self._ahead = self.walk(), None


def is_lower(costs: Sequence[float], known: Sequence[float] | None, pvalue: float) -> bool:
    """Return True if costs have a lower mean than known ones, with a significance of `pvalue`.

    Of a single cost nothing is known but itself, which is compared alone.
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
