"""Tuners that walk over the indices of a space, whatever the results are."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from search.autotvm.errors import SpaceIndexError
from search.autotvm.space.constraint import below
from search.autotvm.tuner.tuner import Tuner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from search.autotvm.space.entity import ConfigEntity
    from search.autotvm.task import Task


class IndexBaseTuner(Tuner):
    """Measures each configuration of a window of indices once.

    `range_idx` are the first and the last index; None takes all. SpaceIndexError for a window that
    is not within the space.
    """

    def __init__(
        self,
        task: Task,
        range_idx: tuple[int, int] | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        super().__init__(task, seed=seed)
        first, last = range_idx or (0, self.space.range_length - 1)
        if not 0 <= first <= last < self.space.range_length:
            raise SpaceIndexError(
                f"range_idx is the first and the last of some indices in "
                f"[0, {self.space.range_length}), got {range_idx}"
            )
        self.begin_idx, self.end_idx = first, last + 1
        self._walk = self.walk()
        self._ahead: int | None = None

    @abstractmethod
    def walk(self) -> Iterator[int]:
        """Yield the valid indices of the window, visited or not."""

    def has_next(self) -> bool:
        """Say whether an index of the window was not visited."""
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


class GridSearchTuner(IndexBaseTuner):
    """Measures the configurations of a window one after the other."""

    def walk(self) -> Iterator[int]:
        """Yield the valid indices, the lowest first."""
        index: int | None = self.begin_idx - 1
        while index is not None:
            index = self.space.get_next_index(index, start=self.begin_idx, end=self.end_idx)
            if index is not None:
                yield index


class RandomTuner(IndexBaseTuner):
    """Measures the configurations of a window in random order, each once.

    The order is that of a Fisher-Yates shuffle, of which only the places that were exchanged are
    kept: a space of any size costs nothing before it is walked.
    """

    def walk(self) -> Iterator[int]:
        """Yield the valid indices, each once."""
        exchanged: dict[int, int] = {}
        left = self.end_idx - self.begin_idx
        while left > 0:
            place = below(self.rng, left)
            left -= 1
            drawn = exchanged.get(place, place)
            last = exchanged.pop(left, left)
            if place != left:
                exchanged[place] = last
            index = self.begin_idx + drawn
            if self.space.is_index_valid(index):
                yield index
