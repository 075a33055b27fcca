"""Windows of an image as columns of a matrix, and sums of such columns as an image."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir import te
from tensorir.errors import IRValueError
from tensorir.nodes.expr import EQ, IntImm, PrimExpr
from tensorir.nodes.ops import as_expr, cast, compare, const, floordiv, floormod
from tensorir.relax.declaration import operator
from tensorir.te.tensor import Tensor
from tensorir.topi.broadcast import convert_dtype, sum_dtype
from tensorir.topi.extents import check_equal, check_rank, extent_text, product, simplified
from tensorir.topi.nn.spatial import Window, margins, padded, per_axis


@operator("nn.im2col")
def im2col(
    data: Tensor,
    kernel_size: Sequence[int],
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """Return the windows of `data[n, c, ...]` as `[n, c * taps, windows]`, padded with zeros."""
    rank = len(tuple(kernel_size))
    check_rank("data", data, rank + 2)
    windows = _windows(data.shape[2:], kernel_size, strides, padding, dilation)
    amounts = {k + 2: (w.before, w.behind) for k, w in enumerate(windows)}
    source = padded(data, amounts, const(0, data.dtype))
    taps = [w.taps for w in windows]
    counts = [w.count for w in windows]

    def element(n: PrimExpr, row: PrimExpr, column: PrimExpr) -> PrimExpr:
        channel, *ks = _digits(row, [data.shape[1], *taps])
        places = _digits(column, counts)
        at = [w.tap(place, k) for w, place, k in zip(windows, places, ks, strict=True)]
        return source[(n, channel, *at)]

    shape = [data.shape[0], data.shape[1] * as_expr(product(taps)), as_expr(product(counts))]
    return te.compute([simplified(n) for n in shape], element, name="im2col")


@operator("nn.col2im")
def col2im(
    data: Tensor,
    output_size: Sequence[PrimExpr],
    kernel_size: Sequence[int],
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """Return the image `[n, c, *output_size]` of columns `data[n, c * taps, windows]`.

    Elements of overlapping windows are added; this is the transpose of `im2col`.
    """
    check_rank("data", data, 3)
    sizes = list(output_size)
    windows = _windows(sizes, kernel_size, strides, padding, dilation)
    taps = [w.taps for w in windows]
    counts = [w.count for w in windows]
    per_channel = as_expr(product(taps))
    channels = simplified(floordiv(data.shape[1], per_channel))
    rows = data.shape[1]
    known = isinstance(rows, IntImm) and isinstance(per_channel, IntImm)
    if known and rows.value % per_channel.value:  # type: ignore[attr-defined]
        raise IRValueError(
            f"data has {extent_text(rows)} rows, which must be a multiple of the "
            f"{extent_text(per_channel)} taps of windows"
        )
    check_equal(
        data.shape[2], "the number of columns", as_expr(product(counts)), "that of windows"
    )  # fmt: skip
    axes = [te.reduce_axis((0, w.taps), f"k{d}") for d, w in enumerate(windows)]
    dtype = sum_dtype(data.dtype)

    def element(n: PrimExpr, c: PrimExpr, *places: PrimExpr) -> PrimExpr:
        inside = []
        column: PrimExpr = const(0, n.dtype)
        row = c
        for w, place, axis in zip(windows, places, axes, strict=True):
            begin = place + w.before - axis.var * w.dilation
            number = floordiv(begin, w.stride)
            inside += [begin >= 0, number < w.count]
            if w.stride > 1:
                inside.append(compare(EQ, floormod(begin, w.stride), 0))
            column = column * w.count + number
            row = row * w.taps + axis.var
        return te.sum(cast(dtype, data[n, row, column]), axis=axes, where=te.all(*inside))

    total = te.compute([data.shape[0], channels, *sizes], element, name="col2im")
    return convert_dtype(total, data.dtype)


def _windows(
    sizes: Sequence[PrimExpr],
    kernel_size: Sequence[int],
    strides: int | Sequence[int],
    padding: int | Sequence[int],
    dilation: int | Sequence[int],
) -> list[Window]:
    rank = len(sizes)
    return [
        Window(size, taps, stride, margin, step)
        for size, taps, stride, margin, step in zip(
            sizes,
            per_axis(tuple(kernel_size), rank, "kernel_size"),
            per_axis(strides, rank, "strides"),
            margins(padding, rank),
            per_axis(dilation, rank, "dilation"),
            strict=True,
        )
    ]


def _digits(number: PrimExpr, extents: Sequence[PrimExpr]) -> list[PrimExpr]:
    """Return the row-major indices of an element by its number, the outermost index first."""
    digits: list[PrimExpr] = []
    rest = number
    for extent in reversed(extents[1:]):
        digits.insert(0, floormod(rest, extent))
        rest = floordiv(rest, extent)
    return [rest, *digits]
