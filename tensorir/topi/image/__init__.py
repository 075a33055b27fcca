"""Operators of images; the modules: `coordinates`, `grid_sample`, `resize`."""

from typing import TYPE_CHECKING, Any

from tensorir.topi.names import formulas

_FORMULAS = formulas(__name__, "image.")

__all__ = sorted(_FORMULAS)


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


globals().update(_FORMULAS)
