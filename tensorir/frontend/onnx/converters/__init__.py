"""Converters of ONNX operators, one module each family.

The modules: `control_flow`, `conversions`, `elementwise`.
"""

from tensorir.frontend.onnx.converters import control_flow, conversions, elementwise

__all__ = ["control_flow", "conversions", "elementwise"]
The modules: `activations`, `conversions`, `convolutions`, `creation`, `elementwise`, `images`,
`indexing`, `linear_algebra`, `normalizations`, `pooling`, `reductions`, `shapes`.
from tensorir.frontend.onnx.converters import (
    activations,
    conversions,
    convolutions,
    creation,
    elementwise,
    images,
    indexing,
    linear_algebra,
    normalizations,
    pooling,
    reductions,
    shapes,
)
__all__ = [
    "activations",
    "conversions",
    "convolutions",
    "creation",
    "elementwise",
    "images",
    "indexing",
    "linear_algebra",
    "normalizations",
    "pooling",
    "reductions",
    "shapes",
]
