"""Converters of ONNX operators, one module each family.

The modules: `activations`, `contributed`, `control_flow`, `conversions`,
`convolutions`, `creation`, `elementwise`, `fused_attention`, `images`, `indexing`,
`linear_algebra`, `normalizations`, `pooling`, `quantization`, `random_numbers`, `recurrent`,
`reductions`, `sequences`, `shapes`.
"""

from tensorir.frontend.onnx.converters import (
    activations,
    contributed,
    control_flow,
    conversions,
    convolutions,
    creation,
    elementwise,
    fused_attention,
    images,
    indexing,
    linear_algebra,
    normalizations,
    pooling,
    quantization,
    random_numbers,
    recurrent,
    reductions,
    sequences,
    shapes,
)

__all__ = [
    "activations",
    "contributed",
    "control_flow",
    "conversions",
    "convolutions",
    "creation",
    "elementwise",
    "fused_attention",
    "images",
    "indexing",
    "linear_algebra",
    "normalizations",
    "pooling",
    "quantization",
    "random_numbers",
    "recurrent",
    "reductions",
    "sequences",
    "shapes",
]
