"""Measure callbacks, which are told the results of each batch."""

from search.measure_callback.add_to_database import AddToDatabase
from search.measure_callback.measure_callback import MeasureCallback, PyMeasureCallback
from search.measure_callback.remove_build_artifact import RemoveBuildArtifact
from search.measure_callback.update_cost_model import UpdateCostModel

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
