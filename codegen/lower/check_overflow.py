"""Index arithmetic that its type cannot hold.

Loop variables, axes, extents, constants and what is computed from them (index arithmetic)
do not overflow: every pass reasons about them as integers without bounds, and emission computes
scalars in 64 bits. This pass makes that true where ranges are known:

- An expression of 32 bits with an intermediate value beyond them is written in 64 bits.
- What a variable of 32 bits stands for must fit into it, and what 64 bits hold must fit into them;
  a program where it does not is refused.

Of symbolic extents it is assumed that every index computed from them fits into 64 bits, which holds
for whatever lies in memory.
"""

from __future__ import annotations

from typing import Final

from codegen.lower.errors import LoweringError
from tensorir import expr as e
from tensorir import stmt as s
from tensorir.arith.const_interval import Interval, exact_interval
from tensorir.buffer import BufferRegion
from tensorir.dtype import INT64, DataType
from tensorir.expr import BufferLoad, Call, PrimExpr, Var, integer_limits
from tensorir.function import PrimFunc
from tensorir.index_arithmetic import is_index_arithmetic
from tensorir.intrin import Op
from tensorir.ops import cast
from tensorir.value_variables import scalar_values
from tensorir.visit import Rewriter, post_order_visit, walk

_RING: Final = frozenset({e.Add, e.Sub, e.Mul})
_UNKNOWN: Final = frozenset({e.Let, Call})
_IF_THEN_ELSE: Final = Op.get("if_then_else")


def check_overflow(func: PrimFunc) -> PrimFunc:
    """Compute in 64 bits what does not fit into 32.

    Before: for i in 65536: for j in 65536: B[(i * 65536 + j) // 4294967296] = ...
    After:  ...  B[(T.Cast("int64", i) * T.int64(65536) + T.Cast("int64", j)) // ...] = ...

    Raises LoweringError naming the expression, its range and the remedy where that is impossible.
    """
    return func.with_body(_CheckOverflow(func)(func.body))


class _CheckOverflow(Rewriter):
    def __init__(self, func: PrimFunc) -> None:
        self._values = scalar_values(func)
        self._ranges: dict[Var, Interval] = {}
        """Variables whose values lie between constants."""
        self._checked: dict[PrimExpr, PrimExpr] = {}

    # ---------------------------------------------------------------------------------- statements

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        low, extent = self(node.min), self(node.extent)
        first, count = self._interval(node.min), self._interval(node.extent)
        if first is not None and count is not None:
            last = max(first[0], first[1] + count[1] - 1)
            self._define(node.loop_var, (first[0], last), f"loop {node.loop_var.name}")
        body = self(node.body)
        if low is node.min and extent is node.extent and body is node.body:
            return node
        return node.with_(min=low, extent=extent, body=body)

    def rewrite_LetStmt(self, node: s.LetStmt) -> s.Stmt:  # noqa: N802
        value = self(node.value)
        self._bind(node.var, node.value)
        body = self(node.body)
        same = value is node.value and body is node.body
        return node if same else s.LetStmt(node.var, value, body)

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
        value = self(node.value)
        self._bind(node.var, node.value)
        body = self(node.body)
        return node if value is node.value and body is node.body else e.Let(node.var, value, body)

    def rewrite_Cast(self, node: e.Cast) -> PrimExpr:  # noqa: N802
        if self._is_index(node):
            return self.rewrite_PrimExpr(node)
        # A float of index arithmetic has its value, not what is left of it in 32 bits.
        value = self._wide_enough(node.value)
        return node if value is node.value else cast(node.dtype, value)

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:  # noqa: N802
        indices = self._indices(node.indices)
        predicate = self.maybe(node.predicate)
        if indices is node.indices and predicate is node.predicate:
            return node
        return BufferLoad(node.buffer, indices, predicate)

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        value, indices = self(node.value), self._indices(node.indices)
        predicate = self.maybe(node.predicate)
        if value is node.value and indices is node.indices and predicate is node.predicate:
            return node
        return s.BufferStore(node.buffer, value, indices, predicate)

    def _indices(self, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        new = tuple([self._wide_enough(index) for index in indices])
        return new if any(a is not b for a, b in zip(new, indices, strict=True)) else indices

    def _wide_enough(self, node: PrimExpr) -> PrimExpr:
        """Return an expression of `node`'s type, or an integer of 64 bits."""
        kind = type(node)
        if kind is e.Let or kind is BufferLoad:
            return self(node)
        if not self._is_index(node):
            return self.rewrite_Cast(node) if kind is e.Cast else self.generic(node)  # type: ignore[arg-type]
        known = self._checked.get(node)
        if known is None:
            known = self._checked[node] = self._widened(node) if self._overflows(node) else node
            if known is not node:
                self._refuse_overflow(known)
        return known

    def _is_index(self, node: PrimExpr) -> bool:
        return node.dtype.is_integral and is_index_arithmetic(node, self._values)

    def _interval(self, node: PrimExpr) -> Interval | None:
        """Return the values of index arithmetic, None where they depend on symbols or values."""
        if not is_index_arithmetic(node, self._values) or self._is_symbolic(node):
            return None
        interval = exact_interval(node, self._ranges)
        return exact_interval(self._widened(node), self._ranges) if interval is None else interval

    def _is_symbolic(self, node: PrimExpr) -> bool:
        """Say whether some part has no known constant range, as lets and calls have not."""
        return any(
            part not in self._ranges if isinstance(part, Var) else type(part) in _UNKNOWN
            for part in walk(node)
        )

    def _overflows(self, node: PrimExpr) -> bool:
        if exact_interval(node, self._ranges) is not None:
            return False
        return self._overflow(node) is not None

    def _overflow(self, node: PrimExpr) -> tuple[PrimExpr, Interval] | None:
        """Return an innermost part whose values its type cannot hold, and their range."""
        found: list[tuple[PrimExpr, Interval]] = []

        def visit(part: object) -> None:
            if type(part) not in _RING or found:
                return
            assert isinstance(part, e.BinaryOp)
            if self._is_symbolic(part) or exact_interval(part, self._ranges) is not None:
                return
            a, b = exact_interval(part.a, self._ranges), exact_interval(part.b, self._ranges)
            if a is not None and b is not None:
                found.append((part, _combined(part, a, b)))

        post_order_visit(node, visit)
        return found[0] if found else None

    def _refuse_overflow(self, node: PrimExpr) -> None:
        found = self._overflow(node)
        if found is not None:
            part, (low, high) = found
            raise LoweringError(
                f"{part} has values from {low} to {high}, which {part.dtype} cannot hold; "
                f"{_remedy(part.dtype)}"
            )

    def _widened(self, node: PrimExpr) -> PrimExpr:
        """Return index arithmetic computed in 64 bits."""
        if isinstance(node, e.Not):
            return e.Not(self._widened(node.a))
        if isinstance(node, e.BinaryOp):
            return type(node)(self._widened(node.a), self._widened(node.b))
        if node.dtype.is_bool:
            return node
        if isinstance(node, e.Ramp):
            return e.Ramp(self._widened(node.base), self._widened(node.stride), node.lanes)
        if isinstance(node, e.Broadcast):
            return e.Broadcast(self._widened(node.value), node.lanes)
        if isinstance(node, e.Select):
            yes, no = self._widened(node.true_value), self._widened(node.false_value)
            return e.Select(self._widened(node.condition), yes, no)
        if isinstance(node, Call) and node.op is _IF_THEN_ELSE:
            condition, yes, no = (self._widened(arg) for arg in node.args)
            return Call(yes.dtype, _IF_THEN_ELSE, (condition, yes, no))
        return cast(INT64.with_lanes(node.dtype.lanes), node)


def _fits(interval: Interval, dtype: DataType) -> bool:
    low, high = integer_limits(dtype)
    return low <= interval[0] and interval[1] <= high


def _remedy(dtype: DataType) -> str:
    return "make it smaller" if dtype.bits >= INT64.bits else "declare it as int64"


def _combined(node: e.BinaryOp, a: Interval, b: Interval) -> Interval:
    if type(node) is e.Add:
        return a[0] + b[0], a[1] + b[1]
    if type(node) is e.Sub:
        return a[0] - b[1], a[1] - b[0]
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)
