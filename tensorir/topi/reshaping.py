"""Operators that change the shape or the order of elements, or repeat them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tensorir import te
from tensorir.arith import Analyzer
from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.buffer import Range
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.ops import cast, const
from tensorir.relax.declaration import operator
from tensorir.relax.dimension_order import axes as order_of
from tensorir.relax.expr import GraphExpr, PrimValue, ShapeExpr, Tuple
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.te.tensor import Tensor
from tensorir.topi.broadcast import element, shape_text
from tensorir.topi.extents import (
    as_divisor,
    axes_of,
    axis_of,
    each_axis_of,
    in_order,
    is_number,
    product,
    size_analyzer,
)


def _target(arguments: dict[str, Any]) -> dict[str, Any]:
    """Replace 0 and -1 in the shape of a call of `reshape`, if the shape is a list."""
    shape, x = arguments.get("shape"), arguments.get("x")
    if isinstance(shape, Tuple):
        shape = shape.elements
    if isinstance(shape, (int, PrimExpr, PrimValue)):
        shape = [shape]
    if not isinstance(shape, (list, tuple)) or not isinstance(x, GraphExpr):
        return arguments
    wanted = [_plain(extent) for extent in shape]
    if 0 not in wanted and -1 not in wanted:
        return arguments
    info = x.struct_info
    if not isinstance(info, TensorStructInfo) or info.shape is None:
        raise IRTypeError(f"0 and -1 need the shape of x, which is {info}; state it by match_cast")
    return {**arguments, "shape": ShapeExpr(resolved_shape(info.shape, wanted))}


def _plain(extent: Any) -> Any:
    value = extent.value if isinstance(extent, PrimValue) else extent
    return value.value if isinstance(value, IntImm) else value


def resolved_shape(
    source: Sequence[PrimExpr], wanted: Sequence[PrimExpr | int]
) -> list[PrimExpr | int]:
    """Return a shape with 0 replaced by the source's extent, and -1 by the remaining size.

    Raises IRValueError if such an extent does not exist.
    """
    shape: list[PrimExpr | int] = []
    for k, extent in enumerate(wanted):
        if isinstance(extent, int) and extent == 0:
            if k >= len(source):
                raise IRValueError(
                    f"dimension {k} of the new shape is 0, which copies that of x, but x has "
                    f"the shape {shape_text(source)}"
                )
            shape.append(source[k])
        else:
            shape.append(extent)
    unknown = [k for k, n in enumerate(shape) if isinstance(n, int) and n == -1]
    if len(unknown) > 1:
        raise IRValueError("only one dimension of the new shape may be -1")
    if unknown:
        others = [const(n, INT64) if isinstance(n, int) else n for n in shape]
        del others[unknown[0]]
        shape[unknown[0]] = _inferred_extent(source, others)
    return shape


def _inferred_extent(source: Sequence[PrimExpr], others: Sequence[PrimExpr]) -> PrimExpr:
    """Return the number of elements of the source divided by the product of other extents."""
    analyzer = size_analyzer(source, others)
    # Common factors of both sides cancel, even if they may be 0.
    rest = list(source)
    divisors = []
    for extent in others:
        same = [k for k, n in enumerate(rest) if analyzer.can_prove_equal(n, extent)]
        if same:
            del rest[same[0]]
        else:
            divisors.append(extent)
    total, divisor = product(rest), product(divisors)
    if isinstance(divisor, IntImm) and divisor.value == 0:
        raise IRValueError("-1 is undefined if another dimension of the new shape is 0")
    if analyzer.can_prove(te.floormod(total, divisor) > 0):
        raise IRValueError(
            f"-1 has no value: {shape_text(source)} divided by {shape_text(others)} leaves a "
            "remainder"
        )
    return analyzer.simplify(te.floordiv(total, divisor))


@operator("reshape", prepare=_target)
def reshape(x: Tensor, shape: Sequence[PrimExpr]) -> Tensor:
    """Return the elements in row-major order in another shape.

    In a list, a dimension of 0 keeps the extent of `x`, and -1 is the remaining size; a ShapeExpr
    is used without these rules. If it cannot be proved that the numbers of elements are equal, they
    are assumed to be.
    """
    return reshape_to(x, shape, "T_reshape")


@operator("flatten")
def flatten(x: Tensor) -> Tensor:
    """Return the elements in row-major order, in one dimension."""
    return reshape_to(x, [size_analyzer(x.shape).simplify(product(x.shape))], "T_reshape")


@operator("expand_dims")
def expand_dims(x: Tensor, axis: int | Sequence[int]) -> Tensor:
    """Return `x` with dimensions of extent 1 inserted at `axis` of the result."""
    count = 1 if isinstance(axis, int) else len(axis)
    new = axes_of(axis, x.ndim + count)
    extents = iter(x.shape)
    shape = [const(1, INT64) if k in new else next(extents) for k in range(x.ndim + count)]
    return te.compute(
        shape, lambda *i: x[tuple(v for k, v in enumerate(i) if k not in new)], name="expand_dims"
    )


@operator("squeeze")
def squeeze(x: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """Return `x` without the dimensions `axis`, which have extent 1 (None: all of them)."""
    if axis is None:
        squeezed: tuple[int, ...] = tuple(k for k, n in enumerate(x.shape) if is_number(n, 1))
    else:
        squeezed = axes_of(axis, x.ndim)
    for k in squeezed:
        if isinstance(x.shape[k], IntImm) and not is_number(x.shape[k], 1):
            raise IRValueError(f"dimension {k} of {shape_text(x.shape)} is not 1")
    shape = [n for k, n in enumerate(x.shape) if k not in squeezed]

    def element(*indices: PrimExpr) -> PrimExpr:
        own = iter(indices)
        return x[tuple(const(0, INT64) if k in squeezed else next(own) for k in range(x.ndim))]

    return te.compute(shape, element, name="T_squeeze")


def reshape_to(x: Tensor, shape: Sequence[PrimExpr], name: str) -> Tensor:
    """Return a tensor in another shape. Raises IRValueError for another number of elements."""
    groups = list(_groups(x.shape, shape))

    def element(*indices: PrimExpr) -> PrimExpr:
        analyzer = Analyzer()
        for index, extent in zip(indices, shape, strict=True):
            if isinstance(index, Var) and not is_number(extent, 0):
                analyzer.bind(index, Range(extent))
        own: list[PrimExpr] = []
        for group in groups:
            source = x.shape[group.source]
            position = in_order(indices[group.target], shape[group.target])
            own += _coordinates(analyzer, position, source)
        return x[tuple(own)]

    return te.compute(shape, element, name=name)


class _Group(NamedTuple):
    """Adjacent dimensions of source and target with equal numbers of elements."""

    source: slice
    target: slice


def _groups(source: Sequence[PrimExpr], target: Sequence[PrimExpr]) -> Iterator[_Group]:
    """Yield the smallest groups of dimensions.

    The last group is assumed to have equal numbers of elements.
    """
    analyzer = size_analyzer(source, target)
    i = j = 0
    while i < len(source) or j < len(target):
        for length in range(1, len(source) - i + len(target) - j + 1):
            ends = [(i + a, j + length - a) for a in range(length + 1)]
            found = next(
                (
                    (a, b)
                    for a, b in ends
                    if a <= len(source)
                    and b <= len(target)
                    and analyzer.can_prove_equal(product(source[i:a]), product(target[j:b]))
                ),
                None,
            )
            if found is not None:
                break
        else:
            found = len(source), len(target)
            if analyzer.can_prove(product(source) != product(target)):
                raise IRValueError(
                    f"a tensor of shape {shape_text(source)} has another number of elements than "
                    f"{shape_text(target)}"
                )
        yield _Group(slice(i, found[0]), slice(j, found[1]))
        i, j = found


def _coordinates(
    analyzer: Analyzer, position: PrimExpr, shape: Sequence[PrimExpr]
) -> list[PrimExpr]:
    """Return the indices of the element at a position in row-major order."""
    found: list[PrimExpr] = []
    for k in reversed(range(len(shape))):
        if is_number(shape[k], 1) or is_number(shape[k], 0):
            found.append(const(0, INT64))
        elif all(is_number(n, 1) for n in shape[:k]):
            found.append(analyzer.simplify(position))
        else:
            found.append(analyzer.simplify(te.floormod(position, shape[k])))
            position = te.floordiv(position, shape[k])
    return found[::-1]


@operator("unflatten")
def unflatten(x: Tensor, axis: int, sizes: Sequence[PrimExpr]) -> Tensor:
    """Return `x` with one dimension split into several dimensions with the same product."""
    k = axis_of(axis, x.ndim)
    return reshape_to(x, [*x.shape[:k], *sizes, *x.shape[k + 1 :]], "T_reshape")


@operator("permute_dims")
def permute_dims(x: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Return `x` with its dimensions in the order `axes`; reversed by default."""
    order = tuple(reversed(range(x.ndim))) if axes is None else each_axis_of(axes, x.ndim)
    if len(order) != x.ndim:
        raise IRValueError(f"axes must be a permutation of {x.ndim} dimension(s), got {order}")
    places = {axis: k for k, axis in enumerate(order)}
    return te.compute(
        [x.shape[axis] for axis in order],
        lambda *i: x[tuple(i[places[k]] for k in range(x.ndim))],
        name="T_transpose",
    )


@operator("broadcast_to")
def broadcast_to(x: Tensor, shape: Sequence[PrimExpr]) -> Tensor:
    """Return `x` broadcast to a shape."""
    analyzer = size_analyzer(x.shape, shape)
    pairs = zip(reversed(x.shape), reversed(shape), strict=False)
    fits = x.ndim <= len(shape) and not any(
        not is_number(own, 1) and analyzer.can_prove(own != new) for own, new in pairs
    )
    if not fits:
        raise IRValueError(f"{shape_text(x.shape)} does not broadcast to {shape_text(shape)}")
    return te.compute(shape, lambda *i: element(x, i), name="T_broadcast_to")


@operator("flip", dimension_order=order_of("axis"))
def flip(data: Tensor, axis: int | Sequence[int]) -> Tensor:
    """Return the elements in reverse order along axes."""
    axes = axes_of(axis, data.ndim)
    return te.compute(
        data.shape,
        lambda *i: data[tuple(n - 1 - v if k in axes else v for k, (v, n) in
                              enumerate(zip(i, data.shape, strict=True)))],
        name="T_flip",
    )  # fmt: skip


@operator("reverse_sequence")
def reverse_sequence(
    data: Tensor, seq_lengths: Tensor, seq_axis: int = 1, batch_axis: int = 0
) -> Tensor:
    """Return each sequence with its first `seq_lengths[b]` elements reversed."""
    seq, batch = axis_of(seq_axis, data.ndim), axis_of(batch_axis, data.ndim)

    def reversed_element(*indices: PrimExpr) -> PrimExpr:
        length, at = cast(INT64, seq_lengths[indices[batch]]), indices[seq]
        own = te.if_then_else(at < length, length - 1 - at, at)
        return data[(*indices[:seq], own, *indices[seq + 1 :])]

    return te.compute(data.shape, reversed_element, name="T_reverse_sequence")


@operator("roll", dimension_order=order_of("axis"))
def roll(
    data: Tensor, shift: int | Sequence[int], axis: int | Sequence[int] | None = None
) -> Tensor:
    """Return the elements moved by `shift` along axes, with wrap-around at the end.

    Without axes they move in row-major order.
    """
    if axis is None:
        flat = reshape_to(data, _flat(data), "T_reshape")
        return reshape_to(roll(flat, shift, 0), data.shape, "T_reshape")
    axes = each_axis_of((axis,) if isinstance(axis, int) else axis, data.ndim)
    shifts = (shift,) * len(axes) if isinstance(shift, int) else tuple(shift)
    if len(shifts) != len(axes):
        raise IRValueError(f"{len(shifts)} shifts are given for {len(axes)} axes")
    by = dict(zip(axes, shifts, strict=True))
    return te.compute(
        data.shape,
        lambda *i: data[tuple(te.floormod(v - by[k], as_divisor(data.shape[k])) if k in by else v
                              for k, v in enumerate(i))],
        name="T_roll",
    )  # fmt: skip


def _flat(x: Tensor) -> list[PrimExpr]:
    return [size_analyzer(x.shape).simplify(product(x.shape))]


@operator("tile")
def tile(data: Tensor, repeats: Sequence[PrimExpr]) -> Tensor:
    """Return copies of `data` side by side: `repeats[k]` of them along axis k.

    The shorter of shape and repeats is extended by leading ones, as in NumPy.
    """
    rank = max(data.ndim, len(repeats))
    one = const(1, INT64)
    own = [*[one] * (rank - data.ndim), *data.shape]
    counts = [*[one] * (rank - len(repeats)), *repeats]
    front = rank - data.ndim

    def copied(*indices: PrimExpr) -> PrimExpr:
        return data[
            tuple(
                i if is_number(count, 1) else te.floormod(i, as_divisor(n))
                for i, n, count in list(zip(indices, own, counts, strict=True))[front:]
            )
        ]

    shape = [n * count for n, count in zip(own, counts, strict=True)]
    return te.compute(shape, copied, name="T_tile")


@operator("repeat", dimension_order=order_of("axis"))
def repeat(data: Tensor, repeats: int, axis: int | None = None) -> Tensor:
    """Return each element repeated `repeats` times along an axis; None flattens first."""
    if repeats < 0:
        raise IRValueError(f"repeats must not be negative, got {repeats}")
    if axis is None:
        flat = reshape_to(data, _flat(data), "T_reshape")
        return repeat(flat, repeats, 0)
    k = axis_of(axis, data.ndim)
    shape = [*data.shape[:k], data.shape[k] * repeats, *data.shape[k + 1 :]]
    times = IntImm(INT64, max(repeats, 1))
    return te.compute(
        shape, lambda *i: data[(*i[:k], te.floordiv(i[k], times), *i[k + 1 :])], name="T_repeat"
    )
