"""What a feature extractor is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from search.kinds import Kinds

if TYPE_CHECKING:
    from search.context import TuneContext
    from search.cost_model.packed_rows import PackedRows
    from search.design_space import Decisions, DesignSpace
    from search.measure_candidate import MeasureCandidate


class FeatureExtractor(ABC):
    """Describes candidates by numbers that a cost model learns from."""

    kinds: ClassVar[Kinds[FeatureExtractor]] = Kinds("feature extractor")

    @staticmethod
    def create(
        kind: str | FeatureExtractor = "per-store-feature", *args: Any, **kwargs: Any
    ) -> FeatureExtractor:
        """Return an extractor: `"per-store-feature"`."""
        if isinstance(kind, FeatureExtractor):
            return kind
        return FeatureExtractor.kinds.make(kind, *args, **kwargs)

    @abstractmethod
    def extract_from(
        self, context: TuneContext, candidates: Sequence[MeasureCandidate]
    ) -> list[NDArray[np.float64]]:
        """Return an array [rows, features] for each candidate; there may be no rows."""

    def extract_points(
        self, context: TuneContext, space: DesignSpace, decisions: Sequence[Decisions]
    ) -> PackedRows | None:
        """Return the rows of points of a design space whose programs nobody made yet.

        None, as it is here, means that the extractor needs programs.
        """
        return None

    def __str__(self) -> str:
        return f"{type(self).__name__}()"


PyFeatureExtractor = FeatureExtractor
"""The base class under the name that it has for user classes in TVM."""
