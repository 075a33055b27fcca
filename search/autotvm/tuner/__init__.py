"""Tuners: which configurations of a task to measure, in which order."""

from search.autotvm.tuner.droplet_tuner import DropletTuner
from search.autotvm.tuner.evolution_tuner import EvolutionTuner
from search.autotvm.tuner.ga_tuner import GATuner
from search.autotvm.tuner.grid_search_tuner import GridSearchTuner
from search.autotvm.tuner.index_based import IndexBaseTuner
from search.autotvm.tuner.model_based import ModelBasedTuner
from search.autotvm.tuner.random_tuner import RandomTuner
from search.autotvm.tuner.tuner import Callback, Tuner
from search.autotvm.tuner.xgb_tuner import XGBTuner

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
