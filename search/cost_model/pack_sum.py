"""Learning the score of a whole from its parts: a candidate's score is the sum over its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class PackedRows:
    """The rows of several candidates in one array, and whose each row is."""

    def __init__(self, candidates: Sequence[NDArray[np.float64]]) -> None:
        counts = [len(rows) for rows in candidates]
        self.count = len(candidates)
        self.owner: NDArray[np.intp] = np.repeat(np.arange(self.count), counts)
        self.rows: NDArray[np.float32] = np.concatenate(list(candidates)).astype(np.float32)

    def summed(self, outputs: NDArray[Any]) -> Floats:
        """Return the sum of row outputs for each candidate."""
        sums = np.bincount(self.owner, weights=outputs, minlength=self.count)
        return sums.astype(np.float64, copy=False)

    def spread(self, values: Floats) -> Floats:
        """Return the value of its candidate for each row."""
        return values[self.owner]


def squared_error_of_sum(packed: PackedRows, labels: Floats) -> Any:
    """Return the objective for `xgboost.train`: the squared error of sums, weighted by the label.

    Good candidates have high labels, so that errors on them weigh more than on bad ones.
    """
    weight = packed.spread(labels)

    def objective(outputs: NDArray[Any], _: Any) -> tuple[Floats, Floats]:
        error = packed.spread(packed.summed(outputs) - labels)
        return error * weight, weight

    return objective


def root_mean_square_error(packed: PackedRows, outputs: NDArray[Any], labels: Floats) -> float:
    """Return the error of the sums, each row counting once."""
    error = packed.spread(packed.summed(outputs) - labels)
    return float(np.sqrt(np.mean(error**2)))


def average_peak(scores: Floats, labels: Floats, n: int) -> float:
    """Return how good the best of the first k is, k from 1 to `n`, in the order of the scores.

    1 means that the very best has the highest score.
    """
    if len(scores) == 0 or labels.max() <= 0:
        return 0.0
    order = np.argsort(-scores, kind="stable")[:n]
    return float(np.mean(np.maximum.accumulate(labels[order]) / labels.max()))
