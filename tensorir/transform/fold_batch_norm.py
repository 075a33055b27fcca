"""Folding of batch normalisation with constant statistics into the preceding weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorir.function import IRModule
from tensorir.relax import expr as g
from tensorir.relax import op
from tensorir.relax.declaration import DeclaredOperator
from tensorir.relax.function import Function
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.relax.visit import GraphRewriter, used_vars
from tensorir.rewriting.visit import walk
from tensorir.transform.dead_code_elimination import without_dead_bindings
from tensorir.transform.pass_context import FunctionPass, PassContext

_CONVOLUTIONS: Final = ("nn.conv1d", "nn.conv2d", "nn.conv3d")


class FoldBatchNorm(FunctionPass):
    """Multiplies weights by constant factors of the layer's result, channel by channel.

    Before: lv = R.nn.conv2d(x, W); lv1 = R.nn.batch_norm(lv, gamma, beta, mean, var); y = lv1[0]
    After:  lv = R.nn.conv2d(x, W scaled); y = R.add(lv, summand)

    With constant statistics a batch norm is one factor and one summand for each channel, computed
    here in float64. The factor is multiplied into the weights of the convolution or matrix product
    before it, even if a bias is added in between, if the weights are constant and its result has no
    other use; otherwise the factor stays a multiplication. Other products with constants that
    differ only by channel are folded likewise. Results differ by rounding.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Return the function with factors in the weights, and without dead bindings."""
        folded = _Folding(func)(func)
        return func if folded is func else without_dead_bindings(folded, mod)


@dataclass(frozen=True)
class _Affine:
    """The value of a variable: the result of a call with constant weights, plus an optional
    summand.
    """

    call: g.GraphCall
    result: g.GraphVar
    """The variable to which the call is bound."""
    summand: NDArray[Any] | None


class _Folding(GraphRewriter):
    def __init__(self, func: Function) -> None:
        super().__init__()
        self._uses = Counter(used_vars(func.body))
        items = (node for node in walk(func.body) if isinstance(node, g.TupleGetItem))
        self._items = Counter(item.tuple_value for item in items)
        self._affine: dict[g.GraphVar, _Affine] = {}
        self._normed: dict[g.GraphVar, Sequence[g.GraphExpr]] = {}
        """For each batch norm: its data, mean, variance, factor and summand."""
        self._bindings: list[g.Binding] = []

    def rewrite_BindingBlock(self, node: g.BindingBlock) -> g.BindingBlock:  # noqa: N802
        """Rebuild a block; only values of the same block are folded."""
        outer = self._affine, self._normed
        self._affine, self._normed = {}, {}
        result = super().rewrite_BindingBlock(node)
        self._affine, self._normed = outer
        return result

    def binding(self, node: g.Binding) -> Sequence[g.Binding]:
        """Return the bindings that replace a binding."""
        rebuilt = super().binding(node)
        (new,) = rebuilt
        if not isinstance(new, g.VarBinding):
            return rebuilt
        value = new.value
        self._bindings = []
        if isinstance(value, g.TupleGetItem) and value.tuple_value in self._normed:
            return self._replace_item(new, value)
        if not isinstance(value, g.GraphCall):
            return rebuilt
        created = self._replacement(new.var, value)
        if created is value and not self._bindings:
            return rebuilt
        return (*self._bindings, new.with_(value=created))

    def _replace_item(self, node: g.VarBinding, item: g.TupleGetItem) -> Sequence[g.Binding]:
        """Return the bindings of a result of a batch norm."""
        fields = self._normed[item.tuple_value]  # type: ignore[index]
        if item.index:
            return (node.with_(value=fields[item.index]),)
        data, factor, summand = fields[0], fields[3], fields[4]
        assert isinstance(factor, g.Constant)
        assert isinstance(summand, g.Constant)
        kind = g.DataflowVar if isinstance(node.var, g.DataflowVar) else g.GraphVar
        scaled = kind(f"{node.var.name}_scaled", node.var.struct_info)
        self._uses[scaled] = 1
        product = self._product(scaled, data, factor)
        first = op.multiply(data, factor) if product is None else product
        self._bindings.append(g.VarBinding(scaled, first))
        total = self._sum(node.var, scaled, summand)
        last = op.add(scaled, summand) if total is None else total
        return (*self._bindings, node.with_(value=last))

    def _replacement(self, var: g.GraphVar, call: g.GraphCall) -> g.GraphExpr:
        """Return the value that replaces a call."""
        name = call.op.short_name if isinstance(call.op, DeclaredOperator) else ""
        if name == "nn.batch_norm":
            self._note_batch_norm(var, call)
        elif _weight_of(call) is not None:
            self._affine[var] = _Affine(call, var, None)
        elif name in ("add", "multiply"):
            x, y = call.args
            if isinstance(x, g.Constant):
                x, y = y, x
            if isinstance(y, g.Constant) and isinstance(x, g.GraphVar):
                created = (self._product if name == "multiply" else self._sum)(var, x, y)
                return call if created is None else created
        return call

    def _product(self, var: g.GraphVar, x: g.GraphExpr, factor: g.Constant) -> g.GraphExpr | None:
        """Return a product with constants folded into the weights; None if that is impossible."""
        known = self._single_use_call(x)
        weight = None if known is None else _weight_of(known.call)
        channels = None if weight is None else weight.channels(factor.data)
        if known is None or weight is None or channels is None:
            return None
        scaled = weight.scaled(known.call, channels)
        if known.summand is None:
            self._affine[var] = _Affine(scaled, var, None)
            return scaled
        kind = g.DataflowVar if isinstance(known.result, g.DataflowVar) else g.GraphVar
        result = kind(known.result.name, scaled.struct_info)
        self._bindings.append(g.VarBinding(result, scaled))
        summand = _round(_as_float64(known.summand) * _as_float64(factor.data), factor.data.dtype)
        self._affine[var] = _Affine(scaled, result, summand)
        return op.add(result, g.Constant(summand))

    def _sum(self, var: g.GraphVar, x: g.GraphExpr, summand: g.Constant) -> g.GraphExpr | None:
        """Return a sum with constants, merged with the constants of an earlier sum."""
        known = self._single_use_call(x)
        if known is None or not _fits(summand.data.shape, known.result):
            return None
        total = summand.data
        if known.summand is not None:
            total = _round(_as_float64(known.summand) + _as_float64(total), total.dtype)
        self._affine[var] = _Affine(known.call, known.result, total)
        return op.add(known.result, g.Constant(total))

    def _single_use_call(self, x: g.GraphExpr) -> _Affine | None:
        """Return the call to which a variable is bound, if the variable is used once."""
        if not isinstance(x, g.GraphVar) or self._uses[x] != 1:
            return None
        return self._affine.get(x)

    def _note_batch_norm(self, var: g.GraphVar, call: g.GraphCall) -> None:
        """Record the factor and the summand of a batch norm with constant statistics."""
        given = _arguments(call)
        data, info = given["data"], given["data"].struct_info
        mean, variance = given["moving_mean"], given["moving_var"]
        weights = [given[name] for name in ("gamma", "beta")]
        constants = [v for v in (mean, variance, *weights) if v is not None]
        if given["training"] or not all(isinstance(v, g.Constant) for v in constants):
            return
        if not isinstance(info, TensorStructInfo) or info.dtype is None or info.ndim < 1:
            return
        if any(constant.struct_info.dtype != info.dtype for constant in constants):
            return
        if mean.source.dtype.kind != "f" or self._items[var] != self._uses[var]:
            return
        with np.errstate(all="ignore"):
            factor = 1 / np.sqrt(_as_float64(variance.data) + given["epsilon"])
            if weights[0] is not None and given["scale"]:
                factor = factor * _as_float64(weights[0].data)
            summand = -_as_float64(mean.data) * factor
            if weights[1] is not None and given["center"]:
                summand = summand + _as_float64(weights[1].data)
        behind = info.ndim - 1 - given["axis"] % info.ndim
        shape = (-1, *(1 for _ in range(behind)))
        created = [
            g.Constant(_round(array.reshape(shape), mean.data.dtype)) for array in (factor, summand)
        ]
        self._normed[var] = [data, mean, variance, *created]


@dataclass(frozen=True)
class _Weight:
    """Constant weights of a call."""

    position: int
    """The index of the weights among the arguments."""
    axis: int
    """The axis of the weights that corresponds to the channels of the result."""
    channel: int
    """The axis of the channels in the result, counted from the last axis: -1."""
    bias: int | None
    """The index of a bias among the arguments; None if there is none."""
    count: int

    def channels(self, factor: NDArray[Any]) -> NDArray[Any] | None:
        """Return the factor of each channel; None if factors differ along other axes."""
        axis = factor.ndim + self.channel
        if any(n != 1 for k, n in enumerate(factor.shape) if k != axis):
            return None
        if factor.size not in (1, self.count):
            return None
        return np.broadcast_to(factor.ravel(), (self.count,))

    def scaled(self, call: g.GraphCall, channels: NDArray[Any]) -> g.GraphCall:
        """Return the call with its weights and its bias multiplied by the factors."""
        args = list(call.args)
        args[self.position] = _scale(args[self.position], channels, self.axis)
        if self.bias is not None:
            args[self.bias] = _scale(args[self.bias], channels, 0)
        return call.with_(args=args)


def _weight_of(call: g.GraphCall) -> _Weight | None:
    """Return the weights of a convolution or matrix product, if they are constant floats."""
    name = call.op.short_name if isinstance(call.op, DeclaredOperator) else ""
    if name not in (*_CONVOLUTIONS, "matmul", "nn.dense") or len(call.args) < 2:
        return None
    weight, info = call.args[1], call.struct_info
    if not isinstance(weight, g.Constant) or weight.source.dtype.kind != "f":
        return None
    if not isinstance(info, TensorStructInfo) or info.dtype != weight.struct_info.dtype:  # type: ignore[attr-defined]
        return None
    given = _arguments(call)
    axis, channel, bias = 0, -1, None
    if name == "matmul":
        if len(weight.source.shape) != 2:
            return None
        axis = 1
    elif name == "nn.dense":
        if given["bias"] is not None:
            bias = 2
            if not isinstance(given["bias"], g.Constant):
                return None
    else:
        layout = given["out_layout"] or given["data_layout"]
        axis, channel = given["kernel_layout"].index("O"), layout.index("C") - len(layout)
        if len(layout) != info.ndim:
            return None
    return _Weight(1, axis, channel, bias, weight.source.shape[axis])


def _arguments(call: g.GraphCall) -> Mapping[str, Any]:
    assert isinstance(call.op, DeclaredOperator)
    return call.op.arguments(call)


def _scale(weight: object, channels: NDArray[Any], axis: int) -> g.Constant:
    assert isinstance(weight, g.Constant)
    unscaled = weight
    info = g.tensor_info(weight)
    assert info.dtype is not None
    shape = [1] * len(weight.source.shape)
    shape[axis] = -1
    factors = _as_float64(channels).reshape(shape)

    def scaled() -> NDArray[Any]:
        data = unscaled.data
        with np.errstate(all="ignore"):
            # NumPy converts and rounds one chunk at a time, so this allocates no float64 array.
            result = np.empty_like(data)
            np.multiply(data, factors, result, dtype=np.float64, casting="same_kind")
        return result

    return g.Constant.made_by(scaled, weight.source.shape, info.dtype)


def _fits(shape: Sequence[int], result: g.GraphVar) -> bool:
    """Return True if adding constants of a shape does not broadcast the tensor."""
    info = result.struct_info
    if not isinstance(info, TensorStructInfo) or len(shape) > info.ndim:
        return False
    own = (info.shape or ())[info.ndim - len(shape) :]
    return all(n == 1 or n == getattr(m, "value", None) for n, m in zip(shape, own, strict=True))


def _as_float64(array: NDArray[Any]) -> NDArray[np.float64]:
    return array.astype(np.float64)


def _round(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(array).astype(dtype)
