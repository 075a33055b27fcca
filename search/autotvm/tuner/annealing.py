"""Simulated annealing: the points of a space that a model expects most of."""

from __future__ import annotations

import heapq
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from schedule.random_state import RandomState

if TYPE_CHECKING:
    from search.autotvm.task import Task

logger = logging.getLogger("autotvm")


class Predictor(Protocol):
    """A model that scores configurations."""

    def predict(self, xs: Sequence[int]) -> npt.NDArray[np.float64]:
        """Return a score for each index; higher is faster."""


class ModelOptimizer(ABC):
    """Finds the configurations that a model expects most of."""

    @abstractmethod
    def find_maximums(self, model: Predictor, num: int, exclusive: set[int]) -> list[int]:
        """Return up to `num` indices that are not in `exclusive`, the best first."""


class SimulatedAnnealingOptimizer(ModelOptimizer):
    """Walks from many points at once, and keeps the best that it meets.

    `parallel_size` points take `n_iter` random steps, or fewer: it ends when the best `num` stay
    the same for `early_stop` steps. A step to a worse point is taken with probability
    exp(difference / temperature), which falls from `temp[0]` to `temp[1]`, or stays if it is one
    number. The next walk starts where the last one ended if `persistent`, else at random points.
    A space that has no more points than would be met is scored as a whole.
    """

    def __init__(
        self,
        task: Task,
        n_iter: int = 500,
        temp: tuple[float, float] | float = (1, 0),
        persistent: bool = True,
        parallel_size: int = 128,
        early_stop: int = 50,
        log_interval: int = 50,
        *,
        rng: RandomState | None = None,
    ) -> None:
        self.space = task.space
        self.n_iter = n_iter
        self.temp = temp
        self.persistent = persistent
        self.parallel_size = min(parallel_size, len(self.space))
        self.early_stop = early_stop
        self.log_interval = log_interval
        self.points: list[int] | None = None
        self._rng = RandomState(-1) if rng is None else rng

    def find_maximums(self, model: Predictor, num: int, exclusive: set[int]) -> list[int]:
        """Return up to `num` indices that are not in `exclusive`, the best first."""
        best = _Best(num, exclusive)
        if self.space.range_length <= self.parallel_size * self.early_stop:
            valid = filter(self.space.is_index_valid, range(self.space.range_length))
            points = [index for index in valid if index not in exclusive]
            if points:
                best.offer(points, model.predict(points))
        else:
            self._walk(model, best)
        return best.descending()

    def _walk(self, model: Predictor, best: _Best) -> None:
        points = self.points
        if points is None or not self.persistent:
            points = self.space.sample_ints(self.parallel_size, rng=self._rng)
        scores = model.predict(points)
        best.offer(points, scores)
        first, last = self.temp if isinstance(self.temp, tuple) else (self.temp, self.temp)
        temperature = first
        changed = 0
        for step in range(self.n_iter):
            proposed = [self.space.random_walk(point, rng=self._rng) for point in points]
            new = model.predict(proposed)
            chance = np.exp(np.minimum((new - scores) / (temperature + 1e-5), 1))
            drawn = np.array([self._rng.uniform_real() for _ in points])
            taken = drawn < chance
            points = [b if t else a for a, b, t in zip(points, proposed, taken, strict=True)]
            scores = np.where(taken, new, scores)
            if best.offer(proposed, new):
                changed = step
            temperature -= (first - last) / (self.n_iter + 1)
            if step - changed >= self.early_stop:
                break
            if self.log_interval and step % self.log_interval == 0:
                logger.debug(
                    "SA iter: %d\tlast change: %d\tlowest: %.3f\thighest: %.3f\ttemp: %.3f",
                    *(step, changed, *best.bounds(), temperature),
                )
        self.points = points


class _Best:
    """The best points so far that are not excluded, each once."""

    def __init__(self, size: int, exclusive: Iterable[int]) -> None:
        self._size = size
        self._seen = set(exclusive)
        self._heap: list[tuple[float, int]] = []

    def offer(self, points: Sequence[int], scores: npt.NDArray[np.float64]) -> bool:
        """Enter points; say whether one of them is among the best."""
        changed = False
        for point, score in zip(points, scores.tolist(), strict=True):
            full = len(self._heap) >= self._size
            if point in self._seen or (full and score <= self._heap[0][0]):
                continue
            self._seen.add(point)
            (heapq.heappushpop if full else heapq.heappush)(self._heap, (score, point))
            changed = True
        return changed

    def bounds(self) -> tuple[float, float]:
        return (self._heap[0][0], max(self._heap)[0]) if self._heap else (0.0, 0.0)

    def descending(self) -> list[int]:
        return [point for _, point in sorted(self._heap, key=lambda entry: (-entry[0], entry[1]))]
