"""Converters of ONNX operators, one module each family.

The modules: `conversions`, `elementwise`.
"""

from tensorir.frontend.onnx.converters import conversions, elementwise

__all__ = ["conversions", "elementwise"]
