"""Tuners that walk over the indices of a space, whatever the results are."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from search.autotvm.errors import SpaceIndexError
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
