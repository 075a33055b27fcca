"""Operators of neural networks.

The modules: `activation`, `attention`, `columns`, `convolution`, `normalization`, `pad`, `pooling`,
`rearrange`, `recurrent`, `softmax`, `spatial`.
"""

from typing import Any

from tensorir.topi.names import formulas

_FORMULAS = formulas(__name__, "nn.")

__all__ = sorted(_FORMULAS)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


globals().update(_FORMULAS)
