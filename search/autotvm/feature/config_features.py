"""The features of configurations that the cost model of the search learns from, by kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from codegen import Target
from search.autotvm.errors import InstantiationError, KnobError, TemplateError
from search.context import TuneContext
from search.feature_extractor import (
    FeatureExtractor,
    NestFeature,
    PackedFeatures,
    PerStoreFeature,
)
from search.measuring.measure_candidate import MeasureCandidate

if TYPE_CHECKING:
    from schedule import Trace
    from search.autotvm.space.entity import ConfigEntity
    from search.autotvm.task import Task
    from search.spaces.design_space import Decisions, DesignSpace


class _Nothing(FeatureExtractor):
    """Leaves all to the knobs."""

    def extract_from(
        self, context: TuneContext, candidates: Sequence[MeasureCandidate]
    ) -> list[NDArray[np.float64]]:
        return [np.zeros((1, 0)) for _ in candidates]

    def extract_points(
        self, context: TuneContext, space: DesignSpace, decisions: Sequence[Decisions]
    ) -> PackedFeatures:
        count = len(decisions)
        return PackedFeatures(np.zeros((count, 0), np.float32), np.arange(count), count)


FEATURES: Final[Mapping[str, Callable[[], FeatureExtractor]]] = {
    "knob": _Nothing,
    "itervar": NestFeature,
    "curve": NestFeature,
    "per_store": PerStoreFeature,
    "nest": NestFeature,
}
"""What describes the program of a configuration, beside the values of its knobs.

AutoTVM's names for the loops of a program, `itervar` and `curve`, mean the loop nests as the search
describes them: it knows of them how fast they run before anything was measured, needs no programs
for that, and does not depend on how many loops there are.
"""


class ConfigFeatures(FeatureExtractor):
    """The columns of a kind of `FEATURES` for each row of a program, then the values of the knobs.

    The former say what is known of programs before any was measured; the latter tell apart what
    these take for the same, and what the compiler makes of it. A value that is no number stands as
    its place among those of the knob. A program of another template has no knobs: NaN. What nests
    are estimated to take is where a model starts from. TemplateError for a kind that is none.
    """

    reads_drafts = True

    def __init__(self, task: Task, kind: str = "nest") -> None:
        if kind not in FEATURES:
            raise TemplateError(f"feature_type is one of {list(FEATURES)}, got {kind!r}")
        self.task = task
        self.kind = kind
        self._programs = FEATURES[kind]()
        self.estimates = self._programs.estimates
        self._width = len(self._knobs(task.first_config()))

    def of(self, indices: Sequence[int]) -> NDArray[np.float32]:
        """Return one row for each index, zeros for a configuration that the template refuses."""
        context = TuneContext(self.task.mod, target=self.task.target or Target())
        rows: list[NDArray[Any]] = []
        for index in indices:
            try:
                sch = self.task.instantiate(self.task.space.get(index))
            except InstantiationError:
                rows.append(np.zeros(0))
            else:
                (found,) = self.extract_from(context, [MeasureCandidate(sch, [])])
                rows.append(found.ravel())
        width = max(map(len, rows), default=0)
        return np.array([np.pad(row, (0, width - len(row))) for row in rows], np.float32)

    def extract_from(
        self, context: TuneContext, candidates: Sequence[MeasureCandidate]
    ) -> list[NDArray[np.float64]]:
        """Return an array [rows, columns] for each candidate; no row for one without stores."""
        described = self._programs.extract_from(context, candidates)
        return [
            np.hstack([rows, np.tile(self._of_trace(candidate.sch.trace), (len(rows), 1))])
            for rows, candidate in zip(described, candidates, strict=True)
        ]

    def extract_points(
        self, context: TuneContext, space: DesignSpace, decisions: Sequence[Decisions]
    ) -> PackedFeatures | None:
        """Return the rows of the points whose programs need not be made."""
        packed = self._programs.extract_points(context, space, decisions)
        if packed is None:
            return None
        knobs = [self._of_trace(space.trace_of(decisions[k])) for k in packed.owner]
        rows = np.array(knobs, np.float32).reshape(len(packed.rows), self._width)
        return PackedFeatures(np.hstack([packed.rows, rows]), packed.owner, packed.count)

    def estimate(self, packed: PackedFeatures) -> NDArray[np.float64]:
        """Return the estimated time of the nests, as a log of the speed."""
        return self._programs.estimate(packed)

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
        return self._programs.check(context, space, decisions, candidate)
