"""Sets of integers between two expressions, and arithmetic on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from tensorir import expr as e
from tensorir.buffer import Range
from tensorir.expr import PrimExpr, Var
from tensorir.ops import cast, const, floordiv, floormod, max_, min_
from tensorir.visit import uses_var

if TYPE_CHECKING:
    from tensorir.arith.analyzer import Analyzer


class IntervalSet:
    """The integers from `min_value` to `max_value`, both included; None stands for no limit."""

    __slots__ = ("empty", "max_value", "min_value")

    def __init__(
        self, min_value: PrimExpr | None, max_value: PrimExpr | None, empty: bool = False
    ) -> None:
        self.min_value: Any = min_value
        self.max_value: Any = max_value
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
    def point(value: PrimExpr) -> IntervalSet:
        """Return the set of one value."""
        return IntervalSet(value, value)

    @staticmethod
    def from_range(values: Range) -> IntervalSet:
        """Return the values of a range."""
        if isinstance(values.extent, e.IntImm) and values.extent.value == 1:
            return IntervalSet(values.min, values.min)
        return IntervalSet(values.min, values.min + (values.extent - 1))

    @property
    def has_lower_bound(self) -> bool:
        """Whether the elements have a least one."""
        return self.min_value is not None

    @property
    def has_upper_bound(self) -> bool:
        """Whether the elements have a largest one."""
        return self.max_value is not None

    @property
    def is_nothing(self) -> bool:
        """Whether there is no element."""
        return self.empty

    @property
    def is_everything(self) -> bool:
        """Whether there is no limit on either side."""
        return not self.empty and self.min_value is None and self.max_value is None

    @property
    def is_bounded(self) -> bool:
        """Whether there are limits on both sides."""
        return self.min_value is not None and self.max_value is not None

    def is_single_point(self, analyzer: Analyzer | None = None) -> bool:
        """Say whether there is provably one element."""
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
        """Return the interval as a range; `default` where it has no limits."""
        if self.min_value is None or self.max_value is None:
            return default
        low = analyzer.simplify(self.min_value)
        if self.min_value is self.max_value:
            return Range.point(low)
        last = self.max_value
        if type(last) is e.Add and last.a is self.min_value and type(last.b) is e.IntImm:
            # What a range of constant extent covers; no analysis is needed.
            return Range.from_min_extent(low, last.b + 1)
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
    """Return an interval that holds `value` while variables run over their sets.

    Variables without a set stay symbolic. A range gives all the values from its least to its
    largest.
    """
    evaluator = _Evaluator(sets, analyzer)
    if isinstance(value, Range):
        if isinstance(value.extent, e.IntImm) and value.extent.value == 1:
            return evaluator(value.min)
        low = evaluator(value.min)
        high = evaluator(analyzer.simplify(value.min + value.extent - 1))
        return IntervalSet(low.min_value, high.max_value)
    return evaluator(value)


class _Evaluator:
    def __init__(self, sets: Mapping[Var, IntervalSet], analyzer: Analyzer) -> None:
        self.sets = sets
        self.analyzer = analyzer

    def __call__(self, node: PrimExpr) -> IntervalSet:
        rule = _RULES.get(type(node))
        if rule is not None:
            return rule(self, node)
        relaxed = uses_var(node, lambda v: v in self.sets)
        return IntervalSet.everything() if relaxed else IntervalSet.point(node)

    def var(self, node: Var) -> IntervalSet:
        known = self.sets.get(node)
        return IntervalSet.point(node) if known is None else known

    def add(self, node: Any) -> IntervalSet:
        a, b = self(node.a), self(node.b)
        if self._points(a, b):
            return self._point(node, type(node)(a.min_value, b.min_value), a, b)
        if type(node) is e.Sub:
            b = IntervalSet(
                None if b.max_value is None else const(0, node.dtype) - b.max_value,
                None if b.min_value is None else const(0, node.dtype) - b.min_value,
            )
        return IntervalSet(_sum(a.min_value, b.min_value), _sum(a.max_value, b.max_value))

    def mul(self, node: e.Mul) -> IntervalSet:
        a, b = self(node.a), self(node.b)
        if self._points(a, b):
            return self._point(node, e.Mul(a.min_value, b.min_value), a, b)
        if a.is_single_point():
            a, b = b, a
        if not b.is_single_point():
            return IntervalSet.everything()
        factor = b.min_value
        if self.analyzer.can_prove_greater_equal(factor, 0):
            return IntervalSet(_scaled(a.min_value, factor), _scaled(a.max_value, factor))
        if self.analyzer.can_prove_less(factor, 1):
            return IntervalSet(_scaled(a.max_value, factor), _scaled(a.min_value, factor))
        return IntervalSet.everything()

    def floordiv(self, node: e.FloorDiv) -> IntervalSet:
        a, b = self(node.a), self(node.b)
        if self._points(a, b):
            return self._point(node, e.FloorDiv(a.min_value, b.min_value), a, b)
        if not b.is_single_point() or not self.analyzer.can_prove_greater_equal(b.min_value, 1):
            return IntervalSet.everything()
        divisor = b.min_value
        return IntervalSet(
            None if a.min_value is None else floordiv(a.min_value, divisor),
            None if a.max_value is None else floordiv(a.max_value, divisor),
        )

    def floormod(self, node: e.FloorMod) -> IntervalSet:
        a, b = self(node.a), self(node.b)
        if self._points(a, b):
            return self._point(node, e.FloorMod(a.min_value, b.min_value), a, b)
        if not b.is_single_point() or not self.analyzer.can_prove_greater_equal(b.min_value, 1):
            return IntervalSet.everything()
        divisor = b.min_value
        if a.is_bounded:
            first, last = floordiv(a.min_value, divisor), floordiv(a.max_value, divisor)
            if self.analyzer.can_prove_equal(first, last):
                return IntervalSet(floormod(a.min_value, divisor), floormod(a.max_value, divisor))
        return IntervalSet(const(0, node.dtype), divisor - 1)

    def extremum(self, node: e.Min | e.Max) -> IntervalSet:
        a, b = self(node.a), self(node.b)
        fold = min_ if type(node) is e.Min else max_
        missing_low = _either if type(node) is e.Max else _pick
        missing_high = _pick if type(node) is e.Max else _either
        return IntervalSet(
            missing_low(fold, a.min_value, b.min_value, self.analyzer),
            missing_high(fold, a.max_value, b.max_value, self.analyzer),
        )

    def select(self, node: e.Select) -> IntervalSet:
        return self(node.true_value).union(self(node.false_value), self.analyzer)

    def call(self, node: e.Call) -> IntervalSet:
        if getattr(node.op, "short_name", "") == "if_then_else":
            return self(node.args[1]).union(self(node.args[2]), self.analyzer)
        relaxed = uses_var(node, lambda v: v in self.sets)
        return IntervalSet.everything() if relaxed else IntervalSet.point(node)

    def cast(self, node: e.Cast) -> IntervalSet:
        inner = self(node.value)
        if inner.min_value is node.value:
            return IntervalSet.point(node)
        source, target = node.value.dtype, node.dtype
        if source.is_int and target.is_int and target.bits >= source.bits:
            return IntervalSet(
                None if inner.min_value is None else cast(target, inner.min_value),
                None if inner.max_value is None else cast(target, inner.max_value),
            )
        if not target.is_integral:
            return IntervalSet.everything()
        least, most = e.integer_limits(target)
        if source.is_integral and self._within(inner, least, most):
            return IntervalSet(cast(target, inner.min_value), cast(target, inner.max_value))
        return IntervalSet(const(least, target), const(most, target))

    def _within(self, values: IntervalSet, least: int, most: int) -> bool:
        """Say whether all values surely lie between two constants."""
        if not values.is_bounded:
            return False
        low = self.analyzer.const_int_bound(values.min_value).min_value
        return low >= least and self.analyzer.const_int_bound(values.max_value).max_value <= most

    def _points(self, a: IntervalSet, b: IntervalSet) -> bool:
        return a.is_single_point() and b.is_single_point()

    def _point(self, node: Any, rebuilt: PrimExpr, a: IntervalSet, b: IntervalSet) -> IntervalSet:
        """Return one point, as the expression that is there if its operands did not change."""
        same = a.min_value is node.a and b.min_value is node.b
        return IntervalSet.point(node if same else rebuilt)


def _sum(a: Any, b: Any) -> Any:
    return None if a is None or b is None else a + b


def _scaled(a: Any, factor: PrimExpr) -> Any:
    return None if a is None else a * factor


_RULES: Final[dict[type, Callable[[_Evaluator, Any], IntervalSet]]] = {
    e.Var: _Evaluator.var,
    e.SizeVar: _Evaluator.var,
    e.IntImm: lambda _, node: IntervalSet.point(node),
    e.Add: _Evaluator.add,
    e.Sub: _Evaluator.add,
    e.Mul: _Evaluator.mul,
    e.FloorDiv: _Evaluator.floordiv,
    e.FloorMod: _Evaluator.floormod,
    e.Min: _Evaluator.extremum,
    e.Max: _Evaluator.extremum,
    e.Select: _Evaluator.select,
    e.Call: _Evaluator.call,
    e.Cast: _Evaluator.cast,
}
