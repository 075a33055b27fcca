"""Measure callbacks, which are told the results of each batch."""

from search.measure_callback.measure_callback import (
    AddToDatabase,
    MeasureCallback,
    PyMeasureCallback,
    RemoveBuildArtifact,
    UpdateCostModel,
)

__all__ = [
    "AddToDatabase",
    "MeasureCallback",
    "PyMeasureCallback",
    "RemoveBuildArtifact",
    "UpdateCostModel",
]


@MeasureCallback.kinds.register("default")
def _default() -> list[MeasureCallback]:
    return [AddToDatabase(), RemoveBuildArtifact(), UpdateCostModel()]
