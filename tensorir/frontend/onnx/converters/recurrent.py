"""Recurrent layers: LSTM, GRU, RNN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorir.errors import IRValueError
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator
from tensorir.nodes.expr import IntImm
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr


@dataclass(frozen=True)
class _Order:
    """The order of axes: the batch is the first axis if `layout` is 1, otherwise the time is."""

    layout: int

    def time_first(self, x: GraphExpr) -> GraphExpr:
        """Return the input as `[time, batch, in]`."""
        return op.permute_dims(x, [1, 0, 2]) if self.layout else x

    def state(self, state: GraphExpr | None) -> GraphExpr | None:
        """Return a state as `[directions, batch, units]`."""
        if state is None or not self.layout:
            return state
        return op.permute_dims(state, [1, 0, 2])

    def outputs(self, node: OnnxNode, layer: GraphExpr) -> list[GraphExpr]:
        """Return the outputs of a layer in the axis order of the model."""
        y, *states = node.emit(layer)
        if not self.layout:
            return [y, *states]
        # [time, directions, batch, units] to [batch, time, directions, units]
        last = [op.permute_dims(state, [1, 0, 2]) for state in states]
        return [op.permute_dims(y, [2, 0, 1, 3]), *last]


def _check(node: OnnxNode, r: GraphExpr, hidden_size: int | None) -> None:
    units = node.extent(r, -1)
    if hidden_size is not None and isinstance(units, IntImm) and units.value != hidden_size:
        raise IRValueError(
            f"hidden_size is {hidden_size}, but the weights have {units.value} units"
        )


@onnx_operator("LSTM")
def lstm(
    node: OnnxNode,
    x: GraphExpr,
    w: GraphExpr,
    r: GraphExpr,
    b: GraphExpr | None = None,
    sequence_lens: GraphExpr | None = None,
    initial_h: GraphExpr | None = None,
    initial_c: GraphExpr | None = None,
    p: GraphExpr | None = None,
    *,
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
) -> Sequence[GraphExpr]:
    """A long short-term memory."""
    _check(node, r, hidden_size)
    order = _Order(layout)
    layer = op.nn.lstm(
        order.time_first(x),
        w,
        r,
        b,
        sequence_lens,
        order.state(initial_h),
        order.state(initial_c),
        p,
        direction=direction,
        activations=activations,
        activation_alpha=activation_alpha,
        activation_beta=activation_beta,
        clip=clip,
        input_forget=bool(input_forget),
    )
    return order.outputs(node, layer)


@onnx_operator("GRU")
def gru(
    node: OnnxNode,
    x: GraphExpr,
    w: GraphExpr,
    r: GraphExpr,
    b: GraphExpr | None = None,
    sequence_lens: GraphExpr | None = None,
    initial_h: GraphExpr | None = None,
    *,
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
) -> Sequence[GraphExpr]:
    """A gated recurrent unit."""
    _check(node, r, hidden_size)
    order = _Order(layout)
    layer = op.nn.gru(
        order.time_first(x),
        w,
        r,
        b,
        sequence_lens,
        order.state(initial_h),
        direction=direction,
        activations=activations,
        activation_alpha=activation_alpha,
        activation_beta=activation_beta,
        clip=clip,
        linear_before_reset=bool(linear_before_reset),
    )
    return order.outputs(node, layer)


@onnx_operator("RNN")
def rnn(
    node: OnnxNode,
    x: GraphExpr,
    w: GraphExpr,
    r: GraphExpr,
    b: GraphExpr | None = None,
    sequence_lens: GraphExpr | None = None,
    initial_h: GraphExpr | None = None,
    *,
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
) -> Sequence[GraphExpr]:
    """A recurrent layer of one gate."""
    _check(node, r, hidden_size)
    order = _Order(layout)
    layer = op.nn.rnn(
        order.time_first(x),
        w,
        r,
        b,
        sequence_lens,
        order.state(initial_h),
        direction=direction,
        activations=activations,
        activation_alpha=activation_alpha,
        activation_beta=activation_beta,
        clip=clip,
    )
    return order.outputs(node, layer)
