"""Recurrent layers, as torch runs them on the CPU."""

from __future__ import annotations

from typing import Any, Final

from tensorir.errors import IRTypeError
from tensorir.frontend.torch.table import aten
from tensorir.relax import op

_LSTM: Final = 2
"""The number of this layer among torch's modes."""
_GATES: Final = (0, 3, 1, 2)
"""The positions of the gates of `op.nn.lstm` (input, output, forget, cell) in torch's order."""


def _reorder_gates(weights: Any, units: int) -> Any:
    """Return weights or biases with their gates in the order of `op.nn.lstm`."""
    parts = [op.strided_slice(weights, [0], [k * units], [(k + 1) * units]) for k in _GATES]
    return op.concat(parts, 0)


@aten("mkldnn_rnn_layer.default")
def mkldnn_rnn_layer(
    input: Any,
    weight0: Any,
    weight1: Any,
    weight2: Any,
    weight3: Any,
    hx_: Any,
    cx_: Any,
    reverse: bool,
    mode: int,
    hidden_size: int,
    num_layers: int,
    bidirectional: bool,
    batch_first: bool,
    **_: Any,
) -> Any:
    """The outputs of one layer of a long short-term memory, its last output and last cell."""
    if mode != _LSTM or num_layers != 1 or bidirectional or batch_first:
        raise IRTypeError("only one layer and direction of a long short-term memory is supported")
    w, r, inner, outer = (
        _reorder_gates(x, hidden_size) for x in (weight0, weight1, weight2, weight3)
    )
    done = op.nn.lstm(
        input,
        op.expand_dims(w, 0),
        op.expand_dims(r, 0),
        op.expand_dims(op.concat([inner, outer], 0), 0),
        initial_h=hx_,
        initial_c=cx_,
        direction="reverse" if reverse else "forward",
    )
    return op.squeeze(done[0], 1), done[1], done[2], None
