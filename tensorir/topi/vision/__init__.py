"""Operators of object detection; the modules: `roi_align`."""

from typing import TYPE_CHECKING, Any

from tensorir.topi.names import formulas

_FORMULAS = formulas(__name__, "vision.")

__all__ = sorted(_FORMULAS)


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


globals().update(_FORMULAS)
