"""The rows of features of several candidates in one array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class PackedRows:
    """`rows` [R, columns], `owner` [R]: the candidate of each row, `count`: of candidates."""

    rows: NDArray[np.float32]
    owner: NDArray[np.int64]
    count: int

    @staticmethod
    def of(candidates: Sequence[NDArray[Any]]) -> PackedRows:
        """Put the arrays [rows, columns] of candidates one after the other."""
        counts = [len(rows) for rows in candidates]
        rows = np.concatenate(list(candidates)).astype(np.float32, copy=False)
        return PackedRows(rows, np.repeat(np.arange(len(counts)), counts), len(counts))

    def summed(self, outputs: NDArray[Any]) -> NDArray[np.float64]:
        """Return the sum of the outputs of its rows for each candidate."""
        sums = np.bincount(self.owner, weights=outputs, minlength=self.count)
        return sums.astype(np.float64, copy=False)
