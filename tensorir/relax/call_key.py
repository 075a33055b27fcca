"""A key of everything that the result of an operator depends on: struct infos and attributes.

A module has many calls that are the same but for the values, and what follows from a formula is
worked out once for them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from tensorir.arith.opaque import expr_key
from tensorir.nodes.expr import GlobalVar, IntImm, PrimExpr
from tensorir.relax.expr import Constant, GraphExpr, StringValue, Tuple
from tensorir.relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

V = TypeVar("V")


def call_key(args: Sequence[GraphExpr | GlobalVar], attrs: Mapping[str, Any]) -> Hashable | None:
    """Return a key that calls of a formula have in common if they give the same.

    Symbolic sizes are compared by identity, so an entry under a key has to keep them alive. None
    for operands without such a key.
    """
    parts = [_argument_key(arg) for arg in args]
    return None if _NONE in parts else (tuple(parts), repr(attrs))


class KnownCalls(Generic[V]):
    """Something that follows from calls of a formula, and is remembered by their keys."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[V, list[StructInfo]]] = {}
        """The cached results, and the operands whose sizes the key compares by identity."""

    def of(
        self,
        args: Sequence[GraphExpr | GlobalVar],
        attrs: Mapping[str, Any],
        work_out: Callable[[], V],
    ) -> V:
        """Return what follows from a call, worked out now if it is not known."""
        key = call_key(args, attrs)
        if key is None:
            return work_out()
        if key not in self._known:
            found = work_out()
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            kept = [arg.struct_info for arg in args if isinstance(arg, GraphExpr)]
            self._known[key] = found, kept
        return self._known[key][0]


_MOST_KNOWN: Final = 1 << 12
"""The number of calls of an operator that are cached."""
_NONE: Final = object()


def _argument_key(arg: GraphExpr | GlobalVar) -> Hashable:
    if isinstance(arg, GlobalVar):
        return _NONE
    if isinstance(arg, Constant) and arg.source.shape == ():
        # It may be a number in the formula.
        return arg.data.tobytes(), _info_key(arg.struct_info)
    if isinstance(arg, Tuple):
        keys = tuple(map(_argument_key, arg.elements))
        return _NONE if _NONE in keys else keys
    return arg.value if isinstance(arg, StringValue) else _info_key(arg.struct_info)


def _info_key(info: StructInfo) -> Hashable:
    if isinstance(info, TensorStructInfo):
        return _extents_key(info.shape), info.ndim, info.dtype
    if isinstance(info, ShapeStructInfo):
        return "shape", _extents_key(info.values), info.ndim
    if isinstance(info, PrimStructInfo) and info.value is not None:
        return "number", info.dtype, _extent_key(info.value)
    if isinstance(info, TupleStructInfo):
        keys = tuple(map(_info_key, info.elements))
        return _NONE if _NONE in keys else keys
    return _NONE


def _extents_key(extents: Sequence[PrimExpr] | None) -> Hashable:
    return None if extents is None else tuple(map(_extent_key, extents))


def _extent_key(extent: PrimExpr) -> Hashable:
    key: Hashable = extent.value if isinstance(extent, IntImm) else expr_key(extent)
    return key
