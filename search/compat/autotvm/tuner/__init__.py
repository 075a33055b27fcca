"""Tuners: which configurations of a task to measure, in which order."""

from search.compat.autotvm.tuner.droplet_tuner import DropletTuner
from search.compat.autotvm.tuner.index_tuners import GridSearchTuner, IndexBaseTuner, RandomTuner
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
