"""Converters of ONNX operators, one module each family.

The modules: `activations`, `conversions`, `convolutions`, `creation`, `elementwise`, `images`,
`indexing`, `linear_algebra`, `normalizations`, `pooling`, `reductions`, `shapes`.
"""

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
