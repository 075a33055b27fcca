"""Converters of ONNX operators, one module each family.

The modules: `activations`, `control_flow`, `conversions`, `convolutions`, `creation`,
`elementwise`, `images`, `indexing`, `linear_algebra`, `normalizations`, `pooling`, `quantization`,
`recurrent`, `reductions`, `sequences`, `shapes`, `signals`.
"""

from tensorir.frontend.onnx.converters import (
    activations,
    control_flow,
    conversions,
    convolutions,
    creation,
    elementwise,
    images,
    indexing,
    linear_algebra,
    normalizations,
    pooling,
    quantization,
    recurrent,
    reductions,
    sequences,
    shapes,
    signals,
)

__all__ = [
    "activations",
    "control_flow",
    "conversions",
    "convolutions",
    "creation",
    "elementwise",
    "images",
    "indexing",
    "linear_algebra",
    "normalizations",
    "pooling",
    "quantization",
    "recurrent",
    "reductions",
    "sequences",
    "shapes",
    "signals",
]
