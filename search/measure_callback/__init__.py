"""Measure callbacks, which are invoked after each trial and each batch."""

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
