"""Recurrent layers: LSTM, GRU, RNN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypedDict, Unpack

from tensorir.errors import IRValueError
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operators
from tensorir.nodes.expr import IntImm
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr


class Layer(TypedDict, total=False):
    """The attributes of recurrent layers; the last two are those of LSTM and GRU."""

    activation_alpha: Sequence[float]
    activation_beta: Sequence[float]
    activations: Sequence[str]
    clip: float
    direction: str
    hidden_size: int
    layout: int
    input_forget: int
    linear_before_reset: int


_FLAGS: Final = ("input_forget", "linear_before_reset")


def _converter(operator: Callable[..., GraphExpr], states: int) -> Callable[..., list[GraphExpr]]:
    """Return the converter of a layer with this number of states; an LSTM also has peepholes."""

    def convert(
        node: OnnxNode,
        x: GraphExpr,
        w: GraphExpr,
        r: GraphExpr,
        b: GraphExpr | None = None,
        sequence_lens: GraphExpr | None = None,
        initial_h: GraphExpr | None = None,
        initial_c: GraphExpr | None = None,
        p: GraphExpr | None = None,
        **attributes: Unpack[Layer],
    ) -> list[GraphExpr]:
        """Return the outputs of a layer; the batch is the first axis if `layout` is 1."""
        options: dict[str, Any] = {**attributes}
        layout, size = options.pop("layout", 0), options.pop("hidden_size", None)
        units = node.extent(r, -1)
        if size is not None and isinstance(units, IntImm) and units.value != size:
            raise IRValueError(f"hidden_size is {size}, but the weights have {units.value} units")
        options |= {name: bool(options[name]) for name in _FLAGS if name in options}

        def swapped(value: GraphExpr | None) -> GraphExpr | None:
            """Return a tensor with the first two axes in the order that `layout` requires."""
            return op.permute_dims(value, [1, 0, 2]) if layout and value is not None else value

        initial = map(swapped, (initial_h, initial_c)[:states])
        peepholes = [p][: states - 1]
        y, *last = node.emit(
            operator(swapped(x), w, r, b, sequence_lens, *initial, *peepholes, **options)
        )
        if not layout:
            return [y, *last]
        # [time, directions, batch, units] to [batch, time, directions, units]
        return [op.permute_dims(y, [2, 0, 1, 3]), *(op.permute_dims(s, [1, 0, 2]) for s in last)]

    return convert


onnx_operators(
    {
        "LSTM": _converter(op.nn.lstm, 2),
        "GRU": _converter(op.nn.gru, 1),
        "RNN": _converter(op.nn.rnn, 1),
    }
)
