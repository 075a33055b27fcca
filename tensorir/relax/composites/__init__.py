"""Operators that stand for expressions of other operators.

The modules: `activations`, `quantized`, `recurrent`, `shapes`.
"""

from tensorir.relax.composites import activations, quantized, recurrent, shapes

__all__ = ["activations", "quantized", "recurrent", "shapes"]
