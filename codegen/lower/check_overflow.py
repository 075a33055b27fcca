"""Checking and widening index arithmetic that overflows its type.

Loop variables, axes, extents, constants and arithmetic on them (index arithmetic) must not
overflow: every pass treats them as unbounded integers, and emission computes scalars in 64 bits.
This pass ensures that for known ranges:

- A 32-bit expression with an intermediate value beyond 32 bits is rewritten in 64 bits.
- The value of a 32-bit variable must fit into 32 bits, and every 64-bit value into 64 bits; a
  program that violates this is refused.

For symbolic extents, every index is assumed to fit into 64 bits, which is true for every array in
memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from codegen.errors import LoweringError
from tensorir.arith.const_interval import ARITHMETIC, EVERYTHING, Interval, product, union
from tensorir.function import PrimFunc
from tensorir.memory.value_variables import scalar_values
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import BufferRegion
from tensorir.nodes.dtype import INT64, DataType
from tensorir.nodes.expr import BufferLoad, Call, IntImm, PrimExpr, Var, integer_limits
from tensorir.nodes.index_arithmetic import is_index_arithmetic
from tensorir.nodes.ops import cast
from tensorir.rewriting.visit import Rewriter


def check_overflow(func: PrimFunc) -> PrimFunc:
    """Compute index arithmetic in 64 bits where it does not fit into 32.

    Before: for i in 65536: for j in 65536: B[(i * 65536 + j) // 4294967296] = ...
    After:  ...  B[(T.Cast("int64", i) * T.int64(65536) + T.Cast("int64", j)) // ...] = ...

    Raises LoweringError naming the expression, its range and the remedy where that is impossible.
    """
    return func.with_body(_CheckOverflow(func)(func.body))


class _CheckOverflow(Rewriter):
    def __init__(self, func: PrimFunc) -> None:
        self._values = scalar_values(func)
        self._ranges: dict[Var, Interval] = {}
        """Variables whose values have constant bounds."""
        self._symbolic: dict[Var, Interval] = {}
        """Variables with symbolic bounds, for the largest sizes that their types hold."""
        self._checked: dict[PrimExpr, PrimExpr] = {}
        self._index: dict[PrimExpr, bool] = {}
        """Cache of `is_index_arithmetic`: True for expressions that are index arithmetic."""

    # ---------------------------------------------------------------------------------- statements

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        first, count = self._interval(node.min), self._interval(node.extent)
        if first is not None and count is not None:
            last = max(first[0], first[1] + count[1] - 1)
            self._define(node.loop_var, (first[0], last), f"loop {node.loop_var.name}")
        elif first is not None:
            # The type must also hold the end, which is one beyond the last value.
            self._symbolic[node.loop_var] = first[0], integer_limits(node.loop_var.dtype)[1] - 1
        return self.generic(node)

    def rewrite_LetStmt(self, node: s.LetStmt) -> s.Stmt:  # noqa: N802
        self._bind(node.var, node.value)
        return self.generic(node)

    def rewrite_BlockRealize(self, node: s.BlockRealize) -> s.Stmt:  # noqa: N802
        for axis, value in zip(node.block.iter_vars, node.iter_values, strict=True):
            self._bind(axis.var, value)
        return self.generic(node)

    def rewrite_BufferRegion(self, node: BufferRegion) -> BufferRegion:  # noqa: N802
        return node

    def _bind(self, var: Var, value: PrimExpr) -> None:
        if not is_index_arithmetic(value, self._values):
            self._values.add(var)
            return
        interval = self._interval(value)
        if interval is not None:
            self._define(var, interval, f"variable {var.name}")

    def _define(self, var: Var, interval: Interval, what: str) -> None:
        if not _fits(interval, var.dtype):
            raise LoweringError(
                f"{what} of {var.dtype} has values from {interval[0]} to {interval[1]}, which its "
                f"type cannot hold; {_remedy(var.dtype)}"
            )
        self._ranges[var] = interval

    # --------------------------------------------------------------------------------- expressions

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:  # noqa: N802
        wide = self._wide_enough(node)
        return wide if wide.dtype is node.dtype else cast(node.dtype, wide)

    def rewrite_Let(self, node: e.Let) -> PrimExpr:  # noqa: N802
        self._bind(node.var, node.value)
        return self.generic(node)

    def rewrite_Cast(self, node: e.Cast) -> PrimExpr:  # noqa: N802
        if self._is_index(node):
            return self.rewrite_PrimExpr(node)
        # A float that is converted from index arithmetic has the exact value, not the value wrapped
        # to 32 bits.
        value = self._wide_enough(node.value)
        if self._is_index(value) and self._reading().wraps_for_some_sizes(value):
            value = self._widen(value)
        return node if value is node.value else cast(node.dtype, value)

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:  # noqa: N802
        predicate = self.maybe(node.predicate)
        return node.changed(indices=self._indices(node.indices), predicate=predicate)

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        value, indices = self(node.value), self._indices(node.indices)
        return node.changed(value=value, indices=indices, predicate=self.maybe(node.predicate))

    def _indices(self, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        new = tuple([self._wide_enough(index) for index in indices])
        return new if any(a is not b for a, b in zip(new, indices, strict=True)) else indices

    def _wide_enough(self, node: PrimExpr) -> PrimExpr:
        """Return an expression of `node`'s type, or an integer of 64 bits."""
        kind = type(node)
        if kind is BufferLoad:
            return self(node)
        if not self._is_index(node):
            return self(node) if kind is e.Cast or kind is e.Let else self.generic(node)
        known = self._checked.get(node)
        if known is None:
            known = self._checked[node] = self._without_overflow(node)
        return known

    def _without_overflow(self, node: PrimExpr) -> PrimExpr:
        found = self._overflow(node)
        if found is None:
            return node
        if not _is_narrowing(found[0]):
            node = self._widen(node)
            found = self._overflow(node)
        if found is not None:
            part, (low, high) = found
            raise LoweringError(
                f"{part} has values from {low} to {high}, which {part.dtype} cannot hold; "
                f"{_remedy(part.dtype)}"
            )
        return node

    def _overflow(self, node: PrimExpr) -> tuple[PrimExpr, Interval] | None:
        reading = self._reading()
        reading(node)
        return reading.overflow

    def _range_for_any_sizes(self, var: Var) -> Interval:
        """Return the values that a variable may have for any sizes of buffers."""
        return self._ranges.get(var) or self._symbolic.get(var) or integer_limits(var.dtype)

    def _is_index(self, node: PrimExpr) -> bool:
        return node.dtype.is_integral and is_index_arithmetic(node, self._values, self._index)

    def _interval(self, node: PrimExpr) -> Interval | None:
        """Return the interval of index arithmetic, None if it depends on symbols or values."""
        if not is_index_arithmetic(node, self._values):
            return None
        return self._reading()(node)

    def _reading(self) -> Reading:
        return Reading(self._ranges.get, self._range_for_any_sizes, self._bind)

    def _widen(self, node: PrimExpr) -> PrimExpr:
        """Return index arithmetic computed in 64 bits."""
        if isinstance(node, e.Not):
            return e.Not(self._widen(node.a))
        if isinstance(node, e.BinaryOp):
            return type(node)(self._widen(node.a), self._widen(node.b))
        if isinstance(node, e.Cast):
            same = cast(node.dtype, self._widen(node.value))
            return same if node.dtype.is_bool else cast(INT64.with_lanes(node.dtype.lanes), same)
        if node.dtype.is_bool and not isinstance(node, Call):
            return node
        if isinstance(node, e.Ramp):
            return e.Ramp(self._widen(node.base), self._widen(node.stride), node.lanes)
        if isinstance(node, e.Broadcast):
            return e.Broadcast(self._widen(node.value), node.lanes)
        if isinstance(node, e.Select):
            yes, no = self._widen(node.true_value), self._widen(node.false_value)
            return e.Select(self._widen(node.condition), yes, no)
        if isinstance(node, e.Let):
            return e.Let(node.var, self(node.value), self._widen(node.body))
        if isinstance(node, Call):
            args = [self._widen(arg) for arg in node.args]
            return Call(args[-1].dtype, node.op, args)
        return cast(INT64.with_lanes(node.dtype.lanes), node)


# ------------------------------------------------------------------------------------- its values


class Reading:
    """Interval arithmetic on index arithmetic, as on unbounded integers.

    A call returns the minimum and the maximum value, None if they depend on a variable for which
    `of` returns None. If the operand of a cast wraps for some sizes of buffers, the cast changes
    its value, so the operand is read with `of_any_size`. `bind` is called with the values of let
    variables.
    """

    def __init__(
        self,
        of: Callable[[Var], Interval | None],
        of_any_size: Callable[[Var], Interval],
        bind: Callable[[Var, PrimExpr], None],
    ) -> None:
        self.of = of
        self.of_any_size = of_any_size
        self.bind = bind
        self.overflow: tuple[PrimExpr, Interval] | None = None
        """An innermost expression that overflows its type, and the range of its values."""
        self._only_mendable = False
        """True if only an overflow that 64 bits can avoid counts."""

    def __call__(self, node: PrimExpr) -> Interval | None:
        """Return the interval of an expression; record an overflow in it."""
        interval = READINGS[type(node)](self, node)
        if interval is None or self.overflow is not None or _fits(interval, node.dtype.element):
            return interval
        mendable = node.dtype.bits < INT64.bits and not _is_narrowing(node)
        if mendable or not self._only_mendable:
            self.overflow = node, interval
        return interval

    def choice(self, condition: PrimExpr, *values: PrimExpr) -> Interval | None:
        """Return the values of `T.if_then_else`.

        Its condition may keep a branch within bounds, so only an overflow that 64 bits can avoid
        counts there.
        """
        self(condition)
        outer, self._only_mendable = self._only_mendable, True
        found = self.united(*values)
        self._only_mendable = outer
        return found

    def select(self, node: e.Select) -> Interval | None:
        """Return the values of `T.Select`, which computes both."""
        self(node.condition)
        return self.united(node.true_value, node.false_value)

    def united(self, *parts: PrimExpr) -> Interval | None:
        """Return the interval around several intervals."""
        found = [self(part) for part in parts]
        known = [interval for interval in found if interval is not None]
        return union(*known) if len(known) == len(found) else None

    def condition(self, *parts: PrimExpr) -> Interval:
        """Return the values of a condition."""
        for part in parts:
            self(part)
        return 0, 1

    def call(self, node: Call) -> Interval | None:
        """Return the values of `T.likely` or `T.if_then_else`, whose result is an operand."""
        if len(node.args) == 1:
            return self(node.args[0])
        found = self.choice(*node.args)
        widest = INT64 if node.dtype.is_int else node.dtype
        return found if found is None or _fits(found, widest) else None

    def let(self, node: e.Let) -> Interval | None:
        """Return the values of the body that a variable is bound in."""
        self(node.value)
        self.bind(node.var, node.value)
        return self(node.body)

    def cast(self, node: e.Cast) -> Interval | None:
        """Return the values of a cast, which are those of its operand."""
        interval = self(node.value)
        if interval is None and self.overflow is None and self.wraps_for_some_sizes(node.value):
            self.overflow = node.value, EVERYTHING
        return (0, 1) if node.dtype.is_bool else interval

    def wraps_for_some_sizes(self, node: PrimExpr) -> bool:
        """Return True if computing in 64 bits may change the value for some sizes of buffers."""
        reading = Reading(self.of_any_size, self.of_any_size, self.bind)
        reading._only_mendable = True
        reading(node)
        return reading.overflow is not None

    def ramp(self, node: e.Ramp) -> Interval | None:
        """Return the values of all lanes."""
        base, stride = self(node.base), self(node.stride)
        if base is None or stride is None:
            return None
        reach = product(stride, (0, node.lanes - 1))
        return base[0] + reach[0], base[1] + reach[1]


def _arithmetic(
    combine: Callable[[Interval, Interval], Interval | None],
) -> Callable[[Reading, Any], Interval | None]:
    def values(reading: Reading, node: e.BinaryOp) -> Interval | None:
        a, b = reading(node.a), reading(node.b)
        return None if a is None or b is None else combine(a, b)

    return values


READINGS: Final[dict[type, Callable[[Reading, Any], Interval | None]]] = {
    IntImm: lambda _, n: (n.value, n.value),
    **dict.fromkeys((Var, e.SizeVar), lambda r, n: r.of(n)),
    **{kind: _arithmetic(combine) for kind, combine in ARITHMETIC.items()},
    **dict.fromkeys((*e.COMPARISONS, e.And, e.Or), lambda r, n: r.condition(n.a, n.b)),
    e.Not: lambda r, n: r.condition(n.a),
    e.Cast: Reading.cast,
    e.Select: Reading.select,
    Call: Reading.call,
    e.Let: Reading.let,
    e.Ramp: Reading.ramp,
    e.Broadcast: lambda r, n: r(n.value),
}
"""The function that reads each class of nodes of index arithmetic."""


def _is_narrowing(node: PrimExpr) -> bool:
    return type(node) is e.Cast and node.dtype.bits < node.value.dtype.bits


def _fits(interval: Interval, dtype: DataType) -> bool:
    low, high = integer_limits(dtype)
    return low <= interval[0] and interval[1] <= high


def _remedy(dtype: DataType) -> str:
    return "make it smaller" if dtype.bits >= INT64.bits else "declare it as int64"
