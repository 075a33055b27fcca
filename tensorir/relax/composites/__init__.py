"""Operators that stand for expressions of other operators.

The modules: `activations`, `attention`, `linear`, `normalization`, `operand_shapes`, `quantized`,
`shapes`.
"""

from tensorir.relax.composites import (
    activations,
    attention,
    linear,
    normalization,
    quantized,
    shapes,
)

__all__ = ["activations", "attention", "linear", "normalization", "quantized", "shapes"]
