"""All configurations, in random order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from search.autotvm.space.constraint import below
from search.autotvm.tuner.index_based import IndexBaseTuner

if TYPE_CHECKING:
    from search.autotvm.task import Task


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
