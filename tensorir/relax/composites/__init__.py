"""Operators that stand for others.

The modules: `activations`, `arithmetic`, `einsum`, `shapes`, `statistics`.
"""

from tensorir.relax.composites import activations, arithmetic, einsum, shapes, statistics

__all__ = ["activations", "arithmetic", "einsum", "shapes", "statistics"]
