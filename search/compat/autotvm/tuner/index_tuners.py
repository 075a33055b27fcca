"""Tuners that walk over the indices of a space, whatever the results are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from search.compat.autotvm.config import ConfigEntity
from search.compat.autotvm.errors import SpaceIndexError
from search.compat.autotvm.task import Task
from search.compat.autotvm.tuner.tuner import Tuner


class WalkingTuner(Tuner):
    """Measures the configurations of a walk through the space, each once."""

    def __init__(self, task: Task, *, seed: int | None = None) -> None:
        super().__init__(task, seed=seed)
        self._walk = self.walk()
        self._ahead: int | None = None

    @abstractmethod
    def walk(self) -> Iterator[int]:
        """Yield valid indices, visited or not."""

    def has_next(self) -> bool:
        """Return True if an index of the walk was not visited."""
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


class IndexBaseTuner(WalkingTuner):
    """Measures each configuration of a window of indices once.

    `range_idx` are the first and the last index; None means all. SpaceIndexError for a window that
    is not within the space.
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
                f"range_idx is the first and the last of some indices in [0, {count}), got "
                f"{range_idx}"
            )
        self.begin_idx, self.end_idx = first, last + 1
        super().__init__(task, seed=seed)


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
    """Measures the configurations of a window in random order, each once."""

    def walk(self) -> Iterator[int]:
        """Yield the valid indices, each once."""
        return self.space.random_order(self.rng, self.begin_idx, self.end_idx)
