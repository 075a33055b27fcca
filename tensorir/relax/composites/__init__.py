"""Operators that are expressions of other operators.

The modules: `arithmetic`, `normalization`, `products`, `quantized`, `recurrent`.
"""

from tensorir.relax.composites import (
    arithmetic,
    normalization,
    products,
    quantized,
    recurrent,
)

__all__ = [
    "arithmetic",
    "normalization",
    "products",
    "quantized",
    "recurrent",
]
