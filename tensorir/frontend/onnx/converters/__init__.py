"""Converters of ONNX operators, one module each family.

The modules: `activations`, `classical`, `control_flow`, `conversions`, `convolutions`, `creation`,
`elementwise`, `images`, `indexing`, `linear_algebra`, `normalizations`, `pooling`, `quantization`,
`random_numbers`, `recurrent`, `reductions`, `sequences`, `shapes`, `training`.
`recurrent`, `reductions`, `sequences`, `shapes`, `signals`.
"""

from tensorir.frontend.onnx.converters import (
    activations,
    classical,
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
    random_numbers,
    recurrent,
    reductions,
    sequences,
    shapes,
    signals,
    training,
)

__all__ = [
    "activations",
    "classical",
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
    "random_numbers",
    "recurrent",
    "reductions",
    "sequences",
    "shapes",
    "signals",
    "training",
]
