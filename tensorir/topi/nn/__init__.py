"""Operators of neural networks.

The modules: `activation`, `attention`, `columns`, `convolution`, `normalization`, `pad`, `pooling`,
`rearrange`, `recurrent`, `rotary`, `softmax`, `spatial`.
"""

from typing import TYPE_CHECKING, Any

from tensorir.topi.names import formulas

_FORMULAS = formulas(__name__, "nn.")

__all__ = sorted(_FORMULAS)


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


globals().update(_FORMULAS)
