"""Reductions along axes, and cumulative sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operators
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr


class _Reduction:
    """The axes of a reduction node, applied to tensors of one rank."""

    def __init__(
        self,
        node: OnnxNode,
        places: GraphExpr | None,
        axes: Sequence[int] | None,
        keepdims: int,
        noop: int,
    ) -> None:
        self._node = node
        self._keep = bool(keepdims)
        self.places = None
        if places is not None and node.contents(places) is None:
            info = node.tensor(places)
            if info.static_shape != (0,):
                self.places = places  # the axes are known only when the model runs
            axes = ()
        elif places is not None:
            axes = node.known_integers(places, "axes")
        self._axes = axes or None
        self._is_noop = not axes and bool(noop) and self.places is None

    def __call__(self, kind: str, x: GraphExpr, keep: bool | None = None) -> GraphExpr:
        """Return a reduction: sum, mean, prod, max or min."""
        keepdims = self._keep if keep is None else keep
        if self._is_noop:
            return x
        if self.places is not None:
            return self._node.emit(op.reduce_at(x, self.places, kind=kind, keepdims=keepdims))
        axes = self._axes
        if axes is not None:
            axes = [self._node.axis(axis, self._node.rank(x)) for axis in axes]
        return getattr(op, kind)(x, axes, keepdims)  # type: ignore[no-any-return]


_Function: TypeAlias = Callable[[OnnxNode, GraphExpr, _Reduction], GraphExpr]


def _log_sum_exp(node: OnnxNode, x: GraphExpr, reduction: _Reduction) -> GraphExpr:
    if reduction.places is not None:
        return reduction("log_sum_exp", x)
    largest = node.emit(reduction("max", x, keep=True))
    # If all elements are minus infinity, 0 is subtracted.
    limit = op.where(op.isfinite(largest), largest, op.zeros_like(largest))
    total = op.add(op.log(reduction("sum", op.exp(op.subtract(x, limit)), keep=True)), limit)
    return reduction("max", total)


def _in_floats(function: _Function) -> _Function:
    """Return a reduction that computes with integers in float64, and rounds them towards 0."""

    def convert(node: OnnxNode, x: GraphExpr, reduction: _Reduction) -> GraphExpr:
        dtype = node.dtype(x)
        if not dtype.is_integral:
            return function(node, x, reduction)
        return op.astype(function(node, op.astype(x, "float64"), reduction), str(dtype))

    return convert


_REDUCTIONS: Final[dict[str, _Function]] = {
    "ReduceSum": lambda node, x, r: r("sum", x),
    "ReduceMean": lambda node, x, r: r("mean", x),
    "ReduceProd": lambda node, x, r: r("prod", x),
    "ReduceL1": lambda node, x, r: r("sum", op.abs(x)),
    "ReduceL2": _in_floats(lambda node, x, r: op.sqrt(r("sum", op.square(x)))),
    "ReduceSumSquare": lambda node, x, r: r("sum", op.square(x)),
    "ReduceLogSum": _in_floats(lambda node, x, r: op.log(r("sum", x))),
    "ReduceLogSumExp": _in_floats(_log_sum_exp),
    "ReduceMax": lambda node, x, r: _extremum(node, x, r, "max"),
    "ReduceMin": lambda node, x, r: _extremum(node, x, r, "min"),
}


def _extremum(node: OnnxNode, x: GraphExpr, reduction: _Reduction, kind: str) -> GraphExpr:
    if node.dtype(x).is_bool:
        return op.astype(reduction(kind, op.astype(x, "uint8")), "bool")
    return reduction(kind, x)


def _reduction(function: _Function) -> Callable[..., GraphExpr]:
    def convert(
        node: OnnxNode,
        x: GraphExpr,
        places: GraphExpr | None = None,
        *,
        axes: Sequence[int] | None = None,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> GraphExpr:
        return function(node, x, _Reduction(node, places, axes, keepdims, noop_with_empty_axes))

    return convert


def _arg_reduction(operator: Callable[..., GraphExpr]) -> Callable[..., GraphExpr]:
    return lambda node, x, *, axis=0, keepdims=1, select_last_index=0: operator(
        x, axis, bool(keepdims), select_last_index=bool(select_last_index)
    )


def _cumulative(operator: str) -> Callable[..., GraphExpr]:
    def convert(
        node: OnnxNode, x: GraphExpr, axis: GraphExpr, *, exclusive: int = 0, reverse: int = 0
    ) -> GraphExpr:
        if node.contents(axis) is None:
            return op.cumulated_at(
                x, axis, kind=operator, exclusive=bool(exclusive), reverse=bool(reverse)
            )
        place = node.axis(node.known_integer(axis, "the axis"), node.rank(x))
        if reverse:
            x = op.flip(x, place)
        result = getattr(op, operator)(x, place, exclusive=bool(exclusive))
        return op.flip(result, place) if reverse else result

    return convert


onnx_operators({name: _reduction(function) for name, function in _REDUCTIONS.items()})
onnx_operators(
    {
        "ArgMax": _arg_reduction(op.argmax),
        "ArgMin": _arg_reduction(op.argmin),
        "CumSum": _cumulative("cumsum"),
        "CumProd": _cumulative("cumprod"),
    }
)
