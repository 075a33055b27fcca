"""Updates of a reduction that do not change the result in the steps that padding adds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from schedule.analysis.reducer import find_reduction
from schedule.sref import StmtSRef
from schedule.staging.old_values import init_runs_first
from tensorir.arith import Analyzer
from tensorir.arith.terms import choice_of
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import (
    Add,
    BufferLoad,
    Cast,
    FloatImm,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Sub,
    Var,
)
from tensorir.nodes.float_format import FORMATS
from tensorir.nodes.ops import (
    all_of,
    cast,
    const,
    if_then_else,
    logical_not,
    max_value,
    min_value,
)
from tensorir.nodes.stmt import BufferStore, Stmt


@dataclass(frozen=True, slots=True)
class AddedSteps:
    """The update of a reduction that keeps its result in the steps beyond its extents."""

    store: Stmt
    """The update, with a condition around the combined value if it is necessary."""
    fills: Mapping[Buffer, PrimExpr] = field(default_factory=dict)
    """The value in the padding of each buffer; 0 for other buffers."""


def keep_neutral(
    block: StmtSRef, extents: Mapping[Var, PrimExpr], axes: Sequence[Var]
) -> AddedSteps | None:
    """Return an update that does nothing where some reduction axes are beyond their extents.

    If padding holds zeros, the combined value often is neutral already: a product of two zeros is
    neutral, a product of a zero and a possibly infinite value is not. Otherwise, if the combined
    value is an element of one buffer, its padding holds the neutral element; if not, the value is
    guarded by a condition. None if the block does not combine the stored element with a value.
    """
    store = block.block.body
    assert isinstance(store, BufferStore)
    step = store.value
    if type(step) not in _NEUTRAL:
        return None
    kept, other = step.a, step.b  # type: ignore[attr-defined]
    first = type(step) is Sub or _is_accumulator(kept, store)
    if not first:
        kept, other = other, kept
    if not _is_accumulator(kept, store):
        return None
    beyond = {axis: _Outside(axis, extents[axis]).value(other) for axis in axes}
    loose = [axis for axis, value in beyond.items() if not _is_identity_step(block, step, value)]
    if not loose:
        return AddedSteps(store)
    neutral = _NEUTRAL[type(step)](step.dtype)
    if isinstance(other, BufferLoad) and all(axis in other.indices for axis in axes):
        return AddedSteps(store, {other.buffer: neutral})
    inside = all_of([axis < extents[axis] for axis in loose])
    value = if_then_else(inside, other, neutral)
    guarded = type(step)(kept, value) if first else type(step)(value, kept)  # type: ignore[call-arg]
    return AddedSteps(BufferStore(store.buffer, guarded, store.indices))


def keep_identity(
    block: StmtSRef, extents: Mapping[Var, PrimExpr], axes: Sequence[Var]
) -> AddedSteps:
    """Return an update of a tuple that combines it with the identity beyond some extents.

    Raises ScheduleError: RFactorNotApplicableError, NoMatchedReducerError.
    """
    reduction = find_reduction(block)
    buffers, indices = reduction.buffers, reduction.indices
    inside = all_of([axis < extents[axis] for axis in axes])
    identity = reduction.reducer.identity([buffer.dtype for buffer in buffers])
    new = [
        if_then_else(inside, value, neutral)
        for value, neutral in zip(reduction.values, identity, strict=True)
    ]
    old = [BufferLoad(buffer, indices) for buffer in buffers]
    return AddedSteps(reduction.update(old, new, buffers, indices))


# ------------------------------------------------------------------------------- neutral elements


def _lowest(dtype: DataType) -> PrimExpr:
    return const(-math.inf, dtype) if dtype.is_floating else min_value(dtype)


def _highest(dtype: DataType) -> PrimExpr:
    return const(math.inf, dtype) if dtype.is_floating else max_value(dtype)


_NEUTRAL: Final[dict[type[PrimExpr], Callable[[DataType], PrimExpr]]] = {
    Add: lambda dtype: const(0, dtype),
    Sub: lambda dtype: const(0, dtype),
    Mul: lambda dtype: const(1, dtype),
    Max: _lowest,
    Min: _highest,
}
"""The neutral constant of each operation."""


def _is_identity_step(block: StmtSRef, step: PrimExpr, value: PrimExpr | None) -> bool:
    """Return True if combining the accumulator with `value` is proved not to change it."""
    if not isinstance(value, (IntImm, FloatImm)):
        return False
    kind, init = type(step), block.block.init
    least = _constant(_NEUTRAL[kind](step.dtype))
    assert least is not None
    if kind in (Max, Min) and isinstance(init, BufferStore) and init_runs_first(block):
        # The first value of the accumulator is a bound of all later ones.
        start = _constant(init.value)
        if start is not None and not math.isnan(start):
            least = start
    if kind is Max:
        return value.value <= least
    return value.value >= least if kind is Min else value.value == least


def _constant(value: PrimExpr) -> float | None:
    return value.value if isinstance(value, (IntImm, FloatImm)) else None


def _is_accumulator(value: PrimExpr, store: BufferStore) -> bool:
    return isinstance(value, BufferLoad) and value.buffer is store.buffer


# ------------------------------------------------------------------------------ beyond the extent


class _Outside:
    """Evaluates expressions where an axis is beyond its extent and the padding is 0."""

    def __init__(self, axis: Var, extent: PrimExpr) -> None:
        self._axis = axis
        self._beyond = axis >= extent

    def value(self, expr: PrimExpr) -> PrimExpr | None:
        """Return the constant value of an expression there, None if it is not constant."""
        if isinstance(expr, (IntImm, FloatImm)):
            return expr
        if isinstance(expr, BufferLoad):
            return const(0, expr.dtype) if self._axis in expr.indices else None
        if isinstance(expr, Cast):
            inner = self.value(expr.value)
            return None if inner is None else cast(expr.dtype, inner)
        choice = choice_of(expr)
        if choice is not None:
            return self._choose(*choice)
        if isinstance(expr, (Add, Sub)):
            a, b = self.value(expr.a), self.value(expr.b)
            return a if _is_zero(a) and _is_zero(b) else None
        if isinstance(expr, Mul):
            a, b = self.value(expr.a), self.value(expr.b)
            if _is_zero(a) and _is_finite(expr.b if b is None else b):
                return a
            if _is_zero(b) and _is_finite(expr.a if a is None else a):
                return b
        return None

    def _choose(
        self, condition: PrimExpr, true_value: PrimExpr, false_value: PrimExpr
    ) -> PrimExpr | None:
        analyzer = Analyzer()
        with analyzer.constraint_scope(self._beyond):
            if analyzer.can_prove(condition):
                return self.value(true_value)
            if analyzer.can_prove(logical_not(condition)):
                return self.value(false_value)
        a, b = self.value(true_value), self.value(false_value)
        same = a is not None and b is not None and _constant(a) == _constant(b)
        return a if same else None


def _is_zero(value: PrimExpr | None) -> bool:
    return value is not None and _constant(value) == 0


def _is_finite(expr: PrimExpr) -> bool:
    """Return True if an expression is provably finite, so that its product with 0 is 0."""
    if not expr.dtype.is_floating:
        return True
    if isinstance(expr, FloatImm):
        return math.isfinite(expr.value)
    if not isinstance(expr, Cast) or expr.value.dtype.is_floating:
        return False
    known = FORMATS.get(expr.dtype)
    return known is not None and 2**expr.value.dtype.bits <= known.largest
