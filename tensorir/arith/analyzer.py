"""`Analyzer`: simplification, bounds and proofs of integer expressions.

Integers become linear combinations. Quotients by constants are independent terms in them and
remainders do not occur (see `linear`); two expressions are equal if their difference is 0.
Inequalities follow from interval bounds (Cousot and Cousot 1977) and from facts added to the
difference. Simplified comparisons use `<`, `<=`, `==` and `!=` only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from tensorir.arith.comparing import Comparisons, flip_comparison, gap_of
from tensorir.arith.const_interval import (
    EVERYTHING,
    HALF_INFINITE,
    INFINITE,
    Interval,
    exact_interval,
    type_interval,
)
from tensorir.arith.context import Context, Statement
from tensorir.arith.interval import IntervalSet, eval_set
from tensorir.arith.lanes import Lanes
from tensorir.arith.linear import Linear, Term
from tensorir.arith.linearize import Linearizer
from tensorir.arith.logic import Connectives, negation
from tensorir.arith.modular import ModularSet
from tensorir.arith.polynomial import at_corners, least_values
from tensorir.arith.residues import learn_residues, residue_of
from tensorir.arith.simplifier import simplifier
from tensorir.arith.terms import choice_of, expr_key, reads_memory
from tensorir.arith.writing import NotRepresentableError
from tensorir.errors import IRValueError
from tensorir.nodes import expr as e
from tensorir.nodes.buffer import Range
from tensorir.nodes.expr import ExprLike, IntImm, PrimExpr, Var
from tensorir.nodes.index_arithmetic import is_scalar_integer
from tensorir.nodes.ops import FALSE, TRUE, as_expr, conjuncts, logical_not


@dataclass(frozen=True, slots=True)
class ConstIntBound:
    """The smallest and largest value an expression may have, both included."""

    min_value: int
    max_value: int

    POS_INF: ClassVar[int] = (1 << 63) - 1
    NEG_INF: ClassVar[int] = -(1 << 63)


class Analyzer:
    """Simplifies and proves, given ranges of variables and facts.

    A free variable may have any value, except that a `SizeVar` is not negative. Index arithmetic is
    assumed not to overflow its dtype. Arithmetic on run-time values wraps around: on loads, calls,
    and the variables in `values`, such as the scalar parameters of a function.
    """

    def __init__(self, values: Iterable[Var] = ()) -> None:
        self._simplifier = simplifier(self)
        self._linear = Linearizer(self._simplify_operands, values)
        self._linear.context.reader = self._linear
        self._comparisons = Comparisons(self._linear)
        self._connectives = Connectives(self._linear, self._comparisons)
        self._lanes: dict[int, Lanes] = {}

    # --------------------------------------------------------------------------------------- facts

    def bind(self, var: Var, value: Range | ExprLike, allow_override: bool = False) -> None:
        """Bind `var` to a range or to an expression, until the scope ends.

        The extent of a range is assumed to be positive. With `allow_override`, an earlier binding
        of the variable and all consequences of it are dropped. Raises IRValueError for a variable
        that is bound already, unless `allow_override`.
        """
        reader = self._linear
        if isinstance(value, Range):
            origin: tuple[Linear, ...] = (reader(value.min), reader(value.extent))
        else:
            origin = (reader(as_expr(value)),)
        known = reader.context.bound_to.get(var)
        if known is not None:
            if [part.key for part in known] == [part.key for part in origin]:
                return
            if not allow_override:
                raise IRValueError(f"{var.name} is bound already; pass allow_override=True")
        reader.context = self._with_bound(var, *origin)

    def _with_bound(self, var: Var, low: Linear, extent: Linear | None = None) -> Context:
        """Return the context with `var` in `[low, low + extent)`, or equal to `low`."""
        reader = self._linear
        context = reader.context
        if var in context.bound_to:
            context = context.without(var)
        if extent is None:
            return Context(context, Statement((), var, (low,), reader.bound(low), low))
        origin = (low, extent)
        if not low.terms and not extent.terms:
            interval = low.const, min(low.const + extent.const - 1, INFINITE)
            value = low if extent.const == 1 else None
            return Context(context, Statement((), var, origin, interval, value))
        end = low.plus(extent)
        interval = reader.bound(low)[0], min(reader.bound(end)[1] - 1, INFINITE)
        if not extent.terms and extent.const == 1:
            return Context(context, Statement((), var, origin, interval, low))
        this = Linear({var: 1}, 0)
        facts = [this.plus(low, -1), end.plus(this, -1).plus_const(-1)]
        facts.extend(
            Linear({symbol: 1}, -least)
            for symbol, least in least_values(extent, context.piece_bound)
            if isinstance(symbol, Var)
        )
        return Context(context, Statement(_memory_free(facts), var, origin, interval))

    def scope(self) -> Scope:
        """Restore the bindings and facts at the end of a `with` statement."""
        return Scope(self._linear, self._linear.context)

    def loop_scope(self, var: Var, low: ExprLike, extent: ExprLike) -> Scope:
        """Enter a loop in a `with` statement: `var` runs over `[low, low + extent)`.

        Inside, `extent >= 1` holds. Outer facts about `var` are hidden.
        """
        reader = self._linear
        bound = self._with_bound(var, reader(as_expr(low)), reader(as_expr(extent)))
        return Scope(reader, bound)

    def constraint_scope(self, condition: PrimExpr) -> Scope:
        """Assume that `condition` holds, inside a `with` statement.

        Facts about memory are ignored, since a store inside the statement may change it.
        """
        reader = self._linear
        outer = reader.context
        try:
            self._assume(condition)
            return Scope(reader, reader.context)
        finally:
            reader.context = outer

    def _assume(self, condition: PrimExpr) -> None:
        for part in _conjuncts(condition):
            facts, residues = self._memory_free_facts(part)
            if facts or residues:
                statement = Statement(facts, residues=residues)
                self._linear.context = Context(self._linear.context, statement)

    def facts(self, condition: PrimExpr) -> list[Linear]:
        """Return the sums that are at least 0 if `condition` holds.

        Sums that read memory are omitted.
        """
        return [fact for part in _conjuncts(condition) for fact in self._memory_free_facts(part)[0]]

    def _memory_free_facts(
        self, condition: PrimExpr
    ) -> tuple[tuple[Linear, ...], tuple[tuple[Term, ModularSet], ...]]:
        """Return the facts of a condition that no store invalidates: nonnegative sums, and residue
        classes.
        """
        gap = gap_of(condition, self._linear)
        if gap is not None:
            return _memory_free([gap, *self._comparisons.variable_facts(gap)]), ()
        if isinstance(condition, e.EQ) and is_scalar_integer(condition.a.dtype):
            difference = self._linear(condition.a).plus(self._linear(condition.b), -1)
            classes = tuple(learn_residues(difference, self._linear.context))
            return _memory_free([difference, difference.times(-1)]), classes
        if condition.dtype.lanes != 1:
            return (), ()
        if isinstance(condition, e.NE) and is_scalar_integer(condition.a.dtype):
            difference = self._linear(condition.a).plus(self._linear(condition.b), -1)
            low, high = self._linear.bound(difference)
            if low == 0 or high == 0:
                return _memory_free([difference.times(-1 if high == 0 else 1).plus_const(-1)]), ()
            condition = self.compare(condition)
        return _memory_free([self._linear.truth(condition).plus_const(-1)]), ()

    # -------------------------------------------------------------------------------- simplifying

    def simplify(self, expr: ExprLike, steps: int = 2, *, sort: bool = False) -> PrimExpr:
        """Return `expr` in its simplest form.

        Terms keep the order in which they appear; with `sort` they are in the order in which their
        variables were bound, so that equal sums have one form.
        """
        self._linear.sort_terms = sort
        result: PrimExpr = self._simplifier(as_expr(expr))
        self._linear.sort_terms = False
        return result

    def canonical_simplify(self, expr: ExprLike) -> PrimExpr:
        """Return `expr` in its simplest form; there is one form, so this is `simplify`."""
        return self.simplify(expr)

    def rewrite_simplify(self, expr: ExprLike) -> PrimExpr:
        """Return `expr` in its simplest form; there is one form, so this is `simplify`."""
        return self.simplify(expr)

    @property
    def linearizer(self) -> Linearizer:
        """The converter of expressions to linear combinations, for analyses of this package."""
        return self._linear

    def linear(self, expr: PrimExpr) -> Linear:
        """Return a scalar integer expression as a linear combination."""
        return self._linear(expr)

    def integer(self, expr: PrimExpr) -> PrimExpr:
        """Return a scalar integer expression in its simplest form.

        If that form has a constant out of the range of the type, the operands are simplified one by
        one.
        """
        linear = self._linear(expr)
        if linear.terms and self._linear.context.facts:
            low, high = self._linear.bound(linear)
            if low == high:
                linear = Linear({}, low)
        try:
            return self._linear.write(linear, expr.dtype)
        except NotRepresentableError:
            return self._simplify_operands(expr)

    def _simplify_operands(self, expr: PrimExpr) -> PrimExpr:
        return self._simplifier.operands(expr)

    def vector(self, expr: PrimExpr) -> PrimExpr:
        """Return a vector of integers or conditions with its lanes simplified as scalars."""
        lanes, element = self._element(expr)
        with self.loop_scope(lanes.lane, 0, lanes.lanes):
            return lanes.vector(self._simplifier(element))

    def _element(self, vector: PrimExpr) -> tuple[Lanes, PrimExpr]:
        """Return a converter for the lanes of a vector, and the scalar expression of one lane."""
        count = vector.dtype.lanes
        lanes = self._lanes.get(count)
        if lanes is None:
            lanes = self._lanes[count] = Lanes(count, self._simplifier)
        element = lanes.element(vector)
        for var, whole in lanes.elements.items():
            self._linear.treat_like(var, whole)
        return lanes, element

    def compare(self, expr: e.CmpOp) -> PrimExpr:
        """Return a comparison as a constant if it can be decided, or in its shortest form."""
        simple = self._comparisons.simplify(expr)
        if simple is not None:
            return simple
        return flip_comparison(expr, self.integer(expr.a), self.integer(expr.b))

    def decide(self, condition: PrimExpr) -> PrimExpr:
        """Return a condition whose parts are simplified, as a constant if the facts decide it."""
        if not self._linear.context.facts or not condition.dtype.is_bool:
            return condition
        low, high = self._linear.bound(self._linear.truth(condition))
        return (TRUE if low else FALSE) if low == high else condition

    def connect(self, parts: Iterable[PrimExpr], kind: type[e.LogicalOp]) -> PrimExpr:
        """Return the conjunction or disjunction of conditions that are simplified."""
        return self._connectives.connect(parts, kind)

    # ------------------------------------------------------------------------------------ proving

    def can_prove(self, condition: ExprLike, strength: int = 0) -> bool:
        """Return True if `condition` provably holds."""
        gap = gap_of(as_expr(condition), self._linear)
        if gap is not None:
            return self._linear.at_least_zero(gap)
        simple = self.simplify(condition)
        return isinstance(simple, IntImm) and simple.value != 0

    def can_prove_equal(self, a: ExprLike, b: ExprLike) -> bool:
        """Return True if two expressions provably have the same value."""
        x, y = as_expr(a), as_expr(b)
        if x is y:
            return True
        if is_scalar_integer(x.dtype) and is_scalar_integer(y.dtype):
            difference = self._linear(x).plus(self._linear(y), -1)
            return self._linear.bound(difference) == (0, 0)
        return bool(expr_key(self.simplify(x)) == expr_key(self.simplify(y)))

    def can_prove_greater_equal(self, expr: ExprLike, lower_bound: int) -> bool:
        """Return True if `expr` is provably at least a constant."""
        return self._linear.at_least_zero(self._linear(as_expr(expr)).plus_const(-lower_bound))

    def const_int_bound(self, expr: ExprLike) -> ConstIntBound:
        """Return constant bounds of `expr` (Cousot and Cousot 1977).

        They hold for the wrapped value in its dtype, and for each lane of a vector. Divisors are
        assumed not to be 0.
        """
        value = as_expr(expr)
        if value.dtype.lanes > 1 and value.dtype.is_integral:
            lanes, element = self._element(value)
            with self.loop_scope(lanes.lane, 0, lanes.lanes):
                return self.const_int_bound(element)
        low, high = self._interval(value)
        least, most = type_interval(value) or EVERYTHING
        low, high = max(low, least), min(high, most)
        return ConstIntBound(
            ConstIntBound.NEG_INF if low <= -HALF_INFINITE else low,
            ConstIntBound.POS_INF if high >= HALF_INFINITE else high,
        )

    def _interval(self, value: PrimExpr) -> Interval:
        """Return bounds that combine the sum of terms, the operations as written, and choices."""
        linear = self._linear(value)
        low, high = self._linear.bound(linear)
        if low == high or not is_scalar_integer(value.dtype):
            return low, high
        choice = choice_of(value)
        if choice is not None:
            condition, *values = choice
            with self.constraint_scope(condition):
                first = self._interval(values[0])
            with self.constraint_scope(logical_not(condition)):
                second = self._interval(values[1])
            return max(low, min(first[0], second[0])), min(high, max(first[1], second[1]))
        written = exact_interval(value, self._linear.context.ranges)
        corners = at_corners(linear, self._linear.context.piece_bound)
        for found in (written, corners):
            if found is not None:
                low, high = max(low, found[0]), min(high, found[1])
        if low <= -HALF_INFINITE and self._linear.at_least_zero(linear):
            low = 0
        if high >= HALF_INFINITE and self._linear.at_least_zero(linear.times(-1)):
            high = 0
        return low, high

    def modular_set(self, expr: ExprLike) -> ModularSet:
        """Return `coeff` and `base` such that `expr` is `coeff * k + base` for an integer k.

        Classes are propagated through operations (Granger 1989); assumed equations, such as `x % 8
        == 3`, narrow the classes of variables.
        """
        return residue_of(self._linear(as_expr(expr)), self._linear.context)

    def int_set(self, expr: PrimExpr, dom_map: dict[Var, IntervalSet]) -> IntervalSet:
        """Return the interval of `expr` over the sets of its variables in `dom_map`."""
        return eval_set(expr, dom_map, self)


class Scope:
    """A `with` statement that sets the current context, and restores the previous one."""

    __slots__ = ("_inside", "_outside", "_reader")

    def __init__(self, reader: Linearizer, inside: Context) -> None:
        self._reader = reader
        self._inside = inside
        self._outside = inside

    def __enter__(self) -> None:
        self._outside = self._reader.context
        self._reader.context = self._inside

    def __exit__(self, *_: object) -> None:
        self._reader.context = self._outside


def _conjuncts(condition: PrimExpr) -> Iterator[PrimExpr]:
    """Yield the conjuncts of a condition."""
    for part in conjuncts(condition):
        if isinstance(part, e.Call) and getattr(part.op, "short_name", "") == "likely":
            yield from _conjuncts(part.args[0])
        elif isinstance(part, e.Not):
            opposite = negation(part.a)
            if isinstance(opposite, e.Not):
                yield part
            else:
                yield from _conjuncts(opposite)
        else:
            yield part


def _memory_free(facts: Iterable[Linear]) -> tuple[Linear, ...]:
    """Return the facts that do not read memory: a store inside the scope may change memory."""
    return tuple([f for f in facts if not any(reads_memory(term) for term in f.terms)])
