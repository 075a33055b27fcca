"""Recurrent layers: one product for the inputs of all time steps, then a loop over time.

Weights and gates have ONNX's layout (`tensorir.topi.nn.recurrent`): `x` is `[time, batch, in]`, `w`
`[directions, gates * units, in]`, `r` `[directions, gates * units, units]`, `b` `[directions, 2 *
gates * units]` (biases of the input, then of the state), states `[directions, batch, units]`. The
results are the outputs of all time steps, `[time, directions, batch, units]`, followed by the last
states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.relax import op
from tensorir.relax.declaration import composite, dtype_of, rank_of, shape_of
from tensorir.relax.expr import GraphExpr
from tensorir.topi.nn.recurrent import CONSTANTS

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
    layer = _Layer.of(x, w, r, b, 4, direction)
    gates = _Activations(
        layer.directions,
        ("Sigmoid", "Tanh", "Tanh"),
        activations,
        activation_alpha,
        activation_beta,
    )

    def run(d: int) -> GraphExpr:
        call: GraphExpr = op.nn.lstm_steps(
            layer.projected(d, layer.bias(d)),
            layer.recurrence(d),
            layer.state(initial_h, d),
            layer.state(initial_c, d),
            sequence_lens,
            None if p is None else layer.part(p, d),
            reverse=layer.is_reverse(d),
            clip=clip,
            input_forget=input_forget,
            **gates.of(d),
        )
        return call

    return layer.joined(run, 2)


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
    layer = _Layer.of(x, w, r, b, 3, direction)
    gates = _Activations(
        layer.directions, ("Sigmoid", "Tanh"), activations, activation_alpha, activation_beta
    )

    def run(d: int) -> GraphExpr:
        bias, inner = layer.bias(d), None
        if b is not None and linear_before_reset:
            own, of_state = layer.halves(d)
            inner = op.split(of_state, 3)[2]
            bias = op.concat([*(op.split(bias, 3)[k] for k in range(2)), op.split(own, 3)[2]])
        call: GraphExpr = op.nn.gru_steps(
            layer.projected(d, bias),
            layer.recurrence(d),
            layer.state(initial_h, d),
            inner,
            sequence_lens,
            reverse=layer.is_reverse(d),
            clip=clip,
            linear_before_reset=linear_before_reset,
            **gates.of(d),
        )
        return call

    return layer.joined(run, 1)


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
    layer = _Layer.of(x, w, r, b, 1, direction)
    gates = _Activations(
        layer.directions, ("Tanh",), activations, activation_alpha, activation_beta
    )

    def run(d: int) -> GraphExpr:
        call: GraphExpr = op.nn.rnn_steps(
            layer.projected(d, layer.bias(d)),
            layer.recurrence(d),
            layer.state(initial_h, d),
            sequence_lens,
            reverse=layer.is_reverse(d),
            clip=clip,
            **gates.of(d),
        )
        return call

    return layer.joined(run, 1)


@dataclass(frozen=True)
class _Layer:
    """The operands of a layer, direction by direction."""

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
        x: GraphExpr,
        w: GraphExpr,
        r: GraphExpr,
        b: GraphExpr | None,
        gates: int,
        direction: Direction,
    ) -> _Layer:
        """Return a layer; IRTypeError or IRValueError for operands of wrong ranks and sizes."""
        batch, units = _extents(x, "x")[1], _extents(r, "r")[2]
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
        return _Layer(x, w, r, b, direction, directions, batch, units, str(dtype_of(x)))

    def part(self, value: GraphExpr, d: int) -> GraphExpr:
        """Return the part of an operand for a direction, without the direction's dimension."""
        if self.directions == 1:
            return op.squeeze(value, axis=[0])
        return op.squeeze(op.split(value, self.directions, axis=0)[d], axis=[0])

    def is_reverse(self, d: int) -> bool:
        """Return True if a direction runs backwards in time."""
        return self.direction == "reverse" or d == 1

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

    def joined(self, run: Callable[[int], GraphExpr], states: int) -> list[GraphExpr]:
        """Return the results of all directions."""
        runs = [run(d) for d in range(self.directions)]
        last = [op.stack([done[1 + k] for done in runs], axis=0) for k in range(states)]
        return [op.stack([done[0] for done in runs], axis=1), *last]


def _extents(value: GraphExpr, name: str) -> tuple[PrimExpr, ...]:
    if rank_of(value) != 3:
        raise IRTypeError(f"{name} must be a tensor of rank 3, got {value.struct_info}")
    return shape_of(value)


class _Activations:
    """The activations of a layer and their constants, by direction."""

    def __init__(
        self,
        directions: int,
        defaults: Sequence[str],
        names: Sequence[str] | None,
        alpha: Sequence[float],
        beta: Sequence[float],
    ) -> None:
        self._names = list(names or [*defaults] * directions)
        self._count = len(defaults)
        if len(self._names) != self._count * directions:
            raise IRValueError(
                f"expected {self._count} activations for each direction, got {len(self._names)}"
            )
        self._alpha, self._beta = tuple(alpha), tuple(beta)

    def of(self, d: int) -> dict[str, Any]:
        """Return the attributes of a direction."""
        here = slice(d * self._count, (d + 1) * self._count)
        counts = [CONSTANTS.get(name.lower(), 0) for name in self._names]
        first_alpha, more_alpha = (
            sum(n > 0 for n in c) for c in (counts[: here.start], counts[here])
        )
        first_beta, more_beta = (
            sum(n > 1 for n in c) for c in (counts[: here.start], counts[here])
        )
        return {
            "activations": tuple(self._names[here]),
            "activation_alpha": self._alpha[first_alpha : first_alpha + more_alpha],
            "activation_beta": self._beta[first_beta : first_beta + more_beta],
        }
