"""Adaptive pooling: windows whose sizes follow from the size of the output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorir import te
from tensorir.errors import IRValueError
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.ops import as_expr, cast, ceildiv, const, div, floordiv
from tensorir.relax.declaration import operator
from tensorir.te.tensor import Tensor
from tensorir.topi.accumulation import rounded, sum_dtype
from tensorir.topi.extents import check_floats, product, simplified
from tensorir.topi.nn.pooling import AXES, LAYOUTS, largest_of, order_of_pooling, reduced_to_largest
from tensorir.topi.nn.spatial import SPATIAL, Layout, per_axis


def _adaptive(
    rank: int,
    data: Tensor,
    output_size: int | Sequence[int] | None,
    layout: str | None,
    out_layout: str | None,
    name: str,
    reduce: Callable[..., Any],
) -> tuple[Any, Callable[[Sequence[PrimExpr]], PrimExpr]]:
    """Return the reductions of windows that partition an axis, and the size of a window.

    Window `o` of `m` extends from `o * n // m` to `ceil((o + 1) * n / m)` of an axis of `n`.
    """
    letters = SPATIAL[rank]
    places = Layout(layout or LAYOUTS[rank], f"NC{letters}", "layout")
    if out_layout not in (None, places.text):
        raise IRValueError(f"out_layout must equal the layout {places.text}")
    size = places.sizes(data, "data")
    if output_size is None:
        sizes: Sequence[PrimExpr | int] = [size[letter] for letter in letters]
    else:
        sizes = per_axis(output_size, rank, "output_size")
    count = {x: as_expr(n) for x, n in zip(letters, sizes, strict=True)}

    def bounds(x: str, place: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        n, m = size[x], count[x]
        if _divides(n, m):
            return place * floordiv(n, m), floordiv(n, m)
        start = floordiv(place * n, m)
        return start, ceildiv((place + 1) * n, m) - start

    axes = {x: te.reduce_axis((0, _longest(size[x], count[x])), f"r{x.lower()}") for x in letters}

    def element(*indices: PrimExpr) -> Any:
        at = places.named(indices)
        inside = []
        for x in letters:
            start, length = bounds(x, at[x])
            at[x] = start + axes[x].var
            if not _divides(size[x], count[x]):
                inside.append(axes[x].var < length)
        where = te.all(*inside) if inside else None
        return reduce(data[places.ordered(at)], axis=[axes[x] for x in letters], where=where)

    def length(indices: Sequence[PrimExpr]) -> PrimExpr:
        at = places.named(indices)
        return as_expr(product([bounds(x, at[x])[1] for x in letters]))

    shape = places.ordered({**size, **count})
    names = [letter.lower() for letter in places.text]
    return te.compute(shape, element, name=name, varargs_names=names), length


def _divides(n: PrimExpr, m: PrimExpr) -> bool:
    if isinstance(m, IntImm) and m.value == 1:
        return True
    return isinstance(n, IntImm) and isinstance(m, IntImm) and n.value % m.value == 0


def _longest(n: PrimExpr, m: PrimExpr) -> PrimExpr:
    """Return an upper bound for the size of the windows that partition `n` into `m`."""
    if _divides(n, m):
        return simplified(floordiv(n, m))
    if isinstance(n, IntImm) and isinstance(m, IntImm):
        a, b = n.value, m.value
        return const(max(-(-(o + 1) * a // b) - o * a // b for o in range(b)), n.dtype)
    return simplified(ceildiv(n, m) + 1)


def _adaptive_avg(
    rank: int,
    data: Tensor,
    output_size: int | Sequence[int] | None,
    layout: str | None,
    out_layout: str | None,
) -> Tensor:
    check_floats("data", data)
    dtype = sum_dtype(data.dtype)
    total, length = _adaptive(
        rank, data, output_size, layout, out_layout, "adaptive_pool_sum",
        lambda v, axis, where: te.sum(cast(dtype, v), axis=axis, where=where),
    )  # fmt: skip
    mean = te.compute(
        total.shape, lambda *i: div(total[i], cast(dtype, length(i))), name="adaptive_pool_avg"
    )
    return rounded(mean, data.dtype)


def _adaptive_max(
    rank: int,
    data: Tensor,
    output_size: int | Sequence[int] | None,
    layout: str | None,
    out_layout: str | None,
) -> Tensor:
    name = "adaptive_pool_max"
    reduced, _ = _adaptive(
        rank, data, output_size, layout, out_layout, name, reduced_to_largest
    )  # fmt: skip
    return largest_of(reduced)


def _declare(rank: int, name: str, what: str, pool: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def function(
        data: Tensor,
        output_size: int | Sequence[int] | None = None,
        layout: str = LAYOUTS[rank],
        out_layout: str | None = None,
    ) -> Tensor:
        return pool(rank, data, output_size, layout, out_layout)

    function.__name__ = f"adaptive_{name}_pool{rank}d"
    function.__doc__ = (
        f"Return the {what} of `output_size` windows that partition {AXES[rank]}; by default one "
        "for each element."
    )
    return operator(f"nn.{function.__name__}", dimension_order=order_of_pooling)(function)


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (
    _declare(rank, "avg", "means", _adaptive_avg) for rank in SPATIAL
)
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (
    _declare(rank, "max", "largest elements", _adaptive_max) for rank in SPATIAL
)
