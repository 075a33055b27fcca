"""Operators that stand for expressions of other operators; the modules: `activations`."""

from tensorir.relax.composites import activations

__all__ = ["activations"]
