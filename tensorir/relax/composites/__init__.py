"""Operators that stand for expressions of other operators.

The modules: `activations`, `quantized`, `recurrent`, `shapes`, `statistics`.
"""

from tensorir.relax.composites import activations, quantized, recurrent, shapes, statistics

__all__ = ["activations", "quantized", "recurrent", "shapes", "statistics"]
