"""Operators that stand for expressions of other operators; the modules: `activations`, `shapes`."""

from tensorir.relax.composites import activations, shapes

__all__ = ["activations", "shapes"]
