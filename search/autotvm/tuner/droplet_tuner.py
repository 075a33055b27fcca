"""Descent along the knobs from one configuration."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from codegen import host
from search.autotvm.errors import SpaceIndexError, TemplateError
from search.autotvm.tuner.tuner import Tuner
from search.records.measure_error_no import MeasureErrorNo

if TYPE_CHECKING:
    from search.autotvm.measure.measurement import MeasureInput, MeasureResult
    from search.autotvm.space.entity import ConfigEntity
    from search.autotvm.task import Task

_FIRST_BATCH: Final = 16
_MOST_DIRECTIONS: Final = 4096
_STARTS_DRAWN: Final = 32
_NODES: Final = 48


class DropletTuner(Tuner):
    """Moves to faster neighbours until there are none (Canesche et al., Droplet Search, 2024).

    It starts at `start_position`, the index of the value of each knob (None: all 0). Neighbours of
    a configuration have the next value of some knobs, or the one before, all at once; when few are
    left, those two and more values away. One is better if its mean cost is lower and the costs
    differ with significance `pvalue`; single costs always do.

    What a descent ends in may be a local optimum. So when all its neighbours are measured, another
    begins far from what was measured before; the search ends when the whole space is. `best_knob`
    is the best of all descents.

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
        super().__init__(task, seed=seed)
        dims = self.space.dims
        if start_position is None:
            first = self.space.point2knob(task.first_config().index)
        else:
            first = list(start_position)
        inside = len(first) == len(dims) and all(
            0 <= digit < dim for digit, dim in zip(first, dims, strict=True)
        )
        if not inside or not self.space.is_index_valid(self.space.knob2point(first)):
            raise TemplateError(
                f"start_position has an index for each knob, below {dims}, that the filter of the "
                f"space lets through; got {first}"
            )
        self.pvalue = pvalue
        self.visited: set[int] = set()
        self.best_knob = first
        self.best_costs: Sequence[float] = ()
        self._next: list[int] = []
        self._batch = max(_FIRST_BATCH, host.logical_cores())
        self._farthest = max(dims, default=0)
        self._begin(first)

    def _begin(self, start: list[int]) -> None:
        """Begin a descent."""
        self._place = start
        self._costs: Sequence[float] = ()
        self._step = 1
        index = self.space.knob2point(start)
        self.visited.add(index)
        self._next += [index, *self._neighbours(1)]

    def has_next(self) -> bool:
        """Say whether there is a candidate."""
        return bool(self._next)

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """Return the next candidates."""
        self._batch = batch_size
        taken, self._next = self._next[:batch_size], self._next[batch_size:]
        return [self.space.get(index) for index in taken]

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Move to the best, and find candidates around it, or elsewhere if none is left there."""
        moved = False
        measured: set[int] = set()
        for inp, result in zip(inputs, results, strict=True):
            index = self.index_of(inp)
            if index is None:
                continue
            measured.add(index)
            if self._is_better(result, self._costs):
                self._place, self._costs = self.space.point2knob(index), result.costs
                moved = True
            if self._is_better(result, self.best_costs):
                self.best_knob, self.best_costs = self.space.point2knob(index), result.costs
        self.visited |= measured
        self._next = [index for index in self._next if index not in measured]
        if moved:
            self._step = 1
            self._next += self._neighbours(1)
        while len(self._next) < self._batch and self._step < self._farthest:
            self._step += 1
            self._next += self._neighbours(self._step)
        if not self._next:
            start = self._far_from_visited()
            if start is not None:
                self._begin(start)

    def _far_from_visited(self) -> list[int] | None:
        """Return the most remote of some random configurations, None if all were visited.

        A step from the first to the last value is equally far for each knob.
        """
        try:
            drawn = {
                self.space.get_rand_index(to_exclude=self.visited, rng=self.rng)
                for _ in range(_STARTS_DRAWN)
            }
        except SpaceIndexError:
            return None
        starts = [self.space.point2knob(index) for index in sorted(drawn)]
        lengths = np.maximum(1, np.array(self.space.dims) - 1)
        seen = np.array([self.space.point2knob(index) for index in self.visited]) / lengths
        nearest = [float(np.abs(seen - start / lengths).sum(1).min()) for start in starts]
        return starts[int(np.argmax(nearest))]

    def _is_better(self, result: MeasureResult, than: Sequence[float]) -> bool:
        if result.error_no != MeasureErrorNo.NO_ERROR:
            return False
        if not than:
            return True
        if result.mean_cost >= sum(than) / len(than):
            return False
        if min(len(result.costs), len(than)) < 2:
            return True
        return welch_p_value(than, result.costs) <= self.pvalue

    def _neighbours(self, distance: int) -> list[int]:
        """Return valid indices that were not visited, about as many as a batch has."""
        found: list[int] = []
        for signs in _directions(len(self._place)):
            knob = [
                max(0, digit + sign * distance) % dim
                for digit, sign, dim in zip(self._place, signs, self.space.dims, strict=True)
            ]
            index = self.space.knob2point(knob)
            if index in self.visited or not self.space.is_index_valid(index):
                continue
            self.visited.add(index)
            found.append(index)
            if len(found) > self._batch:
                break
        return found


def _directions(count: int) -> Iterator[list[int]]:
    """Yield steps of `count` knobs: some of them up, all first; after each, the same ones down.

    Of very many knobs, only the first ones stay at times.
    """
    for pattern in islice(range(2**count - 1, 0, -1), _MOST_DIRECTIONS):
        up = [pattern >> (count - 1 - k) & 1 for k in range(count)]
        yield up
        yield [-sign for sign in up]


def welch_p_value(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the probability of means at least as different as those, if they were the same.

    This is Welch's test (Biometrika 34, 1947) of two samples of at least two numbers each, whose
    variances may differ. Samples without any variance have 0, or 1 where their means are equal.
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    va, vb = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    difference = abs(float(a.mean() - b.mean()))
    if va + vb == 0:
        return float(difference == 0)
    freedom = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    # With t = sqrt(freedom) * tan(angle), the density of Student's distribution is a power of the
    # cosine, here of the sine from the other end.
    angle = math.atan2(difference, math.sqrt(freedom * (va + vb)))
    tail, half = (_power_of_sine(freedom - 1, end) for end in (math.pi / 2 - angle, math.pi / 2))
    return tail / half


def _power_of_sine(power: float, end: float) -> float:
    """Integrate sin(x) ** power from 0 to `end`, over the eighth root of x: it is smooth at 0."""
    places, weights = np.polynomial.legendre.leggauss(_NODES)
    root = (places + 1) / 2
    return float(end * (weights * 4 * root**7 * np.sin(end * root**8) ** power).sum())
