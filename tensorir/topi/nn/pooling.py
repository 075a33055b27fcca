"""Pooling: the maximum or the mean of windows, along one to three axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from tensorir import te
from tensorir.errors import IRValueError
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import NE, IntImm, IterVar, PrimExpr
from tensorir.nodes.ops import cast, compare, const, div, select
from tensorir.relax.declaration import operator
from tensorir.relax.expr import GraphCall
from tensorir.te.extrema import largest, lowest, place_of_best
from tensorir.te.tensor import Tensor
from tensorir.topi.accumulation import rounded, sum_dtype
from tensorir.topi.extents import check_floats, simplified
from tensorir.topi.nn.spatial import SPATIAL, Layout, Window, margins, padded, per_axis

LAYOUTS: Final = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
"""The default layouts, by the number of spatial axes."""

AXES: Final = {1: "one axis", 2: "two axes", 3: "three axes"}
_Result = TypeVar("_Result")


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
            raise IRValueError(f"out_layout must be the layout, {layout}; permute_dims changes it")
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
        """Return the data padded with a value as far as windows extend."""
        amounts = {
            self.layout.text.index(x): (w.before, w.behind_used)
            for x, w in self.windows.items()
            if w.is_padded
        }
        return padded(self.data, amounts, value)

    def reduced(
        self, name: str, source: Tensor, reduce: Callable[[PrimExpr, list[IterVar]], Any]
    ) -> Any:
        """Return the tensor of `reduce(element, axes)` over each window, or several of them."""
        axes = {x: te.reduce_axis((0, w.taps), f"r{x.lower()}") for x, w in self.windows.items()}

        def element(*indices: PrimExpr) -> Any:
            places = [
                self.windows[x].tap(i, axes[x].var) if x in axes else i
                for x, i in zip(self.layout.text, indices, strict=True)
            ]
            return reduce(source[tuple(places)], list(axes.values()))

        return te.compute(self.shape, element, name=name, varargs_names=self.names)


def _max_pool(pooled: _Pooled) -> Tensor:
    source = pooled.padded(lowest(pooled.data.dtype))
    return largest_of(pooled.reduced("pool_max", source, reduced_to_largest))


def _avg_pool(pooled: _Pooled, count_include_pad: bool) -> Tensor:
    check_floats("data", pooled.data)
    dtype = sum_dtype(pooled.data.dtype)
    source = pooled.padded(const(0, pooled.data.dtype))
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
    return rounded(result, pooled.data.dtype)


def _taps_counted(window: Window, place: PrimExpr, with_padding: bool) -> PrimExpr:
    """Return the divisor of a sum of a window."""
    beyond = simplified(window.behind_used - window.behind)
    fits = isinstance(beyond, IntImm) and beyond.value <= 0
    if fits and (with_padding or not window.is_padded):
        return window.taps
    return window.taps_inside(place, with_padding)


def _lp_pool(pooled: _Pooled, p: float) -> Tensor:
    check_floats("data", pooled.data)
    if p <= 0:
        raise IRValueError(f"p must be positive, got {p}")
    dtype = sum_dtype(pooled.data.dtype)
    source = pooled.padded(const(0, pooled.data.dtype))

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
    return rounded(root, pooled.data.dtype)


def _max_pool_with_argmax(pooled: _Pooled) -> tuple[Tensor, Tensor]:
    data, windows = pooled.data, pooled.windows
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


# ------------------------------------------------------------------------------------ declarations


def order_of_pooling(call: GraphCall, order: tuple[int, ...]) -> Mapping[str, Any] | None:
    """Return the attributes of a pooling of data with dimensions in another order."""
    given = call.attrs["layout"]
    return {"layout": "".join(given[k] for k in order), "out_layout": None}


def _named(
    name: str, rank: int, doc: str, function: Callable[..., _Result]
) -> Callable[..., _Result]:
    """Declare an operator along `rank` axes; the number replaces `#` in its name and text."""
    function.__name__ = name.replace("#", str(rank))
    function.__doc__ = doc.replace("#", AXES[rank])
    return operator(f"nn.{function.__name__}", dimension_order=order_of_pooling)(function)


def _declare_max_pool(rank: int) -> Callable[..., Tensor]:
    def function(
        data: Tensor,
        pool_size: int | Sequence[int] = 1,
        strides: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        count_include_pad: bool = False,
        layout: str = LAYOUTS[rank],
        out_layout: str | None = None,
    ) -> Tensor:
        del count_include_pad  # only means use it; all poolings have one signature
        pooled = _Pooled(
            rank, data, pool_size, strides, padding, dilation, ceil_mode, layout, out_layout
        )
        return _max_pool(pooled)

    text = "Return the maximum of each window along #, NaN if it contains NaN; padding is ignored."
    return _named("max_pool#d", rank, text, function)


def _declare_avg_pool(rank: int) -> Callable[..., Tensor]:
    def function(
        data: Tensor,
        pool_size: int | Sequence[int] = 1,
        strides: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        count_include_pad: bool = False,
        layout: str = LAYOUTS[rank],
        out_layout: str | None = None,
    ) -> Tensor:
        pooled = _Pooled(
            rank, data, pool_size, strides, padding, dilation, ceil_mode, layout, out_layout
        )
        return _avg_pool(pooled, count_include_pad)

    text = "Return the mean of each window along #, padding counted if `count_include_pad`."
    return _named("avg_pool#d", rank, text, function)


def _declare_lp_pool(rank: int) -> Callable[..., Tensor]:
    def function(
        data: Tensor,
        pool_size: int | Sequence[int] = 1,
        strides: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        p: float = 2.0,
        layout: str = LAYOUTS[rank],
        out_layout: str | None = None,
    ) -> Tensor:
        pooled = _Pooled(
            rank, data, pool_size, strides, padding, dilation, ceil_mode, layout, out_layout
        )
        return _lp_pool(pooled, p)

    return _named("lp_pool#d", rank, "Return the p-norm of each window along #.", function)


def _declare_max_pool_with_argmax(rank: int) -> Callable[..., tuple[Tensor, Tensor]]:
    def function(
        data: Tensor,
        pool_size: int | Sequence[int] = 1,
        strides: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        ceil_mode: bool = False,
        layout: str = LAYOUTS[rank],
        out_layout: str | None = None,
    ) -> tuple[Tensor, Tensor]:
        pooled = _Pooled(
            rank, data, pool_size, strides, padding, dilation, ceil_mode, layout, out_layout
        )
        return _max_pool_with_argmax(pooled)

    text = (
        "Return the maximum of each window along #, and the index of its first occurrence: the "
        "row-major index (int64) among the spatial axes."
    )
    return _named("max_pool#d_with_argmax", rank, text, function)


max_pool1d, max_pool2d, max_pool3d = map(_declare_max_pool, SPATIAL)
avg_pool1d, avg_pool2d, avg_pool3d = map(_declare_avg_pool, SPATIAL)
lp_pool1d, lp_pool2d, lp_pool3d = map(_declare_lp_pool, SPATIAL)
max_pool1d_with_argmax, max_pool2d_with_argmax, max_pool3d_with_argmax = map(
    _declare_max_pool_with_argmax, SPATIAL
)


_LARGEST_AND_SQUARES: Final = te.comm_reducer(
    lambda x, y: (te.max(x[0], y[0]), x[1] + y[1]),
    lambda value, squares: (lowest(value), const(0, squares)),
    "largest_and_squares",
)


def reduced_to_largest(value: PrimExpr, axis: Any, where: PrimExpr | None = None) -> Any:
    """Return the reductions that `largest_of` reads: one, or two for floats."""
    if not value.dtype.is_floating:
        return largest(value, axis=axis, where=where)
    wide = cast(sum_dtype(value.dtype), value)
    return _LARGEST_AND_SQUARES((value, wide * wide), axis=axis, where=where)


def largest_of(reduced: Tensor | tuple[Tensor, Tensor]) -> Tensor:
    """Return the maxima from the tensors of `reduced_to_largest`."""
    if isinstance(reduced, Tensor):
        return reduced
    numbers, squares = reduced
    dtype: DataType = numbers.dtype

    def element(*i: PrimExpr) -> PrimExpr:
        has_nan = compare(NE, squares[i], squares[i])
        return select(has_nan, cast(dtype, squares[i]), numbers[i])

    return te.compute(numbers.shape, element, name="largest")
