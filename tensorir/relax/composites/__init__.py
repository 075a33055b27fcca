"""Operators that stand for expressions of other operators.

The modules: `activations`, `attention`, `linear`, `normalization`, `operand_shapes`, `shapes`.
"""

from tensorir.relax.composites import activations, attention, linear, normalization, shapes

__all__ = ["activations", "attention", "linear", "normalization", "shapes"]
