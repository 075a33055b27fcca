"""The features of a template for the cost model of the search: of its loop nests and its knobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from search.autotvm.errors import KnobError
from search.feature_extractor import FeatureExtractor, PackedFeatures

if TYPE_CHECKING:
    from schedule import Trace
    from search.autotvm.space.entity import ConfigEntity
    from search.autotvm.task import Task
    from search.context import TuneContext
    from search.measuring.measure_candidate import MeasureCandidate
    from search.spaces.design_space import Decisions, DesignSpace


class TemplateFeature(FeatureExtractor):
    """One row for each program: the columns of `nest-feature`, then the values of the knobs.

    The former say what is known of programs before any was measured; the latter tell apart what
    these take for the same, and what the compiler makes of it. A value that is no number stands as
    its place among those of the knob. A program of another template has no knobs: NaN.

    What nests are estimated to take is where a model starts from.
    """

    reads_drafts = True
    estimates = True

    def __init__(self, task: Task) -> None:
        self.task = task
        self._nests = FeatureExtractor.create("nest-feature")
        self._width = len(self._knobs(task.first_config()))

    def extract_from(
        self, context: TuneContext, candidates: Sequence[MeasureCandidate]
    ) -> list[NDArray[np.float64]]:
        """Return an array [1, columns] for each candidate; no row for a program without stores."""
        described = self._nests.extract_from(context, candidates)
        return [
            np.hstack([rows, np.tile(self._of_trace(candidate.sch.trace), (len(rows), 1))])
            for rows, candidate in zip(described, candidates, strict=True)
        ]

    def extract_points(
        self, context: TuneContext, space: DesignSpace, decisions: Sequence[Decisions]
    ) -> PackedFeatures | None:
        """Return one row for each point whose program need not be made."""
        packed = self._nests.extract_points(context, space, decisions)
        if packed is None:
            return None
        knobs = [self._of_trace(space.trace_of(decisions[k])) for k in packed.owner]
        rows = np.array(knobs, np.float32).reshape(len(packed.rows), self._width)
        return PackedFeatures(np.hstack([packed.rows, rows]), packed.owner, packed.count)

    def estimate(self, packed: PackedFeatures) -> NDArray[np.float64]:
        """Return the estimated time of the nests, as a log of the speed."""
        return self._nests.estimate(packed)

    def _of_trace(self, trace: Trace) -> list[float]:
        try:
            return self._knobs(self.task.config_of(trace))
        except KnobError:
            return [np.nan] * self._width

    def _knobs(self, config: ConfigEntity) -> list[float]:
        row: list[float] = []
        for name, space in self.task.space.space_map.items():
            entity = config.entity_map[name]
            try:
                row += entity.features
            except KnobError:
                place = space.index_of(entity)
                row.append(-1.0 if place is None else float(place))
        return row

    def check(
        self,
        context: TuneContext,
        space: DesignSpace,
        decisions: Decisions,
        candidate: MeasureCandidate,
    ) -> bool:
        """Say whether a point has the features of its candidate; withdraw its form if not."""
        return self._nests.check(context, space, decisions, candidate)
