"""Tuners: which configurations of a task to measure, in which order."""

from search.autotvm.tuner.droplet_tuner import DropletTuner
from search.autotvm.tuner.evolution_tuner import EvolutionTuner
from search.autotvm.tuner.ga_tuner import GATuner
from search.autotvm.tuner.index_tuners import GridSearchTuner, IndexBaseTuner, RandomTuner
from search.autotvm.tuner.model_based import ModelBasedTuner, XGBTuner
from search.autotvm.tuner.tuner import Callback, Tuner

__all__ = [
    "Callback",
    "DropletTuner",
    "EvolutionTuner",
    "GATuner",
    "GridSearchTuner",
    "IndexBaseTuner",
    "ModelBasedTuner",
    "RandomTuner",
    "Tuner",
    "XGBTuner",
]
