"""Regions of feature maps, resampled to a common size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tensorir import te
from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.expr import PrimExpr
from tensorir.nodes.ops import as_expr, cast, const, div, floordiv
from tensorir.relax.declaration import operator
from tensorir.te.reduction import largest
from tensorir.te.tensor import Tensor
from tensorir.topi.broadcast import convert_dtype, sum_dtype
from tensorir.topi.extents import check_equal, check_floats, check_rank


@operator("vision.roi_align")
def roi_align(
    data: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    pooled_size: Sequence[int],
    spatial_scale: float = 1.0,
    sample_ratio: int = 0,
    aligned: bool = False,
    mode: Literal["avg", "max"] = "avg",
) -> Tensor:
    """Return the regions `rois[r, 4]` of `data[n, c, h, w]` as `[r, c, *pooled_size]`.

    A region is `x1, y1, x2, y2`, multiplied by `spatial_scale`, of the image `batch_indices[r]`;
    with `aligned`, half an element is subtracted. Each of its bins is the mean, or the maximum
    weighted neighbour, of `sample_ratio` x `sample_ratio` interpolated samples. If the ratio is 0,
    a bin has one sample per element, for images up to the size of `data` (He et al., "Mask R-CNN",
    2017).
    """
    check_floats("data", data)
    for name, tensor, rank in (
        ("data", data, 4),
        ("rois", rois, 2),
        ("batch_indices", batch_indices, 1),
    ):
        check_rank(name, tensor, rank)
    if not batch_indices.dtype.is_integral:
        raise IRTypeError(f"batch_indices must be integers, got {batch_indices.dtype}")
    check_equal(rois.shape[1], "the columns of rois", as_expr(4), "the 4 corners")
    check_equal(
        batch_indices.shape[0], "the length of batch_indices", rois.shape[0], "that of rois"
    )
    if len(pooled_size) != 2 or min(pooled_size) < 1 or sample_ratio < 0:
        raise IRValueError(
            f"pooled_size must be 2 positive numbers, got {pooled_size}; sample_ratio at least 0, "
            f"got {sample_ratio}"
        )
    dtype = sum_dtype(data.dtype)
    one, zero, half = const(1, dtype), const(0, dtype), const(0.5, dtype)
    offset = half if aligned else zero
    count, channels, *extents = rois.shape[0], data.shape[1], *data.shape[2:]
    bins = tuple(pooled_size)

    def corner(r: PrimExpr, k: int) -> PrimExpr:
        return cast(dtype, rois[r, const(k, r.dtype)]) * const(spatial_scale, dtype) - offset

    def bounds(r: PrimExpr, k: int) -> tuple[PrimExpr, PrimExpr]:
        """Return the start of a region along rows or columns, and the size of its bins."""
        start, end = corner(r, 1 - k), corner(r, 3 - k)
        length = end - start if aligned else te.max(end - start, one)
        return start, length * const(1 / bins[k], dtype)

    def samples(size: PrimExpr) -> PrimExpr:
        return const(sample_ratio, dtype) if sample_ratio else te.max(te.ceil(size), zero)

    most = [
        const(sample_ratio, n.dtype) if sample_ratio else floordiv(n - 1, b) + 2
        for n, b in zip(extents, bins, strict=True)
    ]
    axes = [te.reduce_axis((0, m), name) for m, name in zip(most, ("sy", "sx"), strict=True)]

    def element(r: PrimExpr, c: PrimExpr, y: PrimExpr, x: PrimExpr) -> PrimExpr:
        counted: list[PrimExpr] = []
        inside: list[PrimExpr] = []
        low: list[PrimExpr] = []
        high: list[PrimExpr] = []
        rest: list[PrimExpr] = []
        for k, (place, axis) in enumerate(zip((y, x), axes, strict=True)):
            start, size = bounds(r, k)
            number = samples(size)
            n = cast(dtype, extents[k])
            step = div(size, te.max(number, one))
            at = start + cast(dtype, place) * size + (cast(dtype, axis.var) + half) * step
            inside += [at >= -one, at <= n]
            if not sample_ratio:
                counted.append(cast(dtype, axis.var) < number)
            at = te.min(te.max(at, zero), n - one)
            floor = te.min(te.floor(at), te.max(n - const(2, dtype), zero))
            rest.append(at - floor)
            whole = cast(extents[k].dtype, floor)
            low.append(whole)
            high.append(te.min(whole + 1, extents[k] - 1))
        n = cast(r.dtype, batch_indices[r])
        ly, lx = rest
        corners = [
            (one - ly) * (one - lx) * cast(dtype, data[n, c, low[0], low[1]]),
            (one - ly) * lx * cast(dtype, data[n, c, low[0], high[1]]),
            ly * (one - lx) * cast(dtype, data[n, c, high[0], low[1]]),
            ly * lx * cast(dtype, data[n, c, high[0], high[1]]),
        ]
        if mode == "avg":
            value = corners[0] + corners[1] + corners[2] + corners[3]
            total: PrimExpr = te.sum(value, axis=axes, where=te.all(*counted, *inside))
            return total
        value = largest(*corners)
        # A sample outside of the image is 0.
        sample = te.if_then_else(te.all(*inside), value, zero)
        where = te.all(*counted) if counted else None
        return largest(sample, axis=axes, where=where)

    shape: list[PrimExpr | int] = [count, channels, *bins]
    total = te.compute(shape, element, name="roi_align")
    if mode == "max":
        return convert_dtype(total, data.dtype)

    def mean(r: PrimExpr, c: PrimExpr, y: PrimExpr, x: PrimExpr) -> PrimExpr:
        number = [samples(bounds(r, k)[1]) for k in range(2)]
        return div(total[r, c, y, x], te.max(number[0] * number[1], one))

    return convert_dtype(te.compute(shape, mean, name="roi_align_mean"), data.dtype)
