"""The features of configurations that a cost model learns from, by kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from codegen import Target
from search.autotvm.errors import InstantiationError, TemplateError
from search.autotvm.feature.curve import get_buffer_curve_sample_flatten
from search.autotvm.feature.itervar import get_itervar_feature_flatten
from search.context import TuneContext
from search.feature_extractor import NestFeature, PerStoreFeature
from search.measuring.measure_candidate import MeasureCandidate

if TYPE_CHECKING:
    from search.autotvm.space.entity import ConfigEntity
    from search.autotvm.task import Task

Row: TypeAlias = npt.NDArray[np.float32]

_MOST_KEPT: Final = 100_000


def knob_features(task: Task, config: ConfigEntity) -> Row:
    """Return the values of the knobs."""
    return config.get_flatten_feature()


def itervar_features(task: Task, config: ConfigEntity) -> Row:
    """Return the loops of the program, then the options that are numbers."""
    row = get_itervar_feature_flatten(task.instantiate(config).mod)
    return np.append(row, _options(config)).astype(np.float32)


def curve_features(task: Task, config: ConfigEntity) -> Row:
    """Return how accesses grow along the loops, then the options that are numbers."""
    row = get_buffer_curve_sample_flatten(task.instantiate(config).mod)
    return np.append(row, _options(config)).astype(np.float32)


def store_features(task: Task, config: ConfigEntity) -> Row:
    """Return Ansor's features of each buffer that is stored to, then the options."""
    rows = PerStoreFeature().extract(task.instantiate(config).mod)
    return np.append(rows, _options(config)).astype(np.float32)


def nest_features(task: Task, config: ConfigEntity) -> Row:
    """Return the features that decide how fast the loop nests run, then the options."""
    candidate = MeasureCandidate(task.instantiate(config), [])
    context = TuneContext(task.mod, target=task.target or Target())
    rows = NestFeature().extract_from(context, [candidate])
    return np.append(rows, _options(config)).astype(np.float32)


FEATURES: Final[Mapping[str, Callable[[Any, Any], Row]]] = {
    "knob": knob_features,
    "itervar": itervar_features,
    "curve": curve_features,
    "per_store": store_features,
    "nest": nest_features,
}


class ConfigFeatures:
    """The features of the configurations of a task, by index, kept once they were asked for.

    TemplateError for a kind that is none of `FEATURES`.
    """

    def __init__(self, task: Task, kind: str) -> None:
        if kind not in FEATURES:
            raise TemplateError(f"feature_type is one of {list(FEATURES)}, got {kind!r}")
        self.task = task
        self.kind = kind
        self._rows: dict[int, Row] = {}

    def of(self, indices: Sequence[int]) -> Row:
        """Return one row for each index, shorter ones filled up with zeros."""
        return stacked([self._row(index) for index in indices])

    def _row(self, index: int) -> Row:
        row = self._rows.get(index)
        if row is None:
            row = features_of(self.kind, self.task, self.task.space.get(index))
            if len(self._rows) >= _MOST_KEPT:
                self._rows.clear()
            self._rows[index] = row
        return row


def features_of(kind: str, task: Task, config: ConfigEntity) -> Row:
    """Return the features of one configuration; nothing for one that the template refuses."""
    try:
        return FEATURES[kind](task, config)
    except InstantiationError:
        return np.zeros(0, np.float32)


def stacked(rows: Iterable[Row], width: int | None = None) -> Row:
    """Return rows of any lengths in one array [rows, width], filled up with zeros or cut."""
    rows = list(rows)
    if width is None:
        width = max(map(len, rows), default=0)
    packed = np.zeros((len(rows), width), np.float32)
    for k, row in enumerate(rows):
        packed[k, : len(row)] = row[:width]
    return packed


def _options(config: ConfigEntity) -> list[float]:
    values = config.get_other_option().values()
    return [float(value) for value in values if isinstance(value, (int, float))]
