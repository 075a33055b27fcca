"""Converters of ATen's operators; importing a module adds its converters to the table.

The modules: `activations`, `arithmetic`, `attention`, `convolutions`, `creation`, `indexing`,
`linear`, `normalizations`, `passing`, `pooling`, `reductions`, `resizing`, `shapes`,
`sorting`.
"""

from tensorir.frontend.torch.operators import (
    activations,
    arithmetic,
    attention,
    convolutions,
    creation,
    indexing,
    linear,
    normalizations,
    passing,
    pooling,
    reductions,
    resizing,
    shapes,
    sorting,
)

__all__ = [
    "activations",
    "arithmetic",
    "attention",
    "convolutions",
    "creation",
    "indexing",
    "linear",
    "normalizations",
    "passing",
    "pooling",
    "reductions",
    "resizing",
    "shapes",
    "sorting",
]
