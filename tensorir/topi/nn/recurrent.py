"""Recurrent layers after the projection of inputs: one loop over time for each sequence.

The caller computes the product of a layer's weights with its inputs as one matrix product for all
time steps (`projected`). The product with the state is computed here, in one kernel for any number
of time steps. Sequences of a batch run in parallel.

The recurrence of a gate `g` is `h @ recurrence[:, g]`; gates are concatenated in the last
dimension, in the order of ONNX: `i o f c` of the LSTM (Hochreiter and Schmidhuber, 1997; Gers and
Schmidhuber, 2000, for the peepholes), `z r h` of the GRU (Cho et al., 2014).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from tensorir import te
from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.dtype import INT64, DataType
from tensorir.nodes.expr import LT, BufferLoad, IntImm, PrimExpr, Var
from tensorir.nodes.ops import cast, compare, const
from tensorir.nodes.stmt import BufferStore, For, ForKind, IfThenElse, Stmt, sequence
from tensorir.relax.declaration import operator
from tensorir.te.tensor import Tensor

Activation: TypeAlias = Callable[[PrimExpr], PrimExpr]

_DEFAULTS: Final = {
    "affine": (1.0, 0.0),
    "leakyrelu": (0.01,),
    "thresholdedrelu": (1.0,),
    "scaledtanh": (1.0, 1.0),
    "hardsigmoid": (0.2, 0.5),
    "elu": (1.0,),
}
"""The default constants of the activations that have constants."""
CONSTANTS: Final = {name: len(values) for name, values in _DEFAULTS.items()}
"""The number of constants of an activation: alpha, then beta."""


def activation(name: str, alpha: float | None, beta: float | None, dtype: DataType) -> Activation:
    """Return an activation by its ONNX name, ignoring case.

    Raises IRValueError for an unknown name.
    """
    kind = name.lower()
    default_alpha, default_beta = (*_DEFAULTS.get(kind, ()), 0.0, 0.0)[:2]
    a = const(default_alpha if alpha is None else alpha, dtype)
    b = const(default_beta if beta is None else beta, dtype)
    zero, one = const(0.0, dtype), const(1.0, dtype)
    table: dict[str, Activation] = {
        "sigmoid": te.sigmoid,
        "tanh": te.tanh,
        "relu": lambda x: te.max(zero, x),
        "affine": lambda x: a * x + b,
        "leakyrelu": lambda x: te.if_then_else(compare(LT, x, zero), a * x, x),
        "thresholdedrelu": lambda x: te.if_then_else(compare(LT, x, a), zero, x),
        "scaledtanh": lambda x: a * te.tanh(b * x),
        "hardsigmoid": lambda x: te.max(zero, te.min(one, a * x + b)),
        "elu": lambda x: te.if_then_else(compare(LT, x, zero), a * (te.exp(x) - one), x),
        "softsign": lambda x: x / (one + te.abs(x)),
        "softplus": lambda x: te.log1p(te.exp(x)),
    }
    if kind not in table:
        raise IRValueError(f"unknown activation {name}; expected one of {', '.join(table)}")
    return table[kind]


@dataclass(frozen=True)
class _Gates:
    """The activations of a layer; their inputs are clipped first."""

    functions: tuple[Activation, ...]
    clip: float | None
    dtype: DataType

    @staticmethod
    def of(
        names: Sequence[str],
        gates: int,
        alpha: Sequence[float],
        beta: Sequence[float],
        clip: float | None,
        dtype: DataType,
    ) -> _Gates:
        """Return the activations; constants are assigned in order to activations that have them."""
        if len(names) != gates:
            raise IRValueError(f"expected {gates} activations, got {len(names)}: {list(names)}")
        functions, alphas, betas = [], list(alpha), list(beta)
        for name in names:
            count = CONSTANTS.get(name.lower(), 0)
            own_alpha = alphas.pop(0) if count > 0 and alphas else None
            own_beta = betas.pop(0) if count > 1 and betas else None
            functions.append(activation(name, own_alpha, own_beta, dtype))
        return _Gates(tuple(functions), clip, dtype)

    def __call__(self, which: int, x: PrimExpr) -> PrimExpr:
        if self.clip is not None:
            high, low = const(self.clip, self.dtype), const(-self.clip, self.dtype)
            # A comparison with NaN is false, which selects the second operand: NaN stays.
            x = te.max(low, te.min(high, x))
        return self.functions[which](x)


# ---------------------------------------------------------------------------------------- the loops


def _loop(
    name: str, extent: PrimExpr, body: Callable[[Var], Stmt], kind: ForKind = ForKind.SERIAL
) -> Stmt:
    var = Var(name, INT64)
    return For(var, const(0, INT64), cast(INT64, extent), kind, body(var))


def _at(buffer: Buffer, *indices: PrimExpr) -> PrimExpr:
    return BufferLoad(buffer, indices)


def _store(buffer: Buffer, indices: Sequence[PrimExpr], value: PrimExpr) -> Stmt:
    return BufferStore(buffer, value, indices)


@dataclass(frozen=True)
class _Time:
    """A time step of one sequence: buffers, the position in the batch, the time."""

    x: Buffer
    recurrence: Buffer
    states: Sequence[Buffer]
    scratch: Sequence[Buffer]
    extra: Sequence[Buffer]
    size: PrimExpr
    b: PrimExpr
    t: PrimExpr

    def gate(self, which: int, j: PrimExpr) -> PrimExpr:
        """Return the index of a unit of a gate."""
        return j + which * self.size

    def product(self, out: Buffer, state: Buffer, first: int, gates: int) -> Stmt:
        """Add `state @ recurrence` to the gates of `out` from `first` on.

        Weights are read row by row.
        """
        b, columns = self.b, gates * self.size

        def element(k: Var, g: Var) -> Stmt:
            column = g + first * self.size
            value = _at(out, b, column) + _at(state, b, k) * _at(self.recurrence, k, column)
            return _store(out, [b, column], value)

        return _loop("k", self.size, lambda k: _loop("g", columns, lambda g: element(k, g)))

    def fill(self, out: Buffer, columns: PrimExpr, value: Callable[[Var], PrimExpr]) -> Stmt:
        """Set the sequence's row of `out`."""
        return _loop("j", columns, lambda j: _store(out, [self.b, j], value(j)))


def _recurrence(
    name: str,
    projected: Tensor,
    recurrence: Tensor,
    states: Sequence[Tensor],
    lengths: Tensor | None,
    extra: Sequence[Tensor | None],
    reverse: bool,
    scratch: Sequence[int],
    step: Callable[[_Time], Sequence[Stmt]],
) -> list[Tensor]:
    """Return the outputs of all time steps, followed by the last states.

    `scratch` has the number of gates of each scratch row; `step` updates the states.
    """
    length, batch, _ = projected.shape
    size = recurrence.shape[0]
    dtype = projected.dtype
    given = [tensor for tensor in extra if tensor is not None]
    optional = [] if lengths is None else [lengths]
    count = len(states)

    def written(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        x, weights, *rest = ins
        initial, others = rest[:count], rest[count : count + len(given)]
        y, own, rows = outs[0], outs[1 : 1 + count], outs[1 + count :]

        def at(b: Var, t: Var, steps: PrimExpr) -> Stmt:
            time = _Time(x, weights, own, rows, others, size, b, steps - 1 - t if reverse else t)
            out = _loop("j", size, lambda j: _store(y, [time.t, b, j], _at(own[0], b, j)))
            return sequence([*step(time), out])

        def sequence_of(b: Var) -> Stmt:
            begin = [
                _loop("j", size, lambda j, s=s, i=i: _store(s, [b, j], _at(i, b, j)))  # type: ignore[misc]
                for s, i in zip(own, initial, strict=True)
            ]
            if lengths is None:
                return sequence([*begin, _loop("t", length, lambda t: at(b, t, length))])
            steps = cast(INT64, _at(rest[-1], b))
            zero = const(0.0, dtype)

            def guarded(t: Var) -> Stmt:
                empty = _loop("j", size, lambda j: _store(y, [t, b, j], zero))
                return IfThenElse(compare(LT, t, steps), at(b, t, steps), empty)

            return sequence([*begin, _loop("t", length, guarded)])

        alone = isinstance(batch, IntImm) and batch.value == 1
        return _loop("b", batch, sequence_of, ForKind.SERIAL if alone else ForKind.PARALLEL)

    shapes = [[length, batch, size], *([batch, size] for _ in states)]
    shapes += [[batch, gates * size] for gates in scratch]
    inputs = [projected, recurrence, *states, *given, *optional]
    outputs = te.extern(shapes, inputs, written, name=name, dtype=[dtype] * len(shapes))
    assert isinstance(outputs, tuple)
    return list(outputs[: 1 + count])


def _check(projected: Tensor, recurrence: Tensor, gates: int, lengths: Tensor | None) -> None:
    if projected.ndim != 3 or recurrence.ndim != 2:
        raise IRValueError(
            "the projected input is (time, batch, gates * units), the recurrence (units, gates * "
            f"units), got tensors of {projected.ndim} and {recurrence.ndim} dimension(s)"
        )
    sizes = [t.shape[-1].value for t in (projected, recurrence) if isinstance(t.shape[-1], IntImm)]
    units = recurrence.shape[0]
    if isinstance(units, IntImm) and any(n != gates * units.value for n in sizes):
        raise IRValueError(
            f"{gates} gates of {units.value} units need {gates * units.value} columns, got {sizes}"
        )
    if not projected.dtype.is_floating or recurrence.dtype != projected.dtype:
        raise IRTypeError(
            f"the input and the weights must have one floating-point dtype, got {projected.dtype} "
            f"and {recurrence.dtype}"
        )
    if lengths is not None and not lengths.dtype.is_int:
        raise IRTypeError(f"sequence_lens must be integers, got {lengths.dtype}")


# ------------------------------------------------------------------------------------------- cells


def _lstm(now: _Time, gates: _Gates, coupled: bool) -> list[Stmt]:
    """Return a step of an LSTM; `coupled` gates forget what the input gate does not pass."""
    h, c = now.states
    (sums,) = now.scratch
    b = now.b
    peephole = now.extra[0] if now.extra else None

    def update(j: Var) -> Stmt:
        i, o, f, g = (_at(sums, b, now.gate(which, j)) for which in range(4))
        old = _at(c, b, j)
        if peephole is not None:
            i = i + _at(peephole, j) * old
            f = f + _at(peephole, now.gate(2, j)) * old
        passed = gates(0, i)
        kept = const(1.0, gates.dtype) - passed if coupled else gates(0, f)
        store = _store(c, [b, j], kept * old + passed * gates(1, g))
        if peephole is not None:
            o = o + _at(peephole, now.gate(1, j)) * _at(c, b, j)
        return sequence([store, _store(h, [b, j], gates(0, o) * gates(2, _at(c, b, j)))])

    return [
        now.fill(sums, 4 * now.size, lambda j: _at(now.x, now.t, b, j)),
        now.product(sums, h, 0, 4),
        _loop("j", now.size, update),
    ]


def _gru(now: _Time, gates: _Gates, linear_before_reset: bool) -> list[Stmt]:
    """Return a step of a GRU; its reset gate scales the state, or the product with the state."""
    (h,) = now.states
    sums, reset = now.scratch
    b, size, zero = now.b, now.size, const(0.0, gates.dtype)
    bias = now.extra[0] if now.extra else None

    def gate(which: int, j: PrimExpr) -> PrimExpr:
        at = now.gate(which, j)
        return _at(now.x, now.t, b, at) + _at(sums, b, at)

    def update(j: Var) -> Stmt:
        inner = _at(sums, b, now.gate(2, j))
        if bias is not None:
            inner = inner + _at(bias, j)
        if linear_before_reset:
            inner = gates(0, gate(1, j)) * inner
        new = gates(1, _at(now.x, now.t, b, now.gate(2, j)) + inner)
        z = gates(0, gate(0, j))
        return _store(h, [b, j], (const(1.0, gates.dtype) - z) * new + z * _at(h, b, j))

    begin = now.fill(sums, 3 * size, lambda j: zero)
    if linear_before_reset:
        return [begin, now.product(sums, h, 0, 3), _loop("j", size, update)]
    return [
        begin,
        now.product(sums, h, 0, 2),
        now.fill(reset, size, lambda j: gates(0, gate(1, j)) * _at(h, b, j)),
        now.product(sums, reset, 2, 1),
        _loop("j", size, update),
    ]


def _rnn(now: _Time, gates: _Gates, _: bool) -> list[Stmt]:
    """Return a step of a layer with one gate."""
    (h,) = now.states
    (sums,) = now.scratch
    b, size = now.b, now.size
    return [
        now.fill(sums, size, lambda j: _at(now.x, now.t, b, j)),
        now.product(sums, h, 0, 1),
        _loop("j", size, lambda j: _store(h, [b, j], gates(0, _at(sums, b, j)))),
    ]


class Cell(NamedTuple):
    """A kind of recurrent layer."""

    gates: int
    activations: tuple[str, ...]
    """The default activations."""
    scratch: tuple[int, ...]
    """The number of gates of each scratch row."""
    step: Callable[[_Time, _Gates, bool], list[Stmt]]


CELLS: Final = {
    "lstm": Cell(4, ("Sigmoid", "Tanh", "Tanh"), (4,), _lstm),
    "gru": Cell(3, ("Sigmoid", "Tanh"), (3, 1), _gru),
    "rnn": Cell(1, ("Tanh",), (1,), _rnn),
}


@operator("nn.recurrent_steps")
def recurrent_steps(
    projected: Tensor,
    recurrence: Tensor,
    states: Sequence[Tensor],
    extra: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    *,
    cell: Literal["lstm", "gru", "rnn"],
    activations: Sequence[str],
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float | None = None,
    reverse: bool = False,
    variant: bool = False,
) -> list[Tensor]:
    """Return all outputs and the last states of a recurrent layer with projected inputs.

    The states are the output and, for an LSTM, the cell. `extra` has the peepholes of an LSTM, or a
    bias of the last gate of a GRU, which the reset gate scales in the `variant`. The variant of an
    LSTM has `input_forget`, that of a GRU `linear_before_reset`, as ONNX calls them.
    """
    kind, dtype = CELLS[cell], projected.dtype
    _check(projected, recurrence, kind.gates, sequence_lens)
    count = len(kind.activations)
    gates = _Gates.of(activations, count, activation_alpha, activation_beta, clip, dtype)
    return _recurrence(
        cell, projected, recurrence, states, sequence_lens, [extra], reverse, kind.scratch,
        lambda now: kind.step(now, gates, variant),
    )  # fmt: skip
