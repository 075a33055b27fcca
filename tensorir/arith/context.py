"""The context of an analysis: ranges of variables, and facts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import count
from typing import Final, Protocol

from tensorir.arith.const_interval import (
    EVERYTHING,
    INFINITE,
    Interval,
    floor_bound,
    floor_quotient,
    floor_remainder,
    product,
    trunc_quotient,
    trunc_remainder,
    type_interval,
    value_interval,
)
from tensorir.arith.linear import Atom, Linear, Opaque, Piece, Term, Wrapped
from tensorir.arith.modular import ANY, ModularSet
from tensorir.arith.terms import mentions, variables_of
from tensorir.nodes.expr import BufferLoad, PrimExpr, SizeVar, Var, integer_limits
from tensorir.nodes.index_arithmetic import holds_indices

_stamps: Final = count()


class Reader(Protocol):
    """The interface of a reader of expressions as linear combinations, in its current context."""

    context: Context

    def __call__(self, expr: PrimExpr) -> Linear:
        """Return an integer expression as a linear combination."""

    def bound(self, linear: Linear) -> Interval:
        """Return an interval that holds every value."""


class Statement:
    """The difference between a context and its parent: a variable's range or value, and facts."""

    __slots__ = ("facts", "interval", "origin", "residues", "value", "var")

    def __init__(
        self,
        facts: tuple[Linear, ...] = (),
        var: Var | None = None,
        origin: tuple[Linear, ...] = (),
        interval: Interval = EVERYTHING,
        value: Linear | None = None,
        residues: tuple[tuple[Term, ModularSet], ...] = (),
    ) -> None:
        self.facts: Final = facts
        """Sums that are at least 0."""
        self.residues: Final = residues
        """Terms and their residue classes."""
        self.var: Final = var
        """The bound variable, if any."""
        self.origin: Final = origin
        """The minimum and extent, or the value, that the variable was bound to."""
        self.interval: Final = interval
        self.value: Final = value
        """The value of the variable, None if only its range is known."""

    def without(self, var: Var) -> Statement | None:
        """Return the statement without facts about `var`; None if no fact or binding is left."""
        if self.var is var:
            return None
        facts = tuple([fact for fact in self.facts if not mentions(fact, var)])
        residues = tuple([r for r in self.residues if var not in variables_of(r[0])])
        value = self.value
        if value is not None and mentions(value, var):
            value = None
        kept = len(facts) + len(residues)
        if kept == len(self.facts) + len(self.residues) and value is self.value:
            return self
        if self.var is None and not kept:
            return None
        return Statement(facts, self.var, self.origin, self.interval, value, residues)


class Context:
    """Ranges and values of variables, and facts `linear >= 0`; immutable but for its caches.

    A context is its parent plus one statement; leaving a scope returns to the parent. Results that
    are computed in a context are cached: linear forms in `forms`, bounds in the `Linear` or `Atom`
    together with the unique `stamp` of the context.
    """

    __slots__ = (
        "_by_term",
        "_order",
        "bound_to",
        "facts",
        "forms",
        "parent",
        "ranges",
        "reader",
        "residues",
        "stamp",
        "statement",
        "values",
    )

    def __init__(
        self,
        parent: Context | None = None,
        statement: Statement | None = None,
        ranges: dict[Var, Interval] | None = None,
    ) -> None:
        self.parent: Final = parent
        self.statement: Final = statement
        self.stamp: Final = next(_stamps)
        self.forms: Final[dict[PrimExpr, Linear]] = {}
        """Linear forms of expressions."""
        self._by_term: dict[Term, list[Linear]] | None = None
        self._order: dict[Var, int] | None = None
        self.ranges: dict[Var, Interval] = ranges or {}
        """Constant bounds of variables."""
        self.values: dict[Var, Linear] = {}
        """The values of variables that are bound to an expression."""
        self.bound_to: dict[Var, tuple[Linear, ...]] = {}
        """Bound variables in order, with the origin of their facts."""
        self.facts: tuple[Linear, ...] = ()
        """Sums that are at least 0; facts that the ranges imply are omitted."""
        self.residues: dict[Term, ModularSet] = {}
        """Assumed residue classes of terms."""
        self.reader: Reader | None = None
        """The reader for operands of nonlinear terms; set when the first such term is read."""
        if parent is None or statement is None:
            return
        self.ranges, self.values, self.bound_to = parent.ranges, parent.values, parent.bound_to
        self.facts, self.residues, self.reader = parent.facts, parent.residues, parent.reader
        var = statement.var
        if var is not None:
            self.ranges = {**parent.ranges, var: statement.interval}
            self.bound_to = {**parent.bound_to, var: statement.origin}
            if statement.value is not None:
                self.values = {**parent.values, var: statement.value}
        for fact in statement.facts:
            self._add_fact(fact)
        for term, found in statement.residues:
            known = self.residues.get(term, ANY)
            self.residues = {**self.residues, term: known.meet(found)}

    def _add_fact(self, fact: Linear) -> None:
        """Add the fact that `fact` is not negative; for a single variable, narrow its range."""
        if len(fact.terms) != 1:
            if fact.terms:
                self.facts = (*self.facts, fact)
            return
        ((term, c),) = fact.terms.items()
        if not isinstance(term, Var):
            self.facts = (*self.facts, fact)
            return
        low, high = self.piece_bound(term)
        narrowed = (
            (max(low, -(fact.const // c)), high) if c > 0 else (low, min(high, fact.const // -c))
        )
        if narrowed == (low, high):
            return
        if self.parent is not None and self.ranges is self.parent.ranges:
            self.ranges = dict(self.ranges)
        self.ranges[term] = narrowed

    def without(self, var: Var) -> Context:
        """Return a context like this one, without the facts about `var`."""
        chain: list[Context] = []
        context = self
        while context.parent is not None:
            chain.append(context)
            context = context.parent
        for link in reversed(chain):
            assert link.statement is not None
            kept = link.statement.without(var)
            if kept is link.statement and link.parent is context:
                context = link
            elif kept is not None:
                context = Context(context, kept)
        return context

    @property
    def order(self) -> dict[Var, int]:
        """The variables with their positions in the order in which they were bound."""
        if self._order is None:
            self._order = {var: k for k, var in enumerate(self.bound_to)}
        return self._order

    def facts_about(self, term: Term) -> Sequence[Linear]:
        """Return the facts that have `term` as a term."""
        if self._by_term is None:
            self._by_term = {}
            for fact in self.facts:
                for part in fact.terms:
                    self._by_term.setdefault(part, []).append(fact)
        return self._by_term.get(term, ())

    def bound(self, linear: Linear) -> Interval:
        """Return an interval that holds every value of `linear`."""
        if not linear.terms:
            return linear.const, linear.const
        if linear.stamp == self.stamp:
            return linear.bound
        parts = linear.parts
        if parts is None:
            parts = [(c, term) for term, c in linear.terms.items()]
        low, high = self._sum_bound([(c, self.piece_bound(p)) for c, p in parts])
        low, high = low + linear.rest, high + linear.rest
        if self.facts:
            low, high = self._tighten(linear, low, high)
        linear.bound = (max(low, -INFINITE), min(high, INFINITE))
        linear.stamp = self.stamp
        return linear.bound

    def _sum_bound(self, parts: list[tuple[int, Interval]]) -> Interval:
        low = high = 0
        for coefficient, (least, most) in parts:
            if coefficient > 0:
                low += coefficient * least
                high += coefficient * most
            else:
                low += coefficient * most
                high += coefficient * least
        return low, high

    def _tighten(self, linear: Linear, low: int, high: int) -> Interval:
        """Return a bound that is narrowed by facts about the same combination of terms."""
        first = next(iter(linear.terms))
        for fact in self.facts_about(first):
            if len(fact.terms) != len(linear.terms):
                continue
            scale, rest = divmod(linear.terms[first], fact.terms[first])
            if rest or any(linear.terms.get(t) != c * scale for t, c in fact.terms.items()):
                continue
            offset = linear.const - scale * fact.const
            if scale > 0:
                low = max(low, offset)
            else:
                high = min(high, offset)
        return low, high

    def piece_bound(self, piece: Term | Piece) -> Interval:
        """Return an interval that holds every value of a term or of a remainder."""
        if isinstance(piece, Atom):
            if piece.stamp != self.stamp:
                low, high = piece.evaluate(self)
                if self.facts:
                    low, high = self._tighten(Linear({piece: 1}, 0), low, high)
                piece.bound = low, high
                piece.stamp = self.stamp
            return piece.bound
        if isinstance(piece, Piece):
            return piece.evaluate(self)
        known = self.ranges.get(piece)
        return _default_range(piece) if known is None else known

    # ------------------------------------------------------------- the domain of intervals

    def of(self, value: Linear | int) -> Interval:
        """Return an interval that holds every value of a sum."""
        return self.bound(value) if isinstance(value, Linear) else (value, value)

    def quotient(self, a: Interval, b: Interval, floors: bool) -> Interval:
        """Divide by a nonzero value, rounding down (if `floors`) or toward zero."""
        if floors and b[0] == b[1] > 0:
            return floor_bound(a[0], b[0]), floor_bound(a[1], b[0])
        return (floor_quotient if floors else trunc_quotient)(a, b) or EVERYTHING

    def remainder(self, a: Interval, b: Interval, floors: bool) -> Interval:
        """Return the remainder of division that rounds down or toward zero."""
        return (floor_remainder if floors else trunc_remainder)(a, b) or EVERYTHING

    def extremum(self, values: list[Interval], largest: bool) -> Interval:
        """Return the smallest or the largest of several values."""
        pick = max if largest else min
        return pick(v[0] for v in values), pick(v[1] for v in values)

    def product(self, factors: tuple[Term, ...]) -> Interval:
        """Multiply terms; a square is not negative."""
        parts: list[Interval] = []
        for factor in dict.fromkeys(factors):
            low, high = self.piece_bound(factor)
            squares, single = divmod(factors.count(factor), 2)
            if squares:
                least = 0 if low <= 0 <= high else min(abs(low), abs(high))
                most = max(abs(low), abs(high))
                parts += [product((least, most), (least, most))] * squares
            parts += [(low, high)] * single
        return reduce(product, parts)

    def wrapped(self, term: Wrapped) -> Interval:
        """Return the range of the dtype."""
        return integer_limits(term.dtype)

    def opaque(self, term: Opaque) -> Interval:
        """Return an interval that holds every value of a nonlinear term."""
        if self.reader is None or type(term.expr) is BufferLoad or term.is_being_bounded:
            return term.interval
        # Simplifying the operands may need a fact about the term itself.
        term.is_being_bounded = True
        try:
            found = value_interval(term.expr, self._operand_bound)
        finally:
            term.is_being_bounded = False
        low, high = term.interval
        return term.interval if found is None else (max(low, found[0]), min(high, found[1]))

    def _operand_bound(self, expr: PrimExpr) -> Interval | None:
        limits = type_interval(expr)
        if limits is None or expr.dtype.is_bool or expr.dtype.lanes != 1:
            return limits
        low, high = self.bound(self.read(expr))
        return max(low, limits[0]), min(high, limits[1])

    def read(self, expr: PrimExpr) -> Linear:
        """Return an operand of a nonlinear term, read in this context."""
        reader = self.reader
        assert reader is not None
        outer = reader.context
        reader.context = self
        try:
            linear = reader(expr)
            reader.bound(linear)
        finally:
            reader.context = outer
        return linear


def _default_range(var: Var) -> Interval:
    """Return the range of a variable without a binding: that of its dtype, nonnegative for a
    `SizeVar`.
    """
    if type(var) is SizeVar:
        return 0, INFINITE
    dtype = var.dtype
    return integer_limits(dtype) if dtype.is_integral and not holds_indices(dtype) else EVERYTHING
