"""Tuners, which choose the configurations of a task to measure."""

from search.compat.autotvm.tuner.index_tuners import (
    DropletTuner,
    GridSearchTuner,
    IndexBaseTuner,
    RandomTuner,
)
from search.compat.autotvm.tuner.model_tuners import EvolutionTuner, GATuner, XGBTuner
from search.compat.autotvm.tuner.tuner import Callback, Tuner

__all__ = [
    "Callback",
    "DropletTuner",
    "EvolutionTuner",
    "GATuner",
    "GridSearchTuner",
    "IndexBaseTuner",
    "RandomTuner",
    "Tuner",
    "XGBTuner",
]
