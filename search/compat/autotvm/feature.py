"""The features of configurations, from which the cost model of the search learns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

import search.task
from search.compat.autotvm.config import ConfigEntity
from search.compat.autotvm.errors import KnobError, TemplateError
from search.compat.autotvm.task import Task
from search.feature_extractor import (
    FeatureExtractor,
    NestFeature,
    PackedFeatures,
    PerStoreFeature,
)
from search.runner.measure_candidate import MeasureCandidate

if TYPE_CHECKING:
    from schedule import Trace
    from search.space_generator.design_space import Decisions, DesignSpace


class _NullExtractor(FeatureExtractor):
    """Has no columns, so that the values of the knobs are the only features."""

    def extract_from(
        self, context: search.task.Task, candidates: Sequence[MeasureCandidate]
    ) -> list[NDArray[np.float64]]:
        return [np.zeros((1, 0)) for _ in candidates]

    def extract_points(
        self, context: search.task.Task, space: DesignSpace, decisions: Sequence[Decisions]
    ) -> PackedFeatures:
        count = len(decisions)
        return PackedFeatures(np.zeros((count, 0), np.float32), np.arange(count), count)


FEATURES: Final[Mapping[str, Callable[[], FeatureExtractor]]] = {
    "nest": NestFeature,
    "per_store": PerStoreFeature,
    "knob": _NullExtractor,
}
"""The extractors that describe the program of a configuration, by name."""


class ConfigFeatures(FeatureExtractor):
    """The columns of an extractor of `FEATURES` for each row of a program, then the knobs.

    The columns describe programs before any was measured; the values of the knobs distinguish
    programs with equal columns. A value that is not a number is represented by its index among the
    values of its knob. The knobs of a program of another template are NaN. A model starts from the
    estimated times of the loop nests. Raises TemplateError for an unknown name.
    """

    reads_drafts = True

    def __init__(self, task: Task, kind: str = "nest") -> None:
        if kind not in FEATURES:
            hint = "; 'nest' replaces 'itervar' and 'curve'" if kind in ("itervar", "curve") else ""
            raise TemplateError(
                f"unknown feature_type {kind!r}; expected one of {list(FEATURES)}{hint}"
            )
        self.task = task
        self.kind = kind
        self._programs = FEATURES[kind]()
        self.estimates = self._programs.estimates
        self._width = len(self._knobs(task.first_config()))

    def extract_from(
        self, context: search.task.Task, candidates: Sequence[MeasureCandidate]
    ) -> list[NDArray[np.float64]]:
        """Return an array [rows, columns] for each candidate, without rows if it lacks stores."""
        described = self._programs.extract_from(context, candidates)
        return [
            np.hstack([rows, np.tile(self._of_trace(candidate.sch.trace), (len(rows), 1))])
            for rows, candidate in zip(described, candidates, strict=True)
        ]

    def extract_points(
        self, context: search.task.Task, space: DesignSpace, decisions: Sequence[Decisions]
    ) -> PackedFeatures | None:
        """Return the rows of the points whose programs need no replay."""
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
        except KnobError:  # It is the trace of another template.
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
        context: search.task.Task,
        space: DesignSpace,
        decisions: Decisions,
        candidate: MeasureCandidate,
    ) -> bool:
        """Return True if a point has the features of its candidate; else stop using them."""
        return self._programs.check(context, space, decisions, candidate)
