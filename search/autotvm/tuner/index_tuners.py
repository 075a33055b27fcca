"""Tuners that walk over the indices of a space, whatever the results are."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from search.autotvm.errors import SpaceIndexError
from search.autotvm.space.constraint import below
from search.autotvm.tuner.tuner import Tuner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from search.autotvm.measure.measurement import MeasureInput, MeasureResult
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
        self.visited: set[int] = set()
        self._ahead: int | None = None

    @abstractmethod
    def following(self) -> int | None:
        """Return the next valid index of the window, visited or not; None after the last one."""

    def has_next(self) -> bool:
        """Say whether an index of the window was not visited."""
        while self._ahead is None or self._ahead in self.visited:
            self._ahead = self.following()
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

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Leave out what was measured."""
        self.visited.update(index for index in map(self.index_of, inputs) if index is not None)


class GridSearchTuner(IndexBaseTuner):
    """Measures the configurations of a window one after the other."""

    _last: int | None = None

    def following(self) -> int | None:
        """Return the next valid index."""
        before = self.begin_idx - 1 if self._last is None else self._last
        index = self.space.get_next_index(before, start=self.begin_idx, end=self.end_idx)
        self._last = self.end_idx if index is None else index
        return index


class RandomTuner(IndexBaseTuner):
    """Measures the configurations of a window in random order, each once.

    The order is that of a Fisher-Yates shuffle, of which only the places that were exchanged are
    kept: a space of any size costs nothing before it is walked.
    """

    def __init__(
        self,
        task: Task,
        range_idx: tuple[int, int] | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        super().__init__(task, range_idx, seed=seed)
        self._left = self.end_idx - self.begin_idx
        self._exchanged: dict[int, int] = {}

    def following(self) -> int | None:
        """Return a random valid index that was not returned before."""
        while self._left > 0:
            place = below(self.rng, self._left)
            self._left -= 1
            drawn = self._exchanged.get(place, place)
            last = self._exchanged.pop(self._left, self._left)
            if place != self._left:
                self._exchanged[place] = last
            index = self.begin_idx + drawn
            if self.space.is_index_valid(index):
                return index
        return None
