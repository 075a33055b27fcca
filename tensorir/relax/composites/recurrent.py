"""Recurrent layers: one product for the inputs of all time steps, then a loop over time.

Weights and gates have ONNX's layout (`tensorir.topi.nn.recurrent`): `x` is `[time, batch, in]`, `w`
`[directions, gates * units, in]`, `r` `[directions, gates * units, units]`, `b` `[directions, 2 *
gates * units]` (biases of the input, then of the state), states `[directions, batch, units]`. The
results are the outputs of all time steps, `[time, directions, batch, units]`, followed by the last
states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Literal, TypeAlias

from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.relax import op
from tensorir.relax.declaration import composite, dtype_of, rank_of, shape_of
from tensorir.relax.expr import GraphExpr
from tensorir.topi.nn.recurrent import CELLS, CONSTANTS

Direction: TypeAlias = Literal["forward", "reverse", "bidirectional"]

_TWO: Final = 2


@composite("nn.lstm")
def lstm(
    x: GraphExpr,
    w: GraphExpr,
    r: GraphExpr,
    b: GraphExpr | None = None,
    sequence_lens: GraphExpr | None = None,
    initial_h: GraphExpr | None = None,
    initial_c: GraphExpr | None = None,
    p: GraphExpr | None = None,
    *,
    direction: Direction = "forward",
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float | None = None,
    input_forget: bool = False,
) -> list[GraphExpr]:
    """Return all outputs, the last output and the last cell of a long short-term memory.

    `p` are peepholes, `[directions, 3 * units]` in the order `i o f`.
    """
    layer = _Layer.of("lstm", x, w, r, b, direction)
    return layer.run(
        [initial_h, initial_c],
        lambda d: (layer.bias(d), None if p is None else layer.part(p, d)),
        _activations(layer, activations, activation_alpha, activation_beta),
        sequence_lens=sequence_lens,
        clip=clip,
        variant=input_forget,
    )


@composite("nn.gru")
def gru(
    x: GraphExpr,
    w: GraphExpr,
    r: GraphExpr,
    b: GraphExpr | None = None,
    sequence_lens: GraphExpr | None = None,
    initial_h: GraphExpr | None = None,
    *,
    direction: Direction = "forward",
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float | None = None,
    linear_before_reset: bool = False,
) -> list[GraphExpr]:
    """Return all outputs and the last one of a gated recurrent unit.

    The reset gate scales the state's product if `linear_before_reset`, otherwise the state itself.
    """
    layer = _Layer.of("gru", x, w, r, b, direction)

    def biases(d: int) -> tuple[GraphExpr | None, GraphExpr | None]:
        bias = layer.bias(d)
        if b is None or not linear_before_reset:
            return bias, None
        own, of_state = layer.halves(d)
        inner = op.split(of_state, 3)[2]
        return op.concat([*(op.split(bias, 3)[k] for k in range(2)), op.split(own, 3)[2]]), inner

    return layer.run(
        [initial_h],
        biases,
        _activations(layer, activations, activation_alpha, activation_beta),
        sequence_lens=sequence_lens,
        clip=clip,
        variant=linear_before_reset,
    )


@composite("nn.rnn")
def rnn(
    x: GraphExpr,
    w: GraphExpr,
    r: GraphExpr,
    b: GraphExpr | None = None,
    sequence_lens: GraphExpr | None = None,
    initial_h: GraphExpr | None = None,
    *,
    direction: Direction = "forward",
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float | None = None,
) -> list[GraphExpr]:
    """Return all outputs and the last one of a recurrent layer of one gate."""
    layer = _Layer.of("rnn", x, w, r, b, direction)
    return layer.run(
        [initial_h],
        lambda d: (layer.bias(d), None),
        _activations(layer, activations, activation_alpha, activation_beta),
        sequence_lens=sequence_lens,
        clip=clip,
    )


@dataclass(frozen=True)
class _Layer:
    """The operands of a layer, direction by direction."""

    cell: str
    x: GraphExpr
    w: GraphExpr
    r: GraphExpr
    b: GraphExpr | None
    direction: Direction
    directions: int
    batch: PrimExpr
    units: PrimExpr
    dtype: str

    @staticmethod
    def of(
        cell: str,
        x: GraphExpr,
        w: GraphExpr,
        r: GraphExpr,
        b: GraphExpr | None,
        direction: Direction,
    ) -> _Layer:
        """Return a layer; IRTypeError or IRValueError for operands of wrong ranks and sizes."""
        batch, units = _extents(x, "x")[1], _extents(r, "r")[2]
        gates = CELLS[cell].gates
        directions = _TWO if direction == "bidirectional" else 1
        for value, name in ((w, "w"), (r, "r")):
            first, rows, _ = _extents(value, name)
            if isinstance(first, IntImm) and first.value != directions:
                raise IRValueError(
                    f"{name} is of {first.value} direction(s), but the direction is {direction}"
                )
            if isinstance(rows, IntImm) and rows.value % gates:
                raise IRValueError(
                    f"{name} has {rows.value} rows, expected a multiple of {gates} (the gates)"
                )
        return _Layer(cell, x, w, r, b, direction, directions, batch, units, str(dtype_of(x)))

    def part(self, value: GraphExpr, d: int) -> GraphExpr:
        """Return the part of an operand for a direction, without the direction's dimension."""
        if self.directions == 1:
            return op.squeeze(value, axis=[0])
        return op.squeeze(op.split(value, self.directions, axis=0)[d], axis=[0])

    def halves(self, d: int) -> tuple[GraphExpr, GraphExpr]:
        """Return the biases of the input and of the state."""
        assert self.b is not None
        both = op.split(self.part(self.b, d), _TWO)
        return both[0], both[1]

    def bias(self, d: int) -> GraphExpr | None:
        """Return the sum of both biases."""
        if self.b is None:
            return None
        own, of_state = self.halves(d)
        return op.add(own, of_state)

    def projected(self, d: int, bias: GraphExpr | None) -> GraphExpr:
        """Return the products of the gates' weights with the inputs of all time steps."""
        product = op.matmul(self.x, op.permute_dims(self.part(self.w, d)))
        return product if bias is None else op.add(product, bias)

    def recurrence(self, d: int) -> GraphExpr:
        """Return the weights of the state, one row for each unit."""
        return op.permute_dims(self.part(self.r, d))

    def state(self, initial: GraphExpr | None, d: int) -> GraphExpr:
        """Return the initial state, zeros by default."""
        if initial is None:
            return op.zeros((self.batch, self.units), self.dtype)
        return self.part(initial, d)

    def run(
        self,
        initial: Sequence[GraphExpr | None],
        weights: Callable[[int], tuple[GraphExpr | None, GraphExpr | None]],
        activations: Sequence[Mapping[str, Any]],
        sequence_lens: GraphExpr | None,
        **options: Any,
    ) -> list[GraphExpr]:
        """Return the results of all directions.

        `weights` returns the bias of the inputs of a direction, and the `extra` operand of
        `nn.recurrent_steps`.
        """
        runs = []
        for d in range(self.directions):
            bias, extra = weights(d)
            done: GraphExpr = op.nn.recurrent_steps(
                self.projected(d, bias),
                self.recurrence(d),
                [self.state(value, d) for value in initial],
                extra,
                sequence_lens,
                cell=self.cell,
                reverse=self.direction == "reverse" or d == 1,
                **activations[d],
                **options,
            )
            runs.append(done)
        last = [op.stack([done[1 + k] for done in runs], axis=0) for k in range(len(initial))]
        return [op.stack([done[0] for done in runs], axis=1), *last]


def _extents(value: GraphExpr, name: str) -> tuple[PrimExpr, ...]:
    if rank_of(value) != 3:
        raise IRTypeError(f"{name} must be a tensor of rank 3, got {value.struct_info}")
    return shape_of(value)


def _activations(
    layer: _Layer, names: Sequence[str] | None, alpha: Sequence[float], beta: Sequence[float]
) -> list[dict[str, Any]]:
    """Return the activations of each direction, with the constants of those that have some."""
    defaults = CELLS[layer.cell].activations
    count, every = len(defaults), list(names or [*defaults] * layer.directions)
    if len(every) != count * layer.directions:
        raise IRValueError(f"expected {count} activations for each direction, got {len(every)}")
    alphas, betas = iter(alpha), iter(beta)
    found = []
    for d in range(layer.directions):
        own = every[d * count : (d + 1) * count]
        constants = [CONSTANTS.get(name.lower(), 0) for name in own]
        found.append(
            {
                "activations": own,
                "activation_alpha": [*islice(alphas, sum(n > 0 for n in constants))],
                "activation_beta": [*islice(betas, sum(n > 1 for n in constants))],
            }
        )
    return found
