"""A cache key for calls of operators: struct infos and attributes.

A module has many calls that differ only in their values; the properties of a formula are computed
once for all of them.
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
    """Return a key that is equal for calls of a formula with equal results.

    Symbolic sizes are compared by identity, so a cache entry must keep them alive. None if an
    operand has no key.
    """
    parts = [_argument_key(arg) for arg in args]
    return None if _NONE in parts else (tuple(parts), repr(attrs))


class KnownCalls(Generic[V]):
    """A cache of a property of a formula's calls, by their keys."""

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
        """Return the property of a call; `work_out` computes it if it is not cached."""
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
        # Its value may be a number in the formula.
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
