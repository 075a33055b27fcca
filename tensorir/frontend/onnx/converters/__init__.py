"""Converters of ONNX operators, one module each family.

The modules: `control_flow`, `conversions`, `elementwise`.
"""

from tensorir.frontend.onnx.converters import control_flow, conversions, elementwise

__all__ = ["control_flow", "conversions", "elementwise"]
