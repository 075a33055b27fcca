"""Mutators, which change a decision of a trace."""

from search.mutator.mutator import Mutator, PyMutator

__all__ = ["Mutator", "PyMutator"]
