"""Sets of integers between two expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tensorir.arith.linear import Linear, Quotient, Term
from tensorir.arith.span import Ends, Span
from tensorir.arith.terms import variables_of
from tensorir.arith.writing import NotRepresentableError
from tensorir.nodes import expr as e
from tensorir.nodes.buffer import Range
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import ExprLike, PrimExpr, Var
from tensorir.nodes.ops import as_expr, const, max_, min_
from tensorir.rewriting.visit import collect_vars, uses_var

if TYPE_CHECKING:
    from tensorir.arith.analyzer import Analyzer


class IntervalSet:
    """The integers from `min_value` to `max_value`, both included; None means no limit."""

    __slots__ = ("empty", "max_value", "min_value")

    def __init__(
        self, min_value: ExprLike | None, max_value: ExprLike | None, empty: bool = False
    ) -> None:
        self.min_value: Any = None if min_value is None else as_expr(min_value)
        self.max_value: Any = None if max_value is None else as_expr(max_value)
        self.empty = empty

    @staticmethod
    def nothing() -> IntervalSet:
        """Return the set without elements."""
        return IntervalSet(None, None, empty=True)

    @staticmethod
    def everything() -> IntervalSet:
        """Return the set of all integers."""
        return IntervalSet(None, None)

    @staticmethod
    def point(value: ExprLike) -> IntervalSet:
        """Return the set of one value."""
        value = as_expr(value)
        return IntervalSet(value, value)

    @staticmethod
    def from_range(values: Range) -> IntervalSet:
        """Return the values of a range."""
        if isinstance(values.extent, e.IntImm) and values.extent.value == 1:
            return IntervalSet(values.min, values.min)
        return IntervalSet(values.min, values.min + (values.extent - 1))

    @property
    def is_nothing(self) -> bool:
        """True if the set is empty."""
        return self.empty

    @property
    def is_everything(self) -> bool:
        """True if the set has no limit on either side."""
        return not self.empty and self.min_value is None and self.max_value is None

    @property
    def is_bounded(self) -> bool:
        """True if there are limits on both sides."""
        return self.min_value is not None and self.max_value is not None

    def is_single_point(self, analyzer: Analyzer | None = None) -> bool:
        """Return True if there is provably one element."""
        if self.min_value is None or self.max_value is None:
            return False
        if self.min_value is self.max_value:
            return True
        return analyzer is not None and analyzer.can_prove_equal(self.min_value, self.max_value)

    def union(self, other: IntervalSet, analyzer: Analyzer) -> IntervalSet:
        """Return the smallest interval that holds both sets."""
        if self.empty or other.empty:
            return other if self.empty else self
        return IntervalSet(
            _pick(min_, self.min_value, other.min_value, analyzer),
            _pick(max_, self.max_value, other.max_value, analyzer),
        )

    def intersect(self, other: IntervalSet, analyzer: Analyzer) -> IntervalSet:
        """Return the elements of both sets."""
        if self.empty or other.empty:
            return IntervalSet.nothing()
        low = _either(max_, self.min_value, other.min_value, analyzer)
        high = _either(min_, self.max_value, other.max_value, analyzer)
        if low is not None and high is not None and analyzer.can_prove(high < low):
            return IntervalSet.nothing()
        return IntervalSet(low, high)

    def cover_range(self, default: Range, analyzer: Analyzer) -> Range:
        """Return the interval as a range, or `default` if a limit is missing."""
        if self.min_value is None or self.max_value is None:
            return default
        low = analyzer.simplify(self.min_value)
        if self.min_value is self.max_value:
            return Range.point(low)
        last = self.max_value
        gap = analyzer.linear(last).plus(analyzer.linear(self.min_value), -1)
        if not gap.terms:
            return Range.from_min_extent(low, const(gap.const + 1, last.dtype))
        return Range.from_min_extent(
            low, analyzer.simplify(last + const(1, last.dtype) - self.min_value)
        )

    def __repr__(self) -> str:
        if self.empty:
            return "IntervalSet(nothing)"
        low = "-inf" if self.min_value is None else str(self.min_value)
        high = "inf" if self.max_value is None else str(self.max_value)
        return f"IntervalSet[{low}, {high}]"


IntSet = IntervalSet

Fold = Callable[[Any, Any], PrimExpr]


def _pick(fold: Fold, a: Any, b: Any, analyzer: Analyzer) -> PrimExpr | None:
    if a is None or b is None:
        return None
    return a if a is b else analyzer.simplify(fold(a, b))


def _either(fold: Fold, a: Any, b: Any, analyzer: Analyzer) -> PrimExpr | None:
    if a is None or b is None:
        return b if a is None else a  # type: ignore[no-any-return]
    return a if a is b else analyzer.simplify(fold(a, b))


def eval_set(
    value: PrimExpr | Range, sets: Mapping[Var, IntervalSet], analyzer: Analyzer
) -> IntervalSet:
    """Return an interval that contains `value` for all values of the variables in their sets.

    Variables without a set stay symbolic. Variables in the bounds of another variable's set are
    replaced as well, as the bounds of a loop may depend on the loops around it.
    """
    if not uses_var(value, sets.__contains__):
        return IntervalSet.from_range(value if isinstance(value, Range) else Range.point(value))
    first = last = value.min if isinstance(value, Range) else value
    upper_offset = 0
    if isinstance(value, Range):
        if type(value.extent) is e.IntImm:
            upper_offset = value.extent.value - 1
        else:
            last = value.min + value.extent - 1
    if (
        first is last
        and not upper_offset
        and type(first) is Var
        and not _depends_on_sets(sets[first], sets)
    ):
        return sets[first]
    if not first.dtype.is_integral:
        return IntervalSet.everything()
    if any(_is_mixed(term, sets) for term in analyzer.linear(first).terms):
        # The decomposition of such a term depends on how far its variables move.
        with analyzer.scope():
            _bind(value, sets, analyzer)
            return _interval_between(first, last, upper_offset, sets, analyzer)
    return _interval_between(first, last, upper_offset, sets, analyzer)


def _is_mixed(term: Term, sets: Mapping[Var, IntervalSet]) -> bool:
    """Return True if a term contains variables with sets and is not a quotient of one variable."""
    if isinstance(term, Var):
        return False
    if type(term) is Quotient and len(term.index.terms) == 1:
        (divided,) = term.index.terms
        return _is_mixed(divided, sets)
    return any(var in sets for var in variables_of(term))


def _bind(value: PrimExpr | Range, sets: Mapping[Var, IntervalSet], analyzer: Analyzer) -> None:
    """Bind the variables in `value` to their sets, until the analyzer's scope ends."""
    used = collect_vars(value)
    ends = [(v, values) for v, values in sets.items() if v in used and values.is_bounded]
    for var, values in sorted(ends, key=lambda found: _depends_on_sets(found[1], sets)):
        extent = analyzer.simplify(values.max_value - values.min_value + 1)
        analyzer.bind(var, Range.from_min_extent(values.min_value, extent), allow_override=True)


def _interval_between(
    first: PrimExpr,
    last: PrimExpr,
    upper_offset: int,
    sets: Mapping[Var, IntervalSet],
    analyzer: Analyzer,
) -> IntervalSet:
    """Return the interval from the minimum of `first` to the maximum of `last` + `upper_offset`."""
    span = Span(analyzer.linearizer, lambda var: _bounds(sets.get(var), analyzer))
    low, high = span(analyzer.linear(first))
    if last is not first:
        high = span(analyzer.linear(last))[1]
    if high is not None:
        high = high.plus_const(upper_offset)
    dtype = first.dtype.element
    return IntervalSet(_write_bound(low, dtype, analyzer), _write_bound(high, dtype, analyzer))


def _depends_on_sets(values: IntervalSet, sets: Mapping[Var, IntervalSet]) -> bool:
    """Return True if a bound of `values` contains a variable that has a set."""
    ends = (values.min_value, values.max_value)
    return any(
        end is not None and type(end) is not e.IntImm and uses_var(end, lambda v: v in sets)
        for end in ends
    )


def _bounds(values: IntervalSet | None, analyzer: Analyzer) -> Ends | None:
    if values is None:
        return None
    low, high = values.min_value, values.max_value
    return (
        None if low is None else analyzer.linear(low),
        None if high is None else analyzer.linear(high),
    )


def _write_bound(end: Linear | None, dtype: DataType, analyzer: Analyzer) -> PrimExpr | None:
    reader = analyzer.linearizer
    if end is None or (reader.may_wrap(end) and not reader.fits(end, dtype)):
        return None  # Arithmetic in the type itself might wrap around.
    try:
        return reader.write(end, dtype)
    except NotRepresentableError:
        return None
