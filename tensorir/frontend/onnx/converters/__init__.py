"""Converters of ONNX operators, one module each family.

The modules: `control_flow`, `elementwise`.
"""

from tensorir.frontend.onnx.converters import control_flow, elementwise

__all__ = ["control_flow", "elementwise"]
