"""The base class of feature extractors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from search.kinds import Named, Registry

if TYPE_CHECKING:
    from search.runner.measure_candidate import MeasureCandidate
    from search.space_generator.design_space import Decisions, DesignSpace
    from search.task import Task


@dataclass(frozen=True, slots=True)
class PackedFeatures:
    """The rows of several candidates in one array."""

    rows: NDArray[np.float32]
    """[rows, features]"""
    owner: NDArray[np.int64]
    """For each row, the candidate that it belongs to [rows]."""
    count: int
    """The number of candidates."""

    @staticmethod
    def of(candidates: Sequence[NDArray[Any]]) -> PackedFeatures:
        """Concatenate the arrays [rows, features] of candidates."""
        counts = [len(rows) for rows in candidates]
        rows = np.concatenate(list(candidates)).astype(np.float32, copy=False)
        return PackedFeatures(rows, np.repeat(np.arange(len(counts)), counts), len(counts))

    def twins(self) -> NDArray[np.int64]:
        """Return a number for each candidate, equal for equal rows; 0 for candidates without rows.

        Rows are compared after rounding to three decimals.
        """
        found = np.zeros(self.count, np.int64)
        for owner, row in zip(self.owner.tolist(), np.round(self.rows, 3), strict=True):
            found[owner] = hash((int(found[owner]), row.tobytes()))
        return found

    def summed(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Return for each candidate the sum over its rows of `values` [rows]."""
        sums = np.bincount(self.owner, weights=values, minlength=self.count)
        return sums.astype(np.float64, copy=False)


class FeatureExtractor(Named, ABC):
    """Computes the features of candidates for a cost model."""

    kinds: ClassVar[Registry[FeatureExtractor]] = Registry(
        "feature extractor", {"gpu-feature": "search.feature_extractor.gpu_feature"}
    )

    @staticmethod
    def create(
        kind: str | FeatureExtractor = "per-store-feature", *args: Any, **kwargs: Any
    ) -> FeatureExtractor:
        """Return an extractor: `"per-store-feature"`, `"nest-feature"`, `"gpu-feature"` (GPUs)."""
        if isinstance(kind, FeatureExtractor):
            return kind
        return FeatureExtractor.kinds.make(kind, *args, **kwargs)

    @abstractmethod
    def extract_from(
        self, context: Task, candidates: Sequence[MeasureCandidate]
    ) -> list[NDArray[np.float64]]:
        """Return an array [rows, features] for each candidate, perhaps without rows."""

    def extract_points(
        self, context: Task, space: DesignSpace, decisions: Sequence[Decisions]
    ) -> PackedFeatures | None:
        """Return the features of `extract_from` for points of a design space, without replaying.

        A point without rows has to be replayed. None, the default, means that all points have to
        be, because the extractor reads programs only.
        """
        return None

    def check(
        self,
        context: Task,
        space: DesignSpace,
        decisions: Decisions,
        candidate: MeasureCandidate,
    ) -> bool:
        """Return True if `extract_points` was right for a point that was replayed.

        If not, the extractor stops to extract such points without replaying.
        """
        return True

    reads_drafts: bool = False
    """True if a candidate has the same features before and after postprocessing."""

    estimates: bool = False
    """True if `estimate` is implemented."""

    def estimate(self, packed: PackedFeatures) -> NDArray[np.float64]:
        """Return an estimate of the log speed of each candidate, up to a constant of the workload.

        A cost model starts from it. The default is 0 for all.
        """
        return np.zeros(packed.count)


class EstimatingExtractor(FeatureExtractor):
    """An extractor whose columns include an estimate of the time, the log2 of it in `time`.

    Its rows are equal before and after postprocessing.
    """

    names: ClassVar[tuple[str, ...]]
    """The columns."""

    reads_drafts = True
    estimates = True

    @property
    def feature_vector_length(self) -> int:
        """The number of columns."""
        return len(self.names)

    def estimate(self, packed: PackedFeatures) -> NDArray[np.float64]:
        """Return the log of the estimated speed."""
        return packed.summed(-np.log(2) * packed.rows[:, self.names.index("time")])


PyFeatureExtractor = FeatureExtractor
"""TVM's name of the base class of user-defined extractors."""
