"""Converters of ONNX operators, one module each family.

The modules: `elementwise`.
"""

from tensorir.frontend.onnx.converters import elementwise

__all__ = ["elementwise"]
