"""Mutators, which change one decision of a trace."""

from search.mutator.mutator import (
    MutateComputeLocation,
    MutateDecision,
    MutateParallel,
    MutateRegisterTile,
    MutateThreadBinding,
    MutateTileSize,
    MutateUnroll,
    Mutator,
    PyMutator,
)

__all__ = [
    "MutateComputeLocation",
    "MutateDecision",
    "MutateParallel",
    "MutateRegisterTile",
    "MutateThreadBinding",
    "MutateTileSize",
    "MutateUnroll",
    "Mutator",
    "PyMutator",
]
