"""Metrics of a sequence of trials, and of how well predictions rank them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]


def max_curve(trial_scores: Sequence[float] | Floats) -> Floats:
    """Return the best score so far after each trial."""
    return np.maximum.accumulate(np.asarray(trial_scores, np.float64))


def mean_curve(trial_scores: Sequence[float] | Floats) -> Floats:
    """Return the mean score so far after each trial."""
    scores = np.asarray(trial_scores, np.float64)
    return np.cumsum(scores) / np.arange(1, len(scores) + 1)


def recall_curve(
    trial_ranks: Sequence[int] | npt.NDArray[np.int64], top: int | None = None
) -> Floats:
    """Return for each n how many of the n best are among the first n trials, as a share.

    `trial_ranks` are places in the true order, 0 the best. With `top`, it is the share of the `top`
    best that are among the first n.
    """
    ranks = np.asarray(trial_ranks)
    numbers = np.arange(1, len(ranks) + 1)
    if top is not None:
        return np.cumsum(ranks < top) / top
    # The pair (i, rank i) is inside the square of n from n = max(i, rank) + 1 on.
    inside = np.maximum(np.arange(len(ranks)), ranks)
    return np.cumsum(np.bincount(inside, minlength=len(ranks))[: len(ranks)]) / numbers


def cover_curve(trial_ranks: Sequence[int] | npt.NDArray[np.int64]) -> Floats:
    """Return for each n the longest run of best ones that is complete after n trials, as a share.

    `trial_ranks` as for `recall_curve`.
    """
    ranks = np.asarray(trial_ranks)
    seen: set[int] = set()
    covered = 0
    shares = []
    for count, rank in enumerate(ranks, 1):
        seen.add(int(rank))
        while covered in seen:
            covered += 1
        shares.append(covered / count)
    return np.array(shares)


def average_recall(preds: Floats, labels: Floats, n: int) -> float:
    """Return the mean of `recall_curve` over the first `n`, for trials ordered by prediction.

    `preds` and `labels` have one number for each, a higher one is better.
    """
    trials = np.argsort(preds, kind="stable")[::-1]
    ranks = np.empty(len(labels), np.int64)
    ranks[np.argsort(labels, kind="stable")[::-1]] = np.arange(len(labels))
    curve = recall_curve(ranks[trials])[:n]
    return float(curve.mean()) if len(curve) else 0.0
