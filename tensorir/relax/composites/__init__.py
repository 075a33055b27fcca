"""Operators that stand for expressions of other operators.

The modules: `activations`, `attention`, `linear`, `normalization`, `operand_shapes`, `quantized`,
`recurrent`, `shapes`, `statistics`.
"""

from tensorir.relax.composites import (
    activations,
    attention,
    linear,
    normalization,
    quantized,
    recurrent,
    shapes,
    statistics,
)

__all__ = [
    "activations",
    "attention",
    "linear",
    "normalization",
    "quantized",
    "recurrent",
    "shapes",
    "statistics",
]
