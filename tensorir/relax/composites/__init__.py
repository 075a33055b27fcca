"""Operators that stand for expressions of other operators.

The modules: `activations`, `attention`, `linear`, `normalization`, `operand_shapes`, `shapes`,
`statistics`.
"""

from tensorir.relax.composites import (
    activations,
    attention,
    linear,
    normalization,
    shapes,
    statistics,
)

__all__ = ["activations", "attention", "linear", "normalization", "shapes", "statistics"]
