"""Operators that stand for others; the modules: `activations`, `shapes`, `statistics`."""

from tensorir.relax.composites import activations, shapes, statistics

__all__ = ["activations", "shapes", "statistics"]
"""Operators that stand for expressions of other operators.
The modules: `activations`, `attention`, `linear`, `normalization`, `operand_shapes`, `shapes`.
"""
from tensorir.relax.composites import activations, attention, linear, normalization, shapes

__all__ = ["activations", "attention", "linear", "normalization", "shapes"]
The modules: `activations`, `quantized`, `recurrent`, `shapes`.
from tensorir.relax.composites import activations, quantized, recurrent, shapes
__all__ = ["activations", "quantized", "recurrent", "shapes"]
The modules: `activations`, `attention`, `linear`, `normalization`, `operand_shapes`, `shapes`,
`statistics`.
from tensorir.relax.composites import (
    activations,
    attention,
    linear,
    normalization,
    shapes,
    statistics,
)
__all__ = ["activations", "attention", "linear", "normalization", "shapes", "statistics"]
