"""Operators that are expressions of other operators.

The modules: `arithmetic`, `attention`, `normalization`, `operand_shapes`, `products`, `quantized`,
`recurrent`, `statistics`.
"""

from tensorir.relax.composites import (
    arithmetic,
    attention,
    normalization,
    products,
    quantized,
    recurrent,
    statistics,
)

__all__ = [
    "arithmetic",
    "attention",
    "normalization",
    "products",
    "quantized",
    "recurrent",
    "statistics",
]
