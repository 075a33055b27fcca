"""Slices with Python's rules, splits, and concatenations along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from tensorir import te
from tensorir.arith import Analyzer
from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.ops import as_expr, cast, const, select
from tensorir.relax.declaration import operator
from tensorir.relax.dimension_order import axes
from tensorir.relax.dimension_order import axes as axes_named
from tensorir.te.tensor import Tensor
from tensorir.topi.broadcast import same_dtype, shape_text
from tensorir.topi.extents import axis_of, each_axis_of, is_number, size_analyzer
from tensorir.topi.reshaping import expand_dims


class Part(NamedTuple):
    """A part of an axis: the `length` elements `begin, begin + step, ...`."""

    begin: PrimExpr
    step: int
    length: PrimExpr


def part_by_slice(
    extent: PrimExpr,
    begin: PrimExpr,
    end: PrimExpr,
    step: int,
    analyzer: Analyzer,
    assume_inbound: bool = False,
) -> Part:
    """Return the part of an axis that `[begin:end:step]` selects.

    Negative indices count from the end. Indices out of range are clamped, unless `assume_inbound`;
    then an index of unknown sign counts from the front.
    """
    zero = const(0, INT64)
    if isinstance(extent, IntImm) and isinstance(begin, IntImm) and isinstance(end, IntImm):
        found = range(*slice(begin.value, end.value, step).indices(extent.value))
        return Part(const(found.start, INT64), step, const(len(found), INT64))
    low, high = (zero, extent) if step > 0 else (const(-1, INT64), extent - 1)

    def normalize_index(index: PrimExpr) -> PrimExpr:
        if isinstance(index, IntImm):
            index = index + extent if index.value < 0 else index
        elif not analyzer.can_prove(index >= 0):
            if analyzer.can_prove(index < 0):
                index = index + extent
            elif not assume_inbound:
                index = select(index < 0, index + extent, index)
        inside = index if assume_inbound else te.max(low, te.min(high, index))
        return analyzer.simplify(inside)

    first, last = normalize_index(begin), normalize_index(end)
    distance = last - first if step > 0 else first - last
    length = te.floordiv(distance + (abs(step) - 1), const(abs(step), INT64))
    # The bounds of a full slice are ordered; the order of other bounds is unknown.
    length = analyzer.simplify(length)
    if not assume_inbound and not analyzer.can_prove(length >= 0):
        length = analyzer.simplify(te.max(length, zero))
    return Part(first, step, length)


def slice_parts(x: Tensor, parts: dict[int, Part], name: str) -> Tensor:
    """Return a tensor with parts of some axes."""

    def element(*i: PrimExpr) -> PrimExpr:
        return x[
            tuple(
                i[k] * parts[k].step + parts[k].begin if k in parts else i[k] for k in range(x.ndim)
            )
        ]

    shape = [parts[k].length if k in parts else n for k, n in enumerate(x.shape)]
    return te.compute(shape, element, name=name)


def parts_of_slices(
    x: Tensor,
    axes: Sequence[int],
    begin: Sequence[int | PrimExpr],
    end: Sequence[int | PrimExpr],
    strides: Sequence[int | PrimExpr] | None,
    assume_inbound: bool,
) -> dict[int, Part]:
    """Return the slices of axes, for the arguments of `strided_slice`."""
    own = each_axis_of(axes, x.ndim)
    steps: Sequence[int | PrimExpr] = [1] * len(own) if strides is None else strides
    if not len(own) == len(begin) == len(end) == len(steps):
        raise IRValueError(
            f"{len(own)} axes have {len(begin)} begin(s), {len(end)} end(s), {len(steps)} stride(s)"
        )
    bounds = [cast(INT64, as_expr(v)) for v in (*begin, *end)]
    analyzer = size_analyzer(x.shape, bounds)
    parts = {}
    for n, axis in enumerate(own):
        step = as_expr(steps[n])
        if not isinstance(step, IntImm) or step.value == 0:
            raise IRValueError(f"a stride must be a nonzero constant, got {step}")
        first, last = bounds[n], bounds[len(own) + n]
        parts[axis] = part_by_slice(
            x.shape[axis], first, last, step.value, analyzer, assume_inbound
        )
    return parts


@operator("strided_slice", dimension_order=axes_named("axes"))
def strided_slice(
    x: Tensor,
    axes: Sequence[int],
    begin: Sequence[int | PrimExpr],
    end: Sequence[int | PrimExpr],
    strides: Sequence[int | PrimExpr] | None = None,
    assume_inbound: bool = False,
) -> Tensor:
    """Return `x[begin:end:stride]` along axes, with Python's slicing rules, for any stride.

    Bounds may be symbolic; with `assume_inbound` they are assumed to be ordered and in range, which
    makes shapes simpler.
    """
    parts = parts_of_slices(x, axes, begin, end, strides, assume_inbound)
    return slice_parts(x, parts, "T_strided_slice_with_axes")


@operator("concat", dimension_order=axes("axis"))
def concat(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Return tensors concatenated along an axis; their other extents must be equal."""
    if not tensors:
        raise IRValueError("concatenate needs at least one tensor")
    same_dtype(*tensors)
    first = tensors[0]
    k = axis_of(axis, first.ndim)
    analyzer = size_analyzer(*(t.shape for t in tensors))
    for other in tensors[1:]:
        equal = other.ndim == first.ndim and all(
            n == k or analyzer.can_prove_equal(a, b)
            for n, (a, b) in enumerate(zip(first.shape, other.shape, strict=False))
        )
        if not equal:
            raise IRValueError(
                f"shapes {shape_text(first.shape)} and {shape_text(other.shape)} differ outside of "
                f"axis {k}"
            )
    begins: list[PrimExpr] = [const(0, INT64)]
    for tensor in tensors:
        begins.append(analyzer.simplify(begins[-1] + tensor.shape[k]))

    def element(*i: PrimExpr) -> PrimExpr:
        value: PrimExpr | None = None
        for tensor, begin in zip(tensors, begins[:-1], strict=True):
            if is_number(tensor.shape[k], 0) and len(tensors) > 1:
                continue
            own = tensor[(*i[:k], i[k] - begin, *i[k + 1 :])]
            value = own if value is None else te.if_then_else(i[k] >= begin, own, value)
        return tensors[0][i] if value is None else value

    return te.compute(
        [*first.shape[:k], begins[-1], *first.shape[k + 1 :]], element, name="T_concat"
    )


@operator("stack")
def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Return tensors of one shape along a new axis."""
    if not tensors:
        raise IRValueError("stack needs at least one tensor")
    k = axis_of(axis, tensors[0].ndim + 1)
    return concat([expand_dims(t, k) for t in tensors], k)


@operator("split", dimension_order=axes("axis"))
def split(x: Tensor, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Return parts along an axis: a number of equal parts, or the parts between indices.

    If the length is not a multiple of the number of parts, the last parts are shorter.
    """
    k = axis_of(axis, x.ndim)
    extent = x.shape[k]
    analyzer = size_analyzer(x.shape)
    cuts: list[PrimExpr]
    if isinstance(indices_or_sections, int):
        if indices_or_sections < 1:
            raise IRValueError(f"the number of parts must be at least 1, got {indices_or_sections}")
        length = te.ceildiv(extent, indices_or_sections)
        cuts = [te.min(length * part, extent) for part in range(indices_or_sections)]
    else:
        for before, index in zip((0, *indices_or_sections), indices_or_sections, strict=False):
            if index < before:
                raise IRValueError(f"indices must ascend from 0, got {indices_or_sections}")
        cuts = [const(0, INT64), *(te.min(const(c, INT64), extent) for c in indices_or_sections)]
    begins = [analyzer.simplify(cut) for cut in (*cuts, extent)]
    return [
        part_of(x, k, begin, analyzer.simplify(end - begin), f"T_split_{n}" if n else "T_split")
        for n, (begin, end) in enumerate(pairwise(begins))
    ]


def part_of(x: Tensor, axis: int, begin: PrimExpr, length: PrimExpr, name: str) -> Tensor:
    """Return `length` elements of an axis, starting at `begin`."""
    return te.compute(
        [*x.shape[:axis], length, *x.shape[axis + 1 :]],
        lambda *i: x[(*i[:axis], i[axis] + begin, *i[axis + 1 :])],
        name=name,
    )


@operator("meshgrid")
def meshgrid(tensors: Sequence[Tensor], indexing: str = "ij") -> list[Tensor]:
    """Return the coordinates of a grid: vector k along axis k, broadcast along the other axes.

    With `indexing="xy"` the first two axes are swapped.
    """
    if indexing not in ("ij", "xy"):
        raise IRValueError(f'indexing must be "ij" or "xy", got {indexing!r}')
    for tensor in tensors:
        if tensor.ndim > 1:
            raise IRTypeError(f"meshgrid needs vectors, got {shape_text(tensor.shape)}")
    lengths = [t.shape[0] if t.ndim else IntImm(INT64, 1) for t in tensors]
    order = list(range(len(tensors)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = [1, 0]
    shape = [lengths[n] for n in order]
    return [
        te.compute(shape, _along(tensor, order.index(n)), name="T_meshgrid")
        for n, tensor in enumerate(tensors)
    ]


def _along(tensor: Tensor, axis: int) -> Callable[..., PrimExpr]:
    return lambda *i: tensor[i[axis]] if tensor.ndim else tensor()
