"""Tuners that walk over the indices of a space, without a model: in order, at random, downhill."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from search.compat.autotvm.config import ConfigEntity
from search.compat.autotvm.errors import SpaceIndexError, TemplateError
from search.compat.autotvm.measure import MeasureInput, MeasureResult
from search.compat.autotvm.task import Task
from search.compat.autotvm.tuner.tuner import Tuner
from search.database.record_files import MeasureErrorNo


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

    `range_idx` are the first and the last index; None means all. SpaceIndexError for a window
    outside of the space.
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

    A neighbour has some knobs one value further up, or the same knobs one further down (Canesche et
    al., The Droplet Search Algorithm for Kernel Scheduling, 2024). It becomes the best if its costs
    are lower with significance `pvalue`, by Welch's test; single costs are compared directly. If no
    neighbour is better, steps get longer, up to the length of the longest knob; then the search
    ends. It needs few trials, and no model.

    `start_position` has the index of the value of each knob (None: the first configuration).
    TemplateError for an invalid start.
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
