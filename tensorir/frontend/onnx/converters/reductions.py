"""Reductions along axes, and cumulative sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr

_Reduce = Callable[[GraphExpr], GraphExpr]


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
        self._places = None
        if places is not None and node.contents(places) is None:
            info = node.tensor(places)
            if info.static_shape != (0,):
                self._places = places  # known when the model runs
            axes = ()
        elif places is not None:
            axes = node.known_integers(places, "axes")
        self._axes = axes or None
        self._is_noop = not axes and bool(noop) and self._places is None

    @property
    def is_known_at_run_time(self) -> bool:
        """True if the axes are known when the model runs."""
        return self._places is not None

    def __call__(self, kind: str, x: GraphExpr, keep: bool | None = None) -> GraphExpr:
        """Return a reduction: sum, mean, prod, max or min."""
        keepdims = self._keep if keep is None else keep
        if self._is_noop:
            return x
        if self._places is not None:
            return self._node.emit(op.reduce_at(x, self._places, kind=kind, keepdims=keepdims))
        if self._axes is not None:
            rank = self._node.rank(x)
            axes = [self._node.axis(axis, rank) for axis in self._axes]
            return getattr(op, kind)(x, axes, keepdims)  # type: ignore[no-any-return]
        return getattr(op, kind)(x, None, keepdims)  # type: ignore[no-any-return]


def _log_sum_exp(node: OnnxNode, x: GraphExpr, reduction: _Reduction) -> GraphExpr:
    if reduction.is_known_at_run_time:
        return reduction("log_sum_exp", x)
    largest = node.emit(reduction("max", x, keep=True))
    # If all elements are minus infinity, 0 is subtracted.
    limit = op.where(op.isfinite(largest), largest, op.zeros_like(largest))
    total = op.add(op.log(reduction("sum", op.exp(op.subtract(x, limit)), keep=True)), limit)
    return reduction("max", total)


_REDUCTIONS: Final[dict[str, Callable[[OnnxNode, GraphExpr, _Reduction], GraphExpr]]] = {
    "ReduceSum": lambda node, x, r: r("sum", x),
    "ReduceMean": lambda node, x, r: r("mean", x),
    "ReduceProd": lambda node, x, r: r("prod", x),
    "ReduceL1": lambda node, x, r: r("sum", op.abs(x)),
    "ReduceL2": lambda node, x, r: op.sqrt(r("sum", op.square(x))),
    "ReduceSumSquare": lambda node, x, r: r("sum", op.square(x)),
    "ReduceLogSum": lambda node, x, r: op.log(r("sum", x)),
    "ReduceLogSumExp": lambda node, x, r: _log_sum_exp(node, x, r),
    "ReduceMax": lambda node, x, r: _extremum(node, x, r, "max"),
    "ReduceMin": lambda node, x, r: _extremum(node, x, r, "min"),
}


def _extremum(node: OnnxNode, x: GraphExpr, reduction: _Reduction, kind: str) -> GraphExpr:
    if node.dtype(x).is_bool:
        return op.astype(reduction(kind, op.astype(x, "uint8")), "bool")
    return reduction(kind, x)


def _register(name: str, function: Callable[[OnnxNode, GraphExpr, _Reduction], GraphExpr]) -> None:
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

    onnx_operator(name)(convert)


for _name, _function in _REDUCTIONS.items():
    _register(_name, _function)


@onnx_operator("ArgMax")
def argmax(
    node: OnnxNode, x: GraphExpr, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
) -> GraphExpr:
    return op.argmax(x, axis, bool(keepdims), select_last_index=bool(select_last_index))


@onnx_operator("ArgMin")
def argmin(
    node: OnnxNode, x: GraphExpr, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
) -> GraphExpr:
    return op.argmin(x, axis, bool(keepdims), select_last_index=bool(select_last_index))


def _register_running(name: str, operator: str) -> None:
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

    onnx_operator(name)(convert)


_register_running("CumSum", "cumsum")
_register_running("CumProd", "cumprod")
