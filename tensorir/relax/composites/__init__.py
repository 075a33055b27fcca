"""Operators that are expressions of other operators.

The modules: `activations`, `arithmetic`, `attention`, `einsum`, `linear`,
`normalization`, `operand_shapes`, `quantized`, `recurrent`, `shapes`, `statistics`.
"""

from tensorir.relax.composites import (
    activations,
    arithmetic,
    attention,
    einsum,
    linear,
    normalization,
    quantized,
    recurrent,
    shapes,
    statistics,
)

__all__ = [
    "activations",
    "arithmetic",
    "attention",
    "einsum",
    "linear",
    "normalization",
    "quantized",
    "recurrent",
    "shapes",
    "statistics",
]
