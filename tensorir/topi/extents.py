"""Extents of dimensions: axis numbers, products, and facts about sizes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from tensorir.arith import Analyzer
from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.buffer import Range
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.ops import cast, const
from tensorir.rewriting.visit import collect_vars
from tensorir.te.tensor import Tensor


def axis_of(axis: int, rank: int) -> int:
    """Return an axis as a nonnegative number; a negative axis counts from the end.

    Raises IRValueError for an axis out of range.
    """
    if not -rank <= axis < rank:
        raise IRValueError(
            f"axis {axis} is out of bounds for rank {rank}; axes are {-rank}..{rank - 1}"
        )
    return axis % rank


def axes_of(axes: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """Return axes as nonnegative numbers in increasing order.

    Raises IRValueError for repeated axes.
    """
    found = sorted(axis_of(a, rank) for a in ((axes,) if isinstance(axes, int) else axes))
    if len(set(found)) < len(found):
        raise IRValueError(f"axes {tuple(axes)} name an axis twice")  # type: ignore[arg-type]
    return tuple(found)


def each_axis_of(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Return axes as nonnegative numbers in the order given.

    Raises IRValueError for repeated axes.
    """
    axes_of(axes, rank)
    return tuple(axis % rank for axis in axes)


def check_rank(name: str, tensor: Tensor, rank: int) -> None:
    """Raise IRValueError unless the operand called `name` has the rank `rank`."""
    if tensor.ndim != rank:
        raise IRValueError(f"{name} must have {rank} dimensions, got {tensor.ndim}")


def check_floats(name: str, tensor: Tensor) -> None:
    """Raise IRTypeError unless the operand called `name` holds floating-point numbers."""
    if not tensor.dtype.is_floating:
        raise IRTypeError(
            f"{name} must have a floating-point dtype, got {tensor.dtype}; convert by astype"
        )


def check_equal(a: PrimExpr, what_a: str, b: PrimExpr, what_b: str) -> None:
    """Raise IRValueError unless two extents are provably equal."""
    if Analyzer().can_prove_equal(a, b):
        return
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        raise IRValueError(f"{what_a} is {a.value}, but {what_b} is {b.value}")
    raise IRValueError(f"{what_a} is {a} and may differ from {what_b}, {b}; state it by match_cast")


def extent_text(extent: PrimExpr) -> str:
    """Return an extent as text for messages."""
    return str(extent.value) if isinstance(extent, IntImm) else str(extent)


def known_extent(extent: PrimExpr, what: str) -> int:
    """Return an extent that must be constant. Raises IRValueError for a symbolic extent."""
    if not isinstance(extent, IntImm):
        raise IRValueError(f"{what} must be a known number, got {extent}; state it by match_cast")
    return extent.value


def product(extents: Iterable[PrimExpr]) -> PrimExpr:
    """Return the product of extents as an int64, symbolic extents first."""
    number, result = 1, const(1, INT64)
    for extent in extents:
        if isinstance(extent, IntImm):
            number *= extent.value
        else:
            result = result * cast(INT64, extent)
    return result * const(number, INT64)


def in_order(indices: Sequence[PrimExpr], shape: Sequence[PrimExpr]) -> PrimExpr:
    """Return the position of an element in row-major order, an int64."""
    position: PrimExpr = const(0, INT64)
    for index, extent in zip(indices, shape, strict=True):
        position = position * extent + index
    return position


def is_number(extent: PrimExpr | int, value: int) -> bool:
    """Return True if an extent is this number."""
    known = extent.value if isinstance(extent, IntImm) else extent
    return isinstance(known, int) and known == value


def as_divisor(extent: PrimExpr) -> PrimExpr:
    """Return an extent as the divisor of an index; 0 becomes 1, as an empty axis lacks indices."""
    return const(1, extent.dtype) if is_number(extent, 0) else extent


_LARGE: Final = 1 << 30


def size_analyzer(*shapes: Sequence[PrimExpr], numbers: Collection[Var] = ()) -> Analyzer:
    """Return an analyzer with the sizes in shapes bound to non-negative values below 2**30.

    `numbers` are variables that are no sizes and may be negative.
    """
    analyzer = Analyzer()
    for var in {var: None for shape in shapes for n in shape for var in collect_vars(n)}:
        if var.dtype.is_int and var not in numbers:
            analyzer.bind(var, Range(const(0, var.dtype), const(_LARGE, var.dtype)))
    return analyzer


def simplified(extent: PrimExpr) -> PrimExpr:
    """Return an extent in its simplest form."""
    return Analyzer().simplify(extent)
