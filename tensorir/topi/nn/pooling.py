"""Pooling of windows of a given size, or of windows that partition an axis (adaptive)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tensorir import te
from tensorir.errors import IRValueError
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import NE, IntImm, IterVar, PrimExpr
from tensorir.nodes.ops import as_expr, cast, ceildiv, compare, const, div, floordiv, select
from tensorir.relax.expr import GraphCall
from tensorir.te.reduction import largest, lowest, place_of_best
from tensorir.te.tensor import Tensor
from tensorir.topi.broadcast import convert_dtype, sum_dtype
from tensorir.topi.extents import check_floats, product, simplified
from tensorir.topi.nn.spatial import (
    SPATIAL,
    Layout,
    Window,
    each_rank,
    margins,
    padded,
    per_axis,
)


class _Pooled:
    """The windows of a pooling, and the tensor of their elements."""

    def __init__(
        self,
        rank: int,
        data: Tensor,
        pool_size: int | Sequence[int],
        strides: int | Sequence[int],
        padding: int | Sequence[int],
        dilation: int | Sequence[int],
        ceil_mode: bool,
        layout: str,
        out_layout: str | None,
    ) -> None:
        letters = SPATIAL[rank]
        self.layout = Layout(layout, f"NC{letters}", "layout")
        if out_layout not in (None, layout):
            raise IRValueError(
                f"out_layout must be equal to the layout, {layout}; change it by permute_dims"
            )
        size = self.layout.sizes(data, "data")
        self.data = data
        self.windows = {
            letter: Window(size[letter], taps, stride, margin, step, ceil_mode)
            for letter, taps, stride, margin, step in zip(
                letters,
                per_axis(pool_size, rank, "pool_size"),
                per_axis(strides, rank, "strides"),
                margins(padding, rank),
                per_axis(dilation, rank, "dilation"),
                strict=True,
            )
        }
        for letter, window in self.windows.items():
            reach = (window.taps - 1) * window.dilation
            if isinstance(reach, IntImm) and max(window.before, window.behind) > reach.value:
                raise IRValueError(
                    f"padding of axis {letter}, {(window.before, window.behind)}, must be less "
                    f"than the window, {reach.value + 1}, or some windows are empty"
                )
        self.names = [letter.lower() for letter in self.layout.text]
        self.shape = [
            self.windows[letter].count if letter in self.windows else size[letter]
            for letter in self.layout.text
        ]

    def padded(self, value: PrimExpr) -> Tensor:
        """Return the data padded with a value up to the ends of the windows."""
        amounts = {
            self.layout.text.index(x): (w.before, w.behind_used)
            for x, w in self.windows.items()
            if w.is_padded
        }
        return padded(self.data, amounts, value)

    def reduced(
        self, name: str, source: Tensor, reduce: Callable[[PrimExpr, list[IterVar]], Any]
    ) -> Any:
        """Return the tensor, or tensors, of `reduce(element, axes)` over each window."""
        axes = {x: te.reduce_axis((0, w.taps), f"r{x.lower()}") for x, w in self.windows.items()}

        def element(*indices: PrimExpr) -> Any:
            places = [
                self.windows[x].tap(i, axes[x].var) if x in axes else i
                for x, i in zip(self.layout.text, indices, strict=True)
            ]
            return reduce(source[tuple(places)], list(axes.values()))

        return te.compute(self.shape, element, name=name, varargs_names=self.names)


_LARGEST_AND_SQUARES: Final = te.comm_reducer(
    lambda x, y: (te.max(x[0], y[0]), x[1] + y[1]),
    lambda value, squares: (lowest(value), const(0, squares)),
    "largest_and_squares",
)


def _reduced_to_largest(value: PrimExpr, axis: Any, where: PrimExpr | None = None) -> Any:
    """Return the one or (for floats) two reductions that `_largest_of` combines."""
    if not value.dtype.is_floating:
        return largest(value, axis=axis, where=where)
    wide = cast(sum_dtype(value.dtype), value)
    return _LARGEST_AND_SQUARES((value, wide * wide), axis=axis, where=where)


def _largest_of(reduced: Tensor | tuple[Tensor, Tensor]) -> Tensor:
    """Return the maxima from the tensors of `_reduced_to_largest`."""
    if isinstance(reduced, Tensor):
        return reduced
    numbers, squares = reduced
    dtype: DataType = numbers.dtype

    def element(*i: PrimExpr) -> PrimExpr:
        has_nan = compare(NE, squares[i], squares[i])
        return select(has_nan, cast(dtype, squares[i]), numbers[i])

    return te.compute(numbers.shape, element, name="largest")


def _order(call: GraphCall, order: tuple[int, ...]) -> Mapping[str, Any] | None:
    """Return the attributes of a pooling of data with dimensions in another order."""
    given = call.attrs["layout"]
    return {"layout": "".join(given[k] for k in order), "out_layout": None}


@each_rank("nn.max_pool#d", _order)
def max_pool(
    rank: int,
    data: Tensor,
    pool_size: int | Sequence[int] = 1,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    layout: str = "NC#",
    out_layout: str | None = None,
) -> Tensor:
    """Return the maximum of each window along #; NaN if the window has a NaN.

    Padding is ignored.
    """
    del count_include_pad  # only avg_pool uses it; all poolings have the same signature
    pooled = _Pooled(
        rank, data, pool_size, strides, padding, dilation, ceil_mode, layout, out_layout
    )
    source = pooled.padded(lowest(data.dtype))
    return _largest_of(pooled.reduced("pool_max", source, _reduced_to_largest))


@each_rank("nn.avg_pool#d", _order)
def avg_pool(
    rank: int,
    data: Tensor,
    pool_size: int | Sequence[int] = 1,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    layout: str = "NC#",
    out_layout: str | None = None,
) -> Tensor:
    """Return the mean of each window along #; padding counts as elements if `count_include_pad`."""
    pooled = _Pooled(
        rank, data, pool_size, strides, padding, dilation, ceil_mode, layout, out_layout
    )
    check_floats("data", data)
    dtype = sum_dtype(data.dtype)
    source = pooled.padded(const(0, data.dtype))
    total = pooled.reduced(
        "pool_sum", source, lambda v, axes: te.sum(cast(dtype, v), axis=axes)
    )  # fmt: skip

    def mean(*indices: PrimExpr) -> PrimExpr:
        count: PrimExpr | int = 1
        for letter, place in zip(pooled.layout.text, indices, strict=True):
            window = pooled.windows.get(letter)
            if window is not None:
                count = count * _taps_counted(window, place, count_include_pad)
        return div(total[indices], cast(dtype, count))

    result = te.compute(pooled.shape, mean, name="pool_avg", varargs_names=pooled.names)
    return convert_dtype(result, data.dtype)


def _taps_counted(window: Window, place: PrimExpr, with_padding: bool) -> PrimExpr:
    """Return the divisor of a sum of a window."""
    overhang = simplified(window.behind_used - window.behind)
    fits = isinstance(overhang, IntImm) and overhang.value <= 0
    if fits and (with_padding or not window.is_padded):
        return window.taps
    return window.taps_inside(place, with_padding)


@each_rank("nn.lp_pool#d", _order)
def lp_pool(
    rank: int,
    data: Tensor,
    pool_size: int | Sequence[int] = 1,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    p: float = 2.0,
    layout: str = "NC#",
    out_layout: str | None = None,
) -> Tensor:
    """Return the p-norm of each window along #."""
    pooled = _Pooled(
        rank, data, pool_size, strides, padding, dilation, ceil_mode, layout, out_layout
    )
    check_floats("data", data)
    if p <= 0:
        raise IRValueError(f"p must be positive, got {p}")
    dtype = sum_dtype(data.dtype)
    source = pooled.padded(const(0, data.dtype))

    def term(value: PrimExpr) -> PrimExpr:
        x = cast(dtype, value)
        return x * x if p == 2 else te.abs(x) if p == 1 else te.power(te.abs(x), const(p, dtype))

    total = pooled.reduced("pool_sum", source, lambda v, axes: te.sum(term(v), axis=axes))
    root = te.compute(
        total.shape,
        lambda *i: (
            te.sqrt(total[i])
            if p == 2
            else total[i]
            if p == 1
            else te.power(total[i], const(1 / p, dtype))
        ),
        name="pool_root",
    )
    return convert_dtype(root, data.dtype)


@each_rank("nn.max_pool#d_with_argmax", _order)
def max_pool_with_argmax(
    rank: int,
    data: Tensor,
    pool_size: int | Sequence[int] = 1,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    layout: str = "NC#",
    out_layout: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the maximum of each window along #, and the index of its first occurrence: the
    row-major index (int64) among the spatial axes.
    """
    pooled = _Pooled(
        rank, data, pool_size, strides, padding, dilation, ceil_mode, layout, out_layout
    )
    windows = pooled.windows
    axes = {x: te.reduce_axis((0, w.taps), f"r{x.lower()}") for x, w in windows.items()}

    def element(*indices: PrimExpr) -> tuple[PrimExpr, ...]:
        at = pooled.layout.named(indices)
        flat: PrimExpr = const(0, "int64")
        inside = []
        for x, w in windows.items():
            at[x] = w.tap(at[x], axes[x].var) - w.before
            flat = flat * cast("int64", w.size) + cast("int64", at[x])
            inside += [at[x] >= 0, at[x] < w.size] if w.is_padded else []
        where = te.all(*inside) if inside else None
        value = data[pooled.layout.ordered(at)]
        return place_of_best(True, False)((flat, value), axis=list(axes.values()), where=where)

    index, value = te.compute(
        pooled.shape, element, name="pool_argmax", varargs_names=pooled.names
    )  # fmt: skip
    return value, index


def _adaptive(
    rank: int,
    data: Tensor,
    output_size: int | Sequence[int] | None,
    layout: str,
    out_layout: str | None,
    name: str,
    reduce: Callable[..., Any],
) -> tuple[Any, Callable[[Sequence[PrimExpr]], PrimExpr]]:
    """Return the reductions of windows that partition an axis, and the size of a window.

    Window `o` of `m` extends from `o * n // m` to `ceil((o + 1) * n / m)` of an axis of `n`.
    """
    letters = SPATIAL[rank]
    places = Layout(layout, f"NC{letters}", "layout")
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

    axes = {
        x: te.reduce_axis((0, _max_window(size[x], count[x])), f"r{x.lower()}") for x in letters
    }

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


def _max_window(n: PrimExpr, m: PrimExpr) -> PrimExpr:
    """Return an upper bound for the size of the windows that partition `n` into `m`."""
    if _divides(n, m):
        return simplified(floordiv(n, m))
    if isinstance(n, IntImm) and isinstance(m, IntImm):
        a, b = n.value, m.value
        return const(max(-(-(o + 1) * a // b) - o * a // b for o in range(b)), n.dtype)
    return simplified(ceildiv(n, m) + 1)


@each_rank("nn.adaptive_avg_pool#d", _order)
def adaptive_avg_pool(
    rank: int,
    data: Tensor,
    output_size: int | Sequence[int] | None = None,
    layout: str = "NC#",
    out_layout: str | None = None,
) -> Tensor:
    """Return the means of `output_size` windows that partition #.

    The default is one window per element.
    """
    check_floats("data", data)
    dtype = sum_dtype(data.dtype)
    total, length = _adaptive(
        rank, data, output_size, layout, out_layout, "adaptive_pool_sum",
        lambda v, axis, where: te.sum(cast(dtype, v), axis=axis, where=where),
    )  # fmt: skip
    mean = te.compute(
        total.shape, lambda *i: div(total[i], cast(dtype, length(i))), name="adaptive_pool_avg"
    )
    return convert_dtype(mean, data.dtype)


@each_rank("nn.adaptive_max_pool#d", _order)
def adaptive_max_pool(
    rank: int,
    data: Tensor,
    output_size: int | Sequence[int] | None = None,
    layout: str = "NC#",
    out_layout: str | None = None,
) -> Tensor:
    """Return the maxima of `output_size` windows that partition #.

    The default is one window per element.
    """
    name = "adaptive_pool_max"
    reduced, _ = _adaptive(rank, data, output_size, layout, out_layout, name, _reduced_to_largest)
    return _largest_of(reduced)
