"""All configurations, in the order of their indices."""

from __future__ import annotations

from search.autotvm.tuner.index_based import IndexBaseTuner


class GridSearchTuner(IndexBaseTuner):
    """Measures the configurations of a window one after the other."""

    _last: int | None = None

    def following(self) -> int | None:
        """Return the next valid index."""
        before = self.begin_idx - 1 if self._last is None else self._last
        index = self.space.get_next_index(before, start=self.begin_idx, end=self.end_idx)
        self._last = self.end_idx if index is None else index
        return index
