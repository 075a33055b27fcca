"""A loss that asks for the order of candidates, not for their times."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from search.cost_model.measurements import TrainingSet

Floats = NDArray[np.float64]

_PARTNERS: Final = 24
"""The number of others that a candidate is compared with; more did not rank better."""
_LEAST_CURVATURE: Final = 0.02
"""Pairs that are in order already have nearly none, with which Newton steps would explode."""
_STEEPEST: Final = 30.0


class RankingLoss:
    """The cross entropy of pairs: which of two candidates of a workload is the faster one?

    RankNet (Burges et al., ICML 2005; the ancestor of LambdaMART, Burges 2010): the model says that
    `a` is faster with probability sigmoid(score[a] - score[b]). What it should have said is
    sigmoid(log(seconds[b] / seconds[a]) / `temperature`): nearly certain for times far apart, and a
    toss for those that differ by noise, so that the loss does not pull scores of equal candidates
    apart. Scores of the least loss are log speeds in units of the temperature, up to a constant of
    the workload.

    A candidate of which only a lower bound of the time is known loses against those that are faster
    than the bound; nothing is asked about it and others. So failures lose against all that ran.

    Each candidate is compared with up to 24 of its workload at random, and the weights of the pairs
    of a candidate sum to about one, however many were measured of its workload.
    """

    def __init__(self, data: TrainingSet, temperature: float, random: np.random.Generator) -> None:
        first, second = _pairs(data.workload, random)
        swap = data.log_seconds[first] > data.log_seconds[second]
        faster, slower = np.where(swap, second, first), np.where(swap, first, second)
        known = ~data.is_bound[faster]
        self.faster, self.slower = faster[known], slower[known]
        lead = data.log_seconds[self.slower] - data.log_seconds[self.faster]
        self.wanted: Floats = _sigmoid(lead / temperature)
        self.count = len(data.log_seconds)
        appearances = self._sums(np.ones(len(self.faster)), np.ones(len(self.faster)))
        self.weights: Floats = 1 / np.maximum(appearances[self.faster], appearances[self.slower])

    def without(self, candidates: NDArray[np.bool_]) -> Floats:
        """Return the weights of the pairs in which none of the `candidates` takes part, else 0."""
        return np.where(self._touched(candidates), 0.0, self.weights)

    def only(self, candidates: NDArray[np.bool_]) -> Floats:
        """Return the weights of the pairs in which one of the `candidates` takes part, else 0."""
        return np.where(self._touched(candidates), self.weights, 0.0)

    def value(self, scores: Floats, weights: Floats) -> float:
        """Return the mean loss of pairs, 0 without any."""
        lead = scores[self.faster] - scores[self.slower]
        losses = np.logaddexp(0, lead) - self.wanted * lead
        return float(np.dot(weights, losses) / max(weights.sum(), 1e-12))

    def derivatives(self, scores: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """Return the first and second derivative of the summed loss by each score."""
        said = _sigmoid(scores[self.faster] - scores[self.slower])
        slope = weights * (said - self.wanted)
        curvature = weights * np.maximum(said * (1 - said), _LEAST_CURVATURE)
        return self._sums(slope, -slope), self._sums(curvature, curvature)

    def _touched(self, candidates: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return candidates[self.faster] | candidates[self.slower]

    def _sums(self, of_faster: Floats, of_slower: Floats) -> Floats:
        """Return for each candidate the sum over its pairs."""
        sums = np.bincount(self.faster, of_faster, self.count)
        sums += np.bincount(self.slower, of_slower, self.count)
        return sums.astype(np.float64, copy=False)


def _pairs(
    workload: NDArray[np.intp], random: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return pairs of indices that have the same workload, each unordered pair at most once."""
    first: list[NDArray[np.intp]] = [np.empty(0, np.intp)]
    second: list[NDArray[np.intp]] = [np.empty(0, np.intp)]
    for index in np.unique(workload):
        members = random.permutation(np.flatnonzero(workload == index))
        # In a circle, neighbours up to half way round are all pairs, those in the middle twice if
        # the number is even.
        reach = min(_PARTNERS // 2, (len(members) - 1) // 2)
        for step in range(1, reach + 1):
            first.append(members)
            second.append(np.roll(members, step))
        if len(members) % 2 == 0 and reach < _PARTNERS // 2 and len(members):
            half = len(members) // 2
            first.append(members[:half])
            second.append(members[half:])
    return np.concatenate(first), np.concatenate(second)


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -_STEEPEST, _STEEPEST))))


def pairwise_accuracy(scores: Floats, log_seconds: Floats, least_ratio: float = 1.05) -> float:
    """Return the share of pairs in the right order, of those whose times differ by 5 % or more.

    Equal scores count half; nan if there is no such pair. A failure has infinite seconds.
    """
    with np.errstate(invalid="ignore"):
        slower = log_seconds[:, None] - log_seconds[None, :] >= np.log(least_ratio)
    lead = scores[None, :] - scores[:, None]
    right: NDArray[Any] = np.where(lead > 0, 1.0, np.where(lead == 0, 0.5, 0.0))[slower]
    return float(right.mean()) if right.size else float("nan")


def average_peak(scores: Floats, labels: Floats, n: int) -> float:
    """Return the quality of the best of the first k, k from 1 to `n`, in the order of the scores.

    1 means that the very best has the highest score.
    """
    if len(scores) == 0 or labels.max() <= 0:
        return 0.0
    order = np.argsort(-scores, kind="stable")[:n]
    return float(np.mean(np.maximum.accumulate(labels[order]) / labels.max()))
