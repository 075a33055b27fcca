"""Elements in another order, or repeated."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir import te
from tensorir.errors import IRValueError
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.ops import cast, const
from tensorir.relax.declaration import operator
from tensorir.relax.dimension_order import axes as order_of
from tensorir.te.tensor import Tensor
from tensorir.topi.broadcast import element, shape_text
from tensorir.topi.extents import (
    as_divisor,
    axes_of,
    axis_of,
    each_axis_of,
    is_number,
    of_sizes,
    product,
)
from tensorir.topi.reshaping import reshaped


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
    analyzer = of_sizes(x.shape, shape)
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
    """Return the elements moved by `shift` along axes; elements beyond the end move to the
    beginning.

    Without axes they move in row-major order.
    """
    if axis is None:
        flat = reshaped(data, _flat(data), "T_reshape")
        return reshaped(roll(flat, shift, 0), data.shape, "T_reshape")
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
    return [of_sizes(x.shape).simplify(product(x.shape))]


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
        flat = reshaped(data, _flat(data), "T_reshape")
        return repeat(flat, repeats, 0)
    k = axis_of(axis, data.ndim)
    shape = [*data.shape[:k], data.shape[k] * repeats, *data.shape[k + 1 :]]
    times = IntImm(INT64, max(repeats, 1))
    return te.compute(
        shape, lambda *i: data[(*i[:k], te.floordiv(i[k], times), *i[k + 1 :])], name="T_repeat"
    )
