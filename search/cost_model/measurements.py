"""The measurements that a cost model was shown: features and times of candidates, by workload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from search.feature_extractor import PackedFeatures

Floats = NDArray[np.float64]


class Cost(NamedTuple):
    """The time of a candidate in seconds, or a bound below it.

    A failure is a candidate that takes at least forever; one whose measurement was ended early
    takes at least what was seen of it.
    """

    seconds: float
    is_bound: bool = False


FAILURE = Cost(np.inf, is_bound=True)


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Candidates of several workloads.

    `log_seconds`, `is_bound` and `workload` (an index) have one entry for each candidate.
    """

    packed: PackedFeatures
    log_seconds: Floats
    is_bound: NDArray[np.bool_]
    workload: NDArray[np.intp]


@dataclass(eq=False)
class WorkloadMeasurements:
    """The measurements of one workload for one target."""

    places: dict[str, int] = field(default_factory=dict)
    """The position of a candidate in the lists, by what tells it from others of the workload."""
    features: list[NDArray[np.float32]] = field(default_factory=list)
    """One array [rows, columns] for each candidate."""
    costs: list[Cost] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.costs)

    def spread(self, count: int) -> list[int]:
        """Return `count` of the candidates, evenly spaced in the order of their times.

        The fastest is among them. All of them if there are no more.
        """
        if len(self) <= count:
            return list(range(len(self)))
        order = np.argsort([cost.seconds for cost in self.costs], kind="stable")
        return [int(k) for k in order[np.linspace(0, len(self) - 1, count).astype(int)]]


class Measurements:
    """All that a cost model was shown, by a key for each workload."""

    def __init__(self) -> None:
        self.workloads: dict[str, WorkloadMeasurements] = {}

    def __len__(self) -> int:
        return sum(map(len, self.workloads.values()))

    def knows(self, key: str, candidate: str) -> bool:
        """Say whether there is a measurement of a candidate of a workload."""
        return key in self.workloads and candidate in self.workloads[key].places

    def add(self, key: str, candidate: str, rows: NDArray[Any], cost: Cost) -> None:
        """Add the rows of features (at least one) and the cost of a candidate of a workload.

        Of several measurements of a candidate the last one counts.
        """
        workload = self.workloads.setdefault(key, WorkloadMeasurements())
        place = workload.places.setdefault(candidate, len(workload.costs))
        workload.features[place : place + 1] = [rows.astype(np.float32)]
        workload.costs[place : place + 1] = [cost]

    def training_set(self, most: int) -> TrainingSet:
        """Return at most `most` candidates, about as many of each workload as it has.

        Workloads with few candidates give all of them, and the others share what is left.
        """
        shares = _fair_shares([len(w) for w in self.workloads.values()], most)
        features: list[NDArray[np.float32]] = []
        costs: list[Cost] = []
        owner: list[int] = []
        for index, (workload, share) in enumerate(
            zip(self.workloads.values(), shares, strict=True)
        ):
            for k in workload.spread(share):
                features.append(workload.features[k])
                costs.append(workload.costs[k])
                owner.append(index)
        return TrainingSet(
            PackedFeatures.of(features),
            np.log([cost.seconds for cost in costs]),
            np.array([cost.is_bound for cost in costs], np.bool_),
            np.array(owner, np.intp),
        )


def _fair_shares(sizes: Sequence[int], total: int) -> list[int]:
    """Return how many of `total` each gets: equal shares, except for those who have less."""
    shares = [0] * len(sizes)
    for rank, index in enumerate(sorted(range(len(sizes)), key=lambda k: sizes[k])):
        share = min(sizes[index], total // (len(sizes) - rank))
        shares[index] = share
        total -= share
    return shares
