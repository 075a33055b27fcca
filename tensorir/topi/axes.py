"""Axes and extents of tensors: counting from the last, products, what is known of sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from tensorir.arith import Analyzer
from tensorir.errors import IRValueError
from tensorir.nodes.buffer import Range
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.ops import cast, const
from tensorir.rewriting.visit import collect_vars


def axis_of(axis: int, ndim: int, name: str = "axis") -> int:
    """Return an axis counted from 0; IRValueError if a tensor of `ndim` dimensions has it not."""
    if not -ndim <= axis < ndim:
        raise IRValueError(f"{name} {axis} is not among those of {ndim} dimension(s)")
    return axis % ndim


def axes_of(axes: int | Sequence[int] | None, ndim: int, name: str = "axis") -> tuple[int, ...]:
    """Return axes counted from 0, all of them for None; IRValueError for one given twice."""
    if axes is None:
        return tuple(range(ndim))
    given = (axes,) if isinstance(axes, int) else tuple(axes)
    found = tuple(axis_of(axis, ndim, name) for axis in given)
    if len(set(found)) < len(found):
        raise IRValueError(f"{name} {given} names an axis twice")
    return found


def product(extents: Iterable[PrimExpr]) -> PrimExpr:
    """Return the product of extents, an int64."""
    numbers, result = [], const(1, INT64)
    for extent in extents:
        if isinstance(extent, IntImm):
            numbers.append(extent.value)
        else:
            result = result * cast(INT64, extent)
    number = math.prod(numbers)
    return const(number, INT64) if number == 0 else result * const(number, INT64)


def of_sizes(*shapes: Sequence[PrimExpr]) -> Analyzer:
    """Return an analyzer that knows that the sizes in shapes are not negative, nor huge."""
    analyzer = Analyzer()
    variables = {var: None for shape in shapes for n in shape for var in collect_vars(n)}
    for var in variables:
        if var.dtype.is_int:
            analyzer.bind(var, Range(const(0, var.dtype), const(1 << 30, var.dtype)))
    return analyzer


def in_order(indices: Sequence[PrimExpr], shape: Sequence[PrimExpr]) -> PrimExpr:
    """Return the position of an element in row-major order."""
    position: PrimExpr = const(0, INT64)
    for index, extent in zip(indices, shape, strict=True):
        position = position * extent + index
    return position


def is_one(extent: PrimExpr) -> bool:
    """Say whether an extent is the number 1."""
    return isinstance(extent, IntImm) and extent.value == 1


def number_of(extent: PrimExpr) -> int | None:
    """Return the number that an extent is, None for a symbolic one."""
    return extent.value if isinstance(extent, IntImm) else None
