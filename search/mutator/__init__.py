"""Mutators, which change a decision of a trace."""

from search.mutator import presets
from search.mutator.mutate_decision import (
    MutateComputeLocation,
    MutateDecision,
    MutateParallel,
    MutateRegisterTile,
    MutateTileSize,
    MutateUnroll,
)
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
