"""Recurrent layers: LSTM, GRU, RNN."""

from __future__ import annotations

from typing import Any

from tensorir.errors import IRValueError
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operators
from tensorir.nodes.expr import IntImm
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr


def _layer(
    node: OnnxNode,
    operator: str,
    x: GraphExpr,
    w: GraphExpr,
    r: GraphExpr,
    b: GraphExpr | None = None,
    sequence_lens: GraphExpr | None = None,
    *states: GraphExpr | None,
    peepholes: GraphExpr | None = None,
    layout: int = 0,
    hidden_size: int | None = None,
    **attributes: Any,
) -> list[GraphExpr]:
    """Return the outputs of a layer; the batch is the first axis if `layout` is 1."""
    units = node.extent(r, -1)
    if hidden_size is not None and isinstance(units, IntImm) and units.value != hidden_size:
        raise IRValueError(
            f"hidden_size is {hidden_size}, but the weights have {units.value} units"
        )

    def swapped(value: GraphExpr | None) -> GraphExpr | None:
        """Return a tensor with the first two axes in the order that `layout` requires."""
        return op.permute_dims(value, [1, 0, 2]) if layout and value is not None else value

    weights = [peepholes] if operator == "lstm" else []
    layer = getattr(op.nn, operator)(
        swapped(x), w, r, b, sequence_lens, *map(swapped, states), *weights, **attributes
    )
    y, *last = node.emit(layer)
    if not layout:
        return [y, *last]
    # [time, directions, batch, units] to [batch, time, directions, units]
    return [op.permute_dims(y, [2, 0, 1, 3]), *(op.permute_dims(s, [1, 0, 2]) for s in last)]


def lstm(
    node: OnnxNode, x: GraphExpr, w: GraphExpr, r: GraphExpr, b: GraphExpr | None = None,
    sequence_lens: GraphExpr | None = None, initial_h: GraphExpr | None = None,
    initial_c: GraphExpr | None = None, p: GraphExpr | None = None, *,
    activations: Any = None, activation_alpha: Any = (), activation_beta: Any = (),
    clip: float | None = None, direction: str = "forward", hidden_size: int | None = None,
    input_forget: int = 0, layout: int = 0,
) -> list[GraphExpr]:  # fmt: skip
    """A long short-term memory."""
    return _layer(
        node, "lstm", x, w, r, b, sequence_lens, initial_h, initial_c, peepholes=p, layout=layout,
        hidden_size=hidden_size, activations=activations, activation_alpha=activation_alpha,
        activation_beta=activation_beta, clip=clip, direction=direction,
        input_forget=bool(input_forget),
    )  # fmt: skip


def gru(
    node: OnnxNode, x: GraphExpr, w: GraphExpr, r: GraphExpr, b: GraphExpr | None = None,
    sequence_lens: GraphExpr | None = None, initial_h: GraphExpr | None = None, *,
    activations: Any = None, activation_alpha: Any = (), activation_beta: Any = (),
    clip: float | None = None, direction: str = "forward", hidden_size: int | None = None,
    layout: int = 0, linear_before_reset: int = 0,
) -> list[GraphExpr]:  # fmt: skip
    """A gated recurrent unit."""
    return _layer(
        node, "gru", x, w, r, b, sequence_lens, initial_h, layout=layout, hidden_size=hidden_size,
        activations=activations, activation_alpha=activation_alpha,
        activation_beta=activation_beta, clip=clip, direction=direction,
        linear_before_reset=bool(linear_before_reset),
    )  # fmt: skip


def rnn(
    node: OnnxNode, x: GraphExpr, w: GraphExpr, r: GraphExpr, b: GraphExpr | None = None,
    sequence_lens: GraphExpr | None = None, initial_h: GraphExpr | None = None, *,
    activations: Any = None, activation_alpha: Any = (), activation_beta: Any = (),
    clip: float | None = None, direction: str = "forward", hidden_size: int | None = None,
    layout: int = 0,
) -> list[GraphExpr]:  # fmt: skip
    """A recurrent layer of one gate."""
    return _layer(
        node, "rnn", x, w, r, b, sequence_lens, initial_h, layout=layout, hidden_size=hidden_size,
        activations=activations, activation_alpha=activation_alpha,
        activation_beta=activation_beta, clip=clip, direction=direction,
    )  # fmt: skip


onnx_operators({"LSTM": lstm, "GRU": gru, "RNN": rnn})
