"""Images sampled at the coordinates in another tensor, and grids of such coordinates."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import reduce
from typing import Literal

from tensorir import te
from tensorir.errors import IRValueError
from tensorir.nodes.expr import PrimExpr
from tensorir.nodes.ops import add, as_expr, cast, const, div, mul
from tensorir.relax.declaration import operator
from tensorir.te.tensor import Tensor
from tensorir.topi.broadcast import convert_dtype, sum_dtype
from tensorir.topi.extents import check_equal, check_floats
from tensorir.topi.image.resize import clamp_position, cubic_weight
from tensorir.topi.nn.spatial import SPATIAL, Layout

_CUBIC_ALPHA = -0.75


@operator("image.grid_sample")
def grid_sample(
    data: Tensor,
    grid: Tensor,
    method: Literal["nearest", "bilinear", "linear", "bicubic", "cubic"] = "bilinear",
    layout: str | None = None,
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
    align_corners: bool = True,
) -> Tensor:
    """Return `data[n, c, h, w]` at the coordinates `grid[n, h', w', 2]`, as `[n, c, h', w']`.

    Coordinates are pairs `x, y` (for volumes triples `x, y, z`) from -1 to 1: the centres of the
    first and last element if `align_corners`, otherwise their outer edges. Beyond these points the
    image is zero, repeats the border's elements, or is mirrored.
    """
    check_floats("data", data)
    check_floats("grid", grid)
    rank = data.ndim - 2
    if rank not in SPATIAL or grid.ndim != data.ndim:
        raise IRValueError(
            f"data and grid must both have 3 to 5 dimensions, got {data.ndim} and {grid.ndim}"
        )
    letters = SPATIAL[rank]
    places = Layout(layout or f"NC{letters}", f"NC{letters}", "layout")
    size = places.sizes(data, "data")
    check_equal(grid.shape[0], "the batch of grid", size["N"], "that of data")
    check_equal(grid.shape[-1], "the last extent of grid", as_expr(rank), "the number of axes")
    dtype = sum_dtype(data.dtype)
    cubic = method in ("bicubic", "cubic")
    # The first coordinate, x, belongs to the last axis of the image.
    positions = {
        letter: _position(grid, rank - 1 - k, size[letter], dtype, padding_mode, align_corners)
        if not cubic
        else _position(grid, rank - 1 - k, size[letter], dtype, "zeros", align_corners)
        for k, letter in enumerate(letters)
    }

    taps = [te.reduce_axis((0, 4), f"k{letter.lower()}") for letter in letters]

    def element(*indices: PrimExpr) -> PrimExpr:
        at = places.named(indices)
        where = (at["N"], *(at[letter] for letter in letters))

        def load(chosen: Sequence[PrimExpr]) -> PrimExpr:
            inside, inner = [], {}
            for letter, place in zip(letters, chosen, strict=True):
                n = size[letter]
                if padding_mode == "zeros":
                    inside += [place >= 0, place < cast("int64", n)]
                else:
                    if cubic and padding_mode == "reflection":
                        place = _whole(_reflect(cast(dtype, place), n, dtype, align_corners))
                    place = clamp_position(place, cast("int64", n))
                inner[letter] = cast(n.dtype, place)
            value: PrimExpr = data[places.ordered({**at, **inner})]
            if inside:
                value = te.if_then_else(te.all(*inside), value, const(0, data.dtype))
            return cast(dtype, value)

        exact = [positions[letter][where] for letter in letters]
        if method == "nearest":
            return load([_whole(te.nearbyint(p)) for p in exact])
        first = [te.floor(p) for p in exact]
        rest = [p - f for p, f in zip(exact, first, strict=True)]
        whole = [_whole(f) for f in first]
        if cubic:
            offsets = [axis.var - 1 for axis in taps]
            distances = [te.abs(r - cast(dtype, o)) for r, o in zip(rest, offsets, strict=True)]
            weight = reduce(mul, (cubic_weight(d, _CUBIC_ALPHA) for d in distances))
            value = load([w + cast("int64", o) for w, o in zip(whole, offsets, strict=True)])
            total: PrimExpr = te.sum(weight * value, axis=taps)
            return total
        terms = []
        for corner in itertools.product(range(2), repeat=rank):
            weight = reduce(
                mul, (r if k else const(1, dtype) - r for r, k in zip(rest, corner, strict=True))
            )
            terms.append(weight * load([w + k for w, k in zip(whole, corner, strict=True)]))
        interpolated: PrimExpr = reduce(add, terms)
        return interpolated

    shape = places.ordered(
        {**size, **{letter: grid.shape[1 + k] for k, letter in enumerate(letters)}}
    )
    return convert_dtype(te.compute(shape, element, name="grid_sample"), data.dtype)


def _position(
    grid: Tensor, k: int, n: PrimExpr, dtype: str, padding_mode: str, align_corners: bool
) -> Tensor:
    """Return the positions along one axis in elements, moved inside by the padding rule."""

    def element(*indices: PrimExpr) -> PrimExpr:
        x = cast(dtype, grid[(*indices, const(k, indices[0].dtype))])
        one, half = const(1, dtype), const(0.5, dtype)
        length = cast(dtype, n)
        if align_corners:
            place = (x + one) * half * (length - one)
        else:
            place = ((x + one) * length - one) * half
        if padding_mode == "border":
            place = te.min(te.max(place, const(0, dtype)), length - one)
        elif padding_mode == "reflection":
            place = _reflect(place, n, dtype, align_corners)
        # Positions far away, and NaN, become positions outside of the image that fit in integers.
        far = const(1 << 30, dtype)
        bounded: PrimExpr = te.min(te.max(place, -far), far)
        return bounded

    return te.compute(grid.shape[:-1], element, name="grid_position")


def _reflect(place: PrimExpr, n: PrimExpr, dtype: str, align_corners: bool) -> PrimExpr:
    """Return a position mirrored at the centres of the outer elements, or at their outer edges."""
    length = cast(dtype, n)
    low = const(0 if align_corners else -0.5, dtype)
    span = length - const(1, dtype) if align_corners else length
    distance = te.abs(place - low)
    safe = te.max(span, const(1e-6, dtype))
    times = te.floor(distance / safe)
    rest = distance - times * safe
    is_even = times - const(2, dtype) * te.floor(times * const(0.5, dtype)) < const(0.5, dtype)
    inside = te.Select(is_even, rest, safe - rest) + low
    clamped: PrimExpr = te.min(te.max(inside, const(0, dtype)), length - const(1, dtype))
    return clamped


def _whole(place: PrimExpr) -> PrimExpr:
    return cast("int64", place)


@operator("image.affine_grid")
def affine_grid(theta: Tensor, size: Sequence[PrimExpr], align_corners: bool = False) -> Tensor:
    """Return the grid `[n, h, w, 2]` of coordinates that `theta[n, 2, 3]` maps an image `size` to.

    `size` is `(h, w)`, or `(d, h, w)` with `theta[n, 3, 4]`; see `grid_sample` for coordinates.
    """
    check_floats("theta", theta)
    rank = len(size)
    if rank not in (2, 3) or theta.ndim != 3:
        raise IRValueError(
            f"size must be 2 or 3 numbers and theta of rank 3, got {rank} and rank {theta.ndim}"
        )
    check_equal(theta.shape[1], "the rows of theta", as_expr(rank), "the number of axes")
    check_equal(theta.shape[2], "the columns of theta", as_expr(rank + 1), "the axes and one")
    dtype = sum_dtype(theta.dtype)

    def base(i: PrimExpr, n: PrimExpr) -> PrimExpr:
        one, two = const(1, dtype), const(2, dtype)
        x, length = cast(dtype, i), cast(dtype, n)
        if not align_corners:
            return div(two * x + one, length) - one
        safe = te.max(length - one, one)
        place: PrimExpr = te.Select(length > one, div(two * x, safe) - one, const(0, dtype))
        return place

    def element(*indices: PrimExpr) -> PrimExpr:
        n, *at, k = indices
        places = [base(i, as_expr(extent)) for i, extent in zip(at, size, strict=True)][::-1]
        terms = [
            cast(dtype, theta[n, k, const(j, k.dtype)]) * place for j, place in enumerate(places)
        ]
        return reduce(add, [*terms, cast(dtype, theta[n, k, const(rank, k.dtype)])])

    shape = [theta.shape[0], *size, const(rank, theta.shape[0].dtype)]
    return convert_dtype(te.compute(shape, element, name="affine_grid"), theta.dtype)
