"""Struct infos: the kind, shape and dtype of a value of a graph function, before it runs.

A `StructInfo` describes a set of values; `ObjectStructInfo` describes all values. Containment of
these sets is in `tensorir.relax.relations`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.dtype import INT64, DataType
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.node import Node, part, parts
from tensorir.nodes.ops import as_expr, const

UNKNOWN_NDIM: Final = -1
Path: TypeAlias = tuple[int, ...]
"""The field indices that lead from a value to a part of it, the outermost tuple first."""


class StructInfo(Node):
    """The base class of descriptions of values."""

    __slots__ = ()
    describes = True


class ObjectStructInfo(StructInfo):
    """Describes every value."""

    __slots__ = ()


class PrimStructInfo(StructInfo):
    """A scalar that shapes may depend on; `value` if it is known."""

    fields = ("dtype", part("value", optional=True))
    __slots__ = fields

    def __init__(self, dtype: str | PrimExpr, value: PrimExpr | None = None) -> None:
        """Build from a dtype, or from a value, whose dtype is used."""
        given = dtype if isinstance(dtype, PrimExpr) else value
        self.dtype = dtype.dtype if isinstance(dtype, PrimExpr) else DataType(dtype)
        self.value = given


class ShapeStructInfo(StructInfo):
    """A shape as a value: a tuple of int64; `values` if they are known, else their number."""

    fields = ("ndim", parts("values", optional=True))
    __slots__ = fields

    def __init__(
        self, values: Iterable[PrimExpr | int] | None = None, ndim: int = UNKNOWN_NDIM
    ) -> None:
        self.values, self.ndim = _known_shape(values, ndim)


class TensorStructInfo(StructInfo):
    """An array in memory.

    `shape` is a tuple of int64 expressions, None if it is unknown; `ndim` is the number of
    dimensions, -1 if it is unknown; `dtype` is None if it is unknown.
    """

    fields = (parts("shape", optional=True), "ndim", "dtype")
    __slots__ = fields

    def __init__(
        self,
        shape: Iterable[PrimExpr | int] | None = None,
        dtype: str | None = "float32",
        ndim: int = UNKNOWN_NDIM,
    ) -> None:
        self.shape, self.ndim = _known_shape(shape, ndim)
        known = None if dtype is None else DataType(dtype)
        self.dtype = None if known is None or known.bits == 0 else known

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """The shape as numbers; None if it is unknown or depends on variables."""
        if self.shape is None:
            return None
        sizes = tuple(n.value for n in self.shape if isinstance(n, IntImm))
        return sizes if len(sizes) == len(self.shape) else None

    @property
    def static_bytes(self) -> int | None:
        """The bytes of the array; None if shape or dtype are unknown or depend on variables."""
        shape = self.static_shape
        return None if shape is None or self.dtype is None else math.prod(shape) * self.dtype.nbytes


class TupleStructInfo(StructInfo):
    """Several values; without fields it describes a call that returns nothing."""

    fields = (parts("elements"),)
    __slots__ = fields

    def __init__(self, elements: Iterable[StructInfo] = ()) -> None:
        self.elements = tuple(elements)

    def __len__(self) -> int:
        return len(self.elements)


class FuncStructInfo(StructInfo):
    """A function; `params` is None for a function that accepts any arguments."""

    fields = (parts("params", optional=True), part("ret"), "purity")
    __slots__ = fields

    def __init__(
        self, params: Sequence[StructInfo] | None, ret: StructInfo, purity: bool = True
    ) -> None:
        self.params = None if params is None else tuple(params)
        self.ret = ret
        self.purity = purity

    @staticmethod
    def opaque_func(*, ret: StructInfo | None = None, purity: bool = False) -> FuncStructInfo:
        """Return the struct info of a function with unknown parameters."""
        return FuncStructInfo(None, ObjectStructInfo() if ret is None else ret, purity)


OBJECT: Final = ObjectStructInfo()
VOID: Final = TupleStructInfo()


def is_void(info: StructInfo) -> bool:
    """Return True if a struct info describes a call that returns nothing."""
    return isinstance(info, TupleStructInfo) and not info.elements


def fields_of(info: StructInfo, path: Path = ()) -> Iterator[tuple[Path, StructInfo]]:
    """Yield the struct infos of the leaves of a value, with their paths."""
    if isinstance(info, TupleStructInfo):
        for k, part in enumerate(info.elements):
            yield from fields_of(part, (*path, k))
    else:
        yield path, info


def leaves(info: StructInfo) -> list[StructInfo]:
    """Return the struct infos of a value's parts, in order, with nested tuples flattened."""
    return [leaf for _, leaf in fields_of(info)]


def assemble(info: StructInfo, parts: Mapping[Path, Any], path: Path = ()) -> Any:
    """Return a value as nested tuples, given its leaves by their paths."""
    if isinstance(info, TupleStructInfo):
        return tuple(assemble(x, parts, (*path, k)) for k, x in enumerate(info.elements))
    return parts[path]


def defining_extents(info: StructInfo) -> Sequence[PrimExpr]:
    """Return the integers in a struct info.

    A parameter or `match_cast` defines the variables among them.
    """
    if isinstance(info, TupleStructInfo):
        return [extent for element in info.elements for extent in defining_extents(element)]
    if isinstance(info, TensorStructInfo):
        return info.shape or ()
    if isinstance(info, ShapeStructInfo):
        return info.values or ()
    if isinstance(info, PrimStructInfo):
        return () if info.value is None else (info.value,)
    return ()


def as_shape(values: Iterable[PrimExpr | int]) -> tuple[PrimExpr, ...]:
    """Return extents as int64 expressions. Raises IRTypeError for other values."""
    shape = []
    for value in values:
        extent = const(value, INT64) if type(value) is int else as_expr(value)
        if isinstance(extent, IntImm) and extent.dtype is not INT64:
            extent = const(extent.value, INT64)
        if extent.dtype is not INT64:
            raise IRTypeError(
                f"an extent of a graph function must be int64, got {extent} of {extent.dtype}; "
                "declare its variables by T.int64()"
            )
        if isinstance(extent, IntImm) and extent.value < 0:
            raise IRValueError(f"an extent must be at least 0, got {extent.value}")
        shape.append(extent)
    return tuple(shape)


def _known_shape(
    values: Iterable[PrimExpr | int] | None, ndim: int
) -> tuple[tuple[PrimExpr, ...] | None, int]:
    """Return a shape (None if unknown) and its number of dimensions.

    Raises IRValueError if they differ.
    """
    if ndim < UNKNOWN_NDIM:
        raise IRValueError(f"ndim must be at least 0, or -1 for unknown, got ndim={ndim}")
    if values is None:
        return (() if ndim == 0 else None), ndim
    shape = as_shape(values)
    if ndim not in (UNKNOWN_NDIM, len(shape)):
        raise IRValueError(f"a shape of {len(shape)} dimension(s) was given with ndim={ndim}")
    return shape, len(shape)
