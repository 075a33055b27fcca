"""Scatter operators: elements at indices are replaced by, or combined with, updates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

from tensorir import te
from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import BufferLoad, IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.ops import all_of, const
from tensorir.nodes.stmt import (
    BufferStore,
    IfThenElse,
    SeqStmt,
    Stmt,
)
from tensorir.relax.declaration import operator
from tensorir.te.reduction import largest, smallest
from tensorir.te.tensor import Tensor
from tensorir.topi.block_nests import block_nest
from tensorir.topi.broadcast import broadcast_indices, same_dtype, shape_text
from tensorir.topi.extents import axis_of, each_axis_of, size_analyzer
from tensorir.topi.indexing import check_indices, normalize_index, stretched_indices, tuple_length
from tensorir.topi.joining import parts_of_slices

_COMBINED: Final[dict[str, Callable[[PrimExpr, PrimExpr], PrimExpr]]] = {
    "update": lambda _, new: new,
    "add": lambda old, new: old | new if old.dtype.is_bool else old + new,
    "mul": te.multiply,
    "max": largest.combine,
    "min": smallest.combine,
}

Reduction = Literal["update", "add", "mul", "max", "min"]
"""The new value of an element: the update, or a combination with it; bools are added by `or`."""


def _scatter(
    name: str,
    data: Tensor,
    indices: Sequence[Tensor],
    updates: Tensor,
    loops: Sequence[PrimExpr],
    in_order: Sequence[bool],
    place: Callable[[Sequence[PrimExpr], Sequence[Buffer]], list[PrimExpr]],
    update: Callable[[Sequence[PrimExpr], Buffer], PrimExpr],
    reduction: str,
) -> Tensor:
    """Return a copy of data, combined with an update at each iteration of loops.

    `place(axes, buffers of indices)` returns the indices, `update(axes, buffer of updates)` the
    update. Iterations of `in_order` loops may write to the same element, those of other loops must
    not. Indices out of range are skipped.
    """
    same_dtype(data, updates)
    combine = _COMBINED[reduction]
    kinds = [IterVar.OPAQUE if ordered else IterVar.DATA_PAR for ordered in in_order]

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        source, *buffers, given = ins
        result = outs[0]
        visible = {buffer.data: buffer for buffer in (*ins, result)}

        def copied(axes: Sequence[PrimExpr]) -> Stmt:
            return BufferStore(result, BufferLoad(source, axes), axes)

        def changed(axes: Sequence[PrimExpr]) -> Stmt:
            where = place(axes, buffers)
            value = combine(BufferLoad(result, where), update(axes, given))
            zero = const(0, INT64)
            limits = [
                limit
                for index, extent in zip(where, data.shape, strict=True)
                if not isinstance(index, Var)
                for limit in (index >= zero, index < extent)
            ]
            store = BufferStore(result, value, where)
            return IfThenElse(all_of(limits), store) if limits else store

        return SeqStmt(
            [
                block_nest(f"{name}_copy", data.shape, copied, visible),
                block_nest(f"{name}_update", loops, changed, visible, kinds=kinds),
            ]
        )

    created = te.extern(data.shape, [data, *indices, updates], body, name=name, dtype=data.dtype)
    assert isinstance(created, Tensor)
    return created


@operator("scatter_elements")
def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: Reduction = "update"
) -> Tensor:
    """Return `data` with each update stored at the index along an axis, and at its own position
    along the other axes.

    Updates of one element are applied in row-major order. Negative indices count from the end.
    """
    check_indices("indices", indices)
    k = axis_of(axis, data.ndim)
    analyzer = size_analyzer(data.shape, indices.shape, updates.shape)
    pairs = zip(indices.shape, updates.shape, strict=False)
    fits = indices.ndim == data.ndim == updates.ndim and not any(
        analyzer.can_prove(a != b) for a, b in pairs
    )
    if not fits:
        raise IRValueError(
            f"indices of shape {shape_text(indices.shape)} and updates of shape "
            f"{shape_text(updates.shape)} do not match data of {shape_text(data.shape)}"
        )

    def place(i: Sequence[PrimExpr], buffers: Sequence[Buffer]) -> list[PrimExpr]:
        index = normalize_index(BufferLoad(buffers[0], i), data.shape[k])
        return [*i[:k], index, *i[k + 1 :]]

    in_order = [n == k for n in range(data.ndim)]
    return _scatter(
        "T_scatter_elements", data, [indices], updates, indices.shape, in_order, place,
        lambda i, given: BufferLoad(given, i), reduction,
    )  # fmt: skip


@operator("scatter_nd")
def scatter_nd(
    data: Tensor, indices: Tensor, updates: Tensor, reduction: Reduction = "update"
) -> Tensor:
    """Return `data` with the slices at tuples of indices changed by updates.

    The tuples are in the last dimension of the indices. Updates of one element are applied in
    row-major order. Negative indices count from the end.
    """
    count = tuple_length(data, indices, 0)
    outer, rest = indices.shape[:-1], data.shape[count:]
    loops = [*outer, *rest]
    _check_updates(updates, loops)

    def place(i: Sequence[PrimExpr], buffers: Sequence[Buffer]) -> list[PrimExpr]:
        own = [BufferLoad(buffers[0], [*i[: len(outer)], const(n, INT64)]) for n in range(count)]
        places = [normalize_index(index, n) for index, n in zip(own, data.shape, strict=False)]
        return [*places, *i[len(outer) :]]

    in_order = [True] * len(outer) + [False] * len(rest)
    return _scatter(
        "T_scatter_nd", data, [indices], updates, loops, in_order, place,
        lambda i, given: BufferLoad(given, i), reduction,
    )  # fmt: skip


def _check_updates(updates: Tensor, shape: Sequence[PrimExpr]) -> None:
    analyzer = size_analyzer(updates.shape, shape)
    pairs = zip(updates.shape, shape, strict=False)
    if updates.ndim != len(shape) or any(analyzer.can_prove(a != b) for a, b in pairs):
        raise IRTypeError(
            f"updates must have the shape {shape_text(shape)}, got {shape_text(updates.shape)}"
        )


@operator("index_put")
def index_put(
    data: Tensor,
    indices: Sequence[Tensor],
    values: Tensor,
    accumulate: bool = False,
    axes: Sequence[int] | None = None,
) -> Tensor:
    """Return `data` after `data[indices] = values`, or `+=` to accumulate, by NumPy's rules.

    The indices are integer arrays for `axes`, by default the first axes, and broadcast together.
    The values broadcast to the indexed elements: the dimensions of the indices, then the other
    dimensions of `data`. Among several values for one element, the last one is kept.
    """
    shape = stretched_indices(data, indices)
    own = range(len(indices)) if axes is None else each_axis_of(axes, data.ndim)
    if len(own) != len(indices):
        raise IRValueError(f"{len(indices)} indices are given for {len(own)} axes")
    rest = [k for k in range(data.ndim) if k not in own]
    loops = [*shape, *(data.shape[k] for k in rest)]

    def place(i: Sequence[PrimExpr], buffers: Sequence[Buffer]) -> list[PrimExpr]:
        found = dict(zip(rest, i[len(shape) :], strict=True))
        for k, buffer in zip(own, buffers, strict=True):
            found[k] = normalize_index(_load(buffer, i[: len(shape)]), data.shape[k])
        return [found[k] for k in range(data.ndim)]

    in_order = [True] * len(shape) + [False] * len(rest)
    return _scatter(
        "T_index_put", data, list(indices), values, loops, in_order, place,
        lambda i, given: _load(given, i), "add" if accumulate else "update",
    )  # fmt: skip


def _load(buffer: Buffer, indices: Sequence[PrimExpr]) -> PrimExpr:
    return BufferLoad(buffer, broadcast_indices(indices, buffer.shape))


@operator("slice_scatter")
def slice_scatter(
    input_tensor: Tensor,
    src: Tensor,
    start: PrimExpr,
    end: PrimExpr,
    step: PrimExpr,
    axis: int = 0,
) -> Tensor:
    """Return a tensor in which `src` replaces a slice of an axis, with a positive step."""
    x = input_tensor
    same_dtype(x, src)
    k = axis_of(axis, x.ndim)
    if not isinstance(step, IntImm) or step.value < 1:
        raise IRValueError(f"the step must be a constant of at least 1, got {step}")
    part = parts_of_slices(x, [k], [start], [end], [step], False)[k]
    shape = [*x.shape[:k], part.length, *x.shape[k + 1 :]]
    analyzer = size_analyzer(x.shape, src.shape, shape)
    fits = src.ndim == x.ndim and not any(
        analyzer.can_prove(a != b) for a, b in zip(shape, src.shape, strict=True)
    )
    if not fits:
        raise IRTypeError(f"src has shape {shape_text(src.shape)}, the slice {shape_text(shape)}")

    def place(i: Sequence[PrimExpr], buffers: Sequence[Buffer]) -> list[PrimExpr]:
        return [*i[:k], i[k] * const(part.step, INT64) + part.begin, *i[k + 1 :]]

    return _scatter(
        "T_slice_scatter", x, [], src, shape, [False] * x.ndim, place,
        lambda i, given: BufferLoad(given, i), "update",
    )  # fmt: skip
