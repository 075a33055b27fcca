"""Mutators, which change a decision of a trace."""

from search.mutator import presets
from search.mutator.mutate_compute_location import MutateComputeLocation
from search.mutator.mutate_decision import MutateDecision
from search.mutator.mutate_parallel import MutateParallel
from search.mutator.mutate_register_tile import MutateRegisterTile
from search.mutator.mutate_tile_size import MutateTileSize
from search.mutator.mutate_unroll import MutateUnroll
from search.mutator.mutator import Mutator, PyMutator

__all__ = [
    "MutateComputeLocation",
    "MutateDecision",
    "MutateParallel",
    "MutateRegisterTile",
    "MutateTileSize",
    "MutateUnroll",
    "Mutator",
    "PyMutator",
    "presets",
]
