"""Operators that stand for others; the modules: `activations`, `shapes`, `statistics`."""

from tensorir.relax.composites import activations, shapes, statistics

__all__ = ["activations", "shapes", "statistics"]
