"""Operators that stand for expressions of other operators.

The modules: `activations`, `recurrent`, `shapes`.
"""

from tensorir.relax.composites import activations, recurrent, shapes

__all__ = ["activations", "recurrent", "shapes"]
