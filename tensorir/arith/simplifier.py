"""Simplification of expressions of every kind; the analyzer simplifies integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tensorir.arith.comparing import flip_comparison
from tensorir.arith.logic import negation, parts_of
from tensorir.arith.terms import choice_of, expr_key, has_loads
from tensorir.nodes import expr as e
from tensorir.nodes.dtype import BOOL, DataType
from tensorir.nodes.expr import FloatImm, IntImm, PrimExpr, integer_limits
from tensorir.nodes.index_arithmetic import is_scalar_integer
from tensorir.nodes.ops import (
    FALSE,
    TRUE,
    cast,
    compare,
    const,
    fold_binary,
    if_then_else,
    logical_not,
)
from tensorir.rewriting.visit import Rewriter, walk
from tensorir.semantics import DIVISIONS, EXACT, evaluate
from tensorir.semantics.integers import OF_BITS

if TYPE_CHECKING:
    from tensorir.arith.analyzer import Analyzer


def simplifier(analyzer: Analyzer) -> _Simplifier:
    """Return a simplifier that uses the facts that `analyzer` has when it is called."""
    return _Simplifier(analyzer)


_INTEGER_NODES: Final = frozenset({*e.ARITHMETIC, e.Var, e.SizeVar, e.Let})

_WITH_CHOICES: Final = frozenset({e.Add, e.Sub, e.Min, e.Max})
"""Operations that are moved into both branches of a choice if the result is shorter."""


_VECTOR_NODES: Final = frozenset({*e.BINARY_OPS, e.Not, e.Select, e.Cast})


class _Simplifier(Rewriter):
    """Simplifies expressions of every kind; integers by the analyzer's linear form."""

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer

    def __call__(self, node: Any) -> Any:
        kind = type(node)
        if kind is IntImm:
            return node
        if kind in _INTEGER_NODES and is_scalar_integer(node.dtype):
            if kind in _WITH_CHOICES and e.Select in (type(node.a), type(node.b)):
                chosen = self._move_into_branches(node)
                if chosen is not None:
                    return self(chosen)
            return self._analyzer.integer(node)
        if kind is e.Cast and is_scalar_integer(node.dtype) and is_scalar_integer(node.value.dtype):
            return self._analyzer.integer(node)
        if kind in _VECTOR_NODES and node.dtype.lanes > 1 and node.dtype.is_integral:
            return self._vector(node)
        return super().__call__(node)

    def _vector(self, node: PrimExpr) -> PrimExpr:
        """Return a vector simplified as one lane, or with simplified operands, whichever is
        shorter.
        """
        whole, parts = self._analyzer.vector(node), self.operands(node)
        return parts if _size(parts) < _size(whole) else whole

    def each(self, nodes: Any) -> Any:
        new = tuple([self(n) for n in nodes])
        return new if any(a is not b for a, b in zip(new, nodes, strict=True)) else nodes

    def operands(self, node: PrimExpr) -> PrimExpr:
        """Return a nonlinear expression with its operands simplified."""
        return super().__call__(node)

    def rewrite_BinaryOp(self, node: e.BinaryOp) -> PrimExpr:  # noqa: N802
        a: PrimExpr = self(node.a)
        b: PrimExpr = self(node.b)
        kind = type(node)
        if a.dtype.lanes == 1:
            divides_by_zero = isinstance(b, IntImm) and b.value == 0 and kind in DIVISIONS
            folded = None if divides_by_zero else fold_binary(kind, a, b)
            if folded is not None:
                return folded
        if kind in (e.Min, e.Max) and expr_key(a) == expr_key(b):
            return a
        return node if a is node.a and b is node.b else kind(a, b)

    def rewrite_CmpOp(self, node: e.CmpOp) -> PrimExpr:  # noqa: N802
        if is_scalar_integer(node.a.dtype):
            return self._analyzer.decide(self._analyzer.compare(node))
        a, b = self(node.a), self(node.b)
        kind = type(node)
        if a.dtype.lanes > 1:
            return flip_comparison(node, a, b)
        if isinstance(a, (IntImm, FloatImm)) and isinstance(b, (IntImm, FloatImm)):
            return compare(kind, a, b)
        if a.dtype.is_bool and kind in (e.EQ, e.NE):
            for this, other in ((a, b), (b, a)):
                if isinstance(other, IntImm):
                    return this if bool(other.value) == (kind is e.EQ) else self(e.Not(this))  # type: ignore[no-any-return]
            if expr_key(a) == expr_key(b):
                return TRUE if kind is e.EQ else FALSE
        return self._analyzer.decide(flip_comparison(node, a, b))

    def rewrite_LogicalOp(self, node: e.LogicalOp) -> PrimExpr:  # noqa: N802
        if node.dtype.lanes > 1:
            return self.rewrite_BinaryOp(node)
        kind = type(node)
        return self._analyzer.connect([self(part) for part in parts_of(node, kind)], kind)

    def rewrite_Not(self, node: e.Not) -> PrimExpr:  # noqa: N802
        if node.dtype.lanes > 1:
            return self.generic(node)
        inner = self(node.a)
        if inner is node.a and not isinstance(inner, (e.CmpOp, e.LogicalOp, e.Not, IntImm)):
            return node
        negated = negation(inner)
        return negated if type(negated) is e.Not else self(negated)

    def rewrite_Var(self, node: e.Var) -> PrimExpr:  # noqa: N802
        return self._analyzer.decide(node) if node.dtype is BOOL else node

    def rewrite_Select(self, node: e.Select) -> PrimExpr:  # noqa: N802
        return self._choice(node, node.condition, node.true_value, node.false_value)

    def rewrite_Call(self, node: e.Call) -> PrimExpr:  # noqa: N802
        choice = choice_of(node)
        if choice is not None:
            return self._choice(node, *choice)
        new = self.generic(node)
        return self._analyzer.decide(_fold_call(new))

    def _choice(self, node: PrimExpr, *parts: PrimExpr) -> PrimExpr:
        """Simplify a choice: a `Select`, or a call of `if_then_else`."""
        old, t, f = parts
        condition = self(old)
        taken = _taken_case(condition, t, f)
        if taken is not None:
            return self(taken)  # type: ignore[no-any-return]
        evaluates_both = type(node) is e.Select
        if evaluates_both and (has_loads(t) or has_loads(f)):
            # The rewrite must hold for any condition: an index must be in bounds without relying on
            # it.
            t, f = self(t), self(f)
        else:
            t, f = self._simplify_branches(condition, t, f)
        created = self._without_choice(condition, t, f)
        if created is None and not evaluates_both:
            created = self._merge_choices(condition, t, f)
        if created is not None:
            return created
        if condition is old and t is parts[1] and f is parts[2]:
            return node
        return e.Select(condition, t, f) if evaluates_both else if_then_else(condition, t, f)

    def _merge_choices(self, condition: PrimExpr, t: PrimExpr, f: PrimExpr) -> PrimExpr | None:
        """Return two nested choices that share a value as one; None for other expressions."""
        for inner, other, all_hold in ((t, f, True), (f, t, False)):
            if isinstance(inner, e.Call) and (choice := choice_of(inner)) is not None:
                # The second condition is evaluated only if the first one does not decide the
                # result.
                kept, same = choice[1 if all_hold else 2], choice[2 if all_hold else 1]
                if expr_key(same) == expr_key(other):
                    join = e.And if all_hold else e.Or
                    both = self(join(condition, choice[0]))
                    return if_then_else(both, *((kept, other) if all_hold else (other, kept)))
        return None

    def _simplify_branches(
        self, condition: PrimExpr, t: PrimExpr, f: PrimExpr
    ) -> tuple[PrimExpr, PrimExpr]:
        """Simplify the value for a true condition, and the value for a false condition."""
        if condition.dtype.lanes > 1:
            return self(t), self(f)
        with self._analyzer.constraint_scope(condition):
            t = self(t)
        with self._analyzer.constraint_scope(logical_not(condition)):
            f = self(f)
        return t, f

    def _move_into_branches(self, node: e.BinaryOp) -> PrimExpr | None:
        """Return a choice between two results; None if an operand must not be moved.

        An operand may be moved if one condition selects both operands, or if the only choice has a
        value that folds to a constant with the other operand.
        """
        a, b, kind = node.a, node.b, type(node)
        if isinstance(a, e.Select) and isinstance(b, e.Select):
            if expr_key(a.condition) != expr_key(b.condition):
                return None
            pairs = (a.true_value, b.true_value), (a.false_value, b.false_value)
            return e.Select(a.condition, *(kind(*pair) for pair in pairs))
        choice, other = (a, b) if isinstance(a, e.Select) else (b, a)
        assert isinstance(choice, e.Select)
        if kind not in (e.Add, e.Sub) or has_loads(other):
            return None
        values = choice.true_value, choice.false_value
        results = [kind(v, other) if choice is a else kind(other, v) for v in values]
        if all(self._analyzer.linear(result).terms for result in results):
            return None
        return e.Select(choice.condition, *results)

    def _without_choice(self, condition: PrimExpr, t: PrimExpr, f: PrimExpr) -> PrimExpr | None:
        """Return a choice between simplified values in a simpler form; None if none applies."""
        if expr_key(t) == expr_key(f):
            return t
        if t.dtype is not BOOL:
            return None
        if isinstance(t, IntImm):
            return self(e.Or(condition, f) if t.value else e.And(e.Not(condition), f))  # type: ignore[no-any-return]
        if isinstance(f, IntImm):
            return self(e.Or(e.Not(condition), t) if f.value else e.And(condition, t))  # type: ignore[no-any-return]
        return None

    def rewrite_Cast(self, node: e.Cast) -> PrimExpr:  # noqa: N802
        value = self(node.value)
        while isinstance(value, e.Cast) and _is_needless(
            value.dtype, value.value.dtype, node.dtype
        ):
            value = value.value
        if value is not node.value or type(value) is not e.Cast:
            created = cast(node.dtype, value)
            return node if type(created) is e.Cast and created.value is node.value else created
        return value if value.dtype is node.dtype else node

    def rewrite_Reduce(self, node: e.Reduce) -> PrimExpr:  # noqa: N802
        analyzer = self._analyzer
        with analyzer.scope():
            for axis in self.each(node.axis):
                if axis.dom is not None:
                    analyzer.bind(axis.var, axis.dom, allow_override=True)
            return self.generic(node)

    def rewrite_Ramp(self, node: e.Ramp) -> PrimExpr:  # noqa: N802
        base, stride = self(node.base), self(node.stride)
        same = base is node.base and stride is node.stride
        return node if same else e.Ramp(base, stride, node.lanes)


def _size(expr: PrimExpr) -> int:
    return sum(1 for _ in walk(expr))


def _taken_case(condition: PrimExpr, t: PrimExpr, f: PrimExpr) -> PrimExpr | None:
    if isinstance(condition, e.Broadcast):
        condition = condition.value
    if not isinstance(condition, IntImm):
        return None
    return t if condition.value else f


def _fold_call(call: e.Call) -> PrimExpr:
    """Return the value of an operation on integers that are all constant, else the call."""
    name = getattr(call.op, "short_name", "")
    values = [arg.value for arg in call.args if isinstance(arg, IntImm)]
    if (name not in EXACT and name not in OF_BITS) or len(values) < len(call.args):
        return call
    dtype = call.args[0].dtype
    value = evaluate(name, dtype, *values)
    return const(value, call.dtype)


def _is_needless(middle: DataType, source: DataType, target: DataType) -> bool:
    """Return True if a cast of `source` to `target` may omit a cast to `middle` in between."""
    if not (source.is_integral and middle.is_integral):
        return False
    if target.is_bool:
        return source.is_bool or _limits_within(source, middle)
    if target.is_integral and target.bits <= middle.bits and not middle.is_bool:
        # Both casts drop high bits, and the second drops all bits that the first drops.
        return True
    return _limits_within(source, middle)


def _limits_within(inner: DataType, outer: DataType) -> bool:
    low, high = integer_limits(inner.element)
    least, most = integer_limits(outer.element)
    return least <= low and high <= most
