"""Reading indices as pieces of iterators, under a predicate.

Each index is rewritten to pieces of iterators; sums are fused to a new iterator before they are
divided, if the scale of each term is the extent of all terms below it. Inequalities of the
predicate narrow the range of a variable, or limit the sum of several terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Protocol, TypeAlias

from tensorir.arith.analyzer import Analyzer
from tensorir.arith.const_interval import Interval
from tensorir.arith.iter_fuse import Fuser, merge_pieces
from tensorir.arith.iter_independence import IterMapLevel, check_pieces_fit
from tensorir.arith.iter_term import (
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    NoIterMapError,
    PieceKey,
)
from tensorir.arith.linear import ZERO, Linear
from tensorir.arith.linearize import Linearizer
from tensorir.arith.size import (
    Size,
    Sizes,
    SymbolicSize,
    at_most,
    ceil_div,
    is_positive,
    larger,
    linear_of,
    size_rank,
    smaller,
    times_size,
)
from tensorir.arith.terms import variables_of
from tensorir.nodes import expr as e
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.node import Node
from tensorir.nodes.ops import TRUE, conjuncts, is_const_int
from tensorir.rewriting.visit import children, uses_var

Inequality: TypeAlias = "tuple[PrimExpr, Size | None, Size | None]"
"""An expression with its minimum and maximum, both included; None means no limit."""


class Bounds(Protocol):
    """The first value of a variable and the number of values: a `Range`, or a loop."""

    @property
    def min(self) -> PrimExpr:
        """The minimum."""

    @property
    def extent(self) -> PrimExpr:
        """The number of values."""


class IterReader:
    """Reads indices over a domain as sums of pieces of its iterators."""

    def __init__(
        self,
        domain: Mapping[Var, Bounds],
        level: IterMapLevel,
        simplify_trivial: bool,
        analyzer: Analyzer | None,
    ) -> None:
        self._level = level
        self._simplify_trivial = simplify_trivial
        self._analyzer = analyzer
        self._domain = domain
        self._vars: dict[Var, IterSumExpr] = {}
        self._fuser = Fuser(level in (IterMapLevel.BIJECTIVE, IterMapLevel.INJECTIVE))
        self._tightened: dict[Var, tuple[Size, Size]] = {}
        self._paddings: dict[PieceKey, dict[int, int]] = {}
        """The paddings of pieces before a division, by divisor."""

    @cached_property
    def _linear(self) -> Linearizer:
        """The reader of expressions without iterators.

        It is created only for non-constant expressions.
        """
        return (self._analyzer or Analyzer()).linearizer

    @cached_property
    def _sizes(self) -> Sizes:
        return Sizes(self._linear, (values.extent for values in self._domain.values()))

    def _constant(self, expr: PrimExpr) -> Linear:
        """Return an expression without iterators as a linear combination."""
        return Linear({}, expr.value) if type(expr) is IntImm else self._linear(expr)

    def _size(self, value: Linear) -> Size:
        return self._sizes.of(value) if value.terms else value.const

    # ---------------------------------------------------------------------------------- iterators

    def _variable(self, var: Var) -> IterSumExpr:
        """Return a variable as an iterator, if it is one, plus its minimum."""
        known = self._vars.get(var)
        if known is not None:
            return known
        low = ZERO
        extent: Size = 1
        values = self._domain.get(var)
        if values is None:
            low = self._constant(var)
        elif var in self._tightened:
            least, most = self._tightened[var]
            low, extent = linear_of(least), most - least + 1
        else:
            first, count = values.min, values.extent
            if type(first) is not IntImm or first.value:
                low = self._constant(self._invariant_bound(first, var))
            if type(count) is IntImm:
                extent = count.value
            else:
                extent = self._size(self._constant(self._invariant_bound(count, var)))
        if values is None or (extent == 1 and self._simplify_trivial):
            found = IterSumExpr((), low)
        else:
            mark = IterMark(var, extent, low if low.terms or low.const else None)
            found = IterSumExpr((mark.whole,), low)
        self._vars[var] = found
        return found

    def _invariant_bound(self, bound: PrimExpr, var: Var) -> PrimExpr:
        """Return a bound of a variable. Raises NoIterMapError if it depends on another iterator."""
        if self._mentions_iterator(bound):
            raise NoIterMapError(f"the range of {var.name} depends on another iterator")
        return bound

    def _mentions_iterator(self, expr: PrimExpr) -> bool:
        return type(expr) is not IntImm and uses_var(expr, self._domain.__contains__)

    # ----------------------------------------------------------------------------------- rewriting

    def index(self, expr: PrimExpr) -> IterSumExpr:
        """Return an index as at most one piece and a base."""
        if type(expr) is Var and not self._fuser.groups:
            # Most indices are a single variable.
            return self._variable(expr)
        return self._fuser.single(self._rewrite(expr))

    def independent(self, exprs: Sequence[PrimExpr]) -> tuple[IterSumExpr, ...]:
        """Return indices as at most one piece and a base each.

        Raises NoIterMapError unless the pieces fit.
        """
        found = tuple([self.index(expr) for expr in exprs])
        try:
            self.check_independent(found)
        except NoIterMapError:
            if not self._paddings:
                raise
            # Later divisions may require other padding, so pad earlier divisions again.
            found = tuple([self.index(expr) for expr in exprs])
            self.check_independent(found)
        return found

    def _rewrite(self, expr: PrimExpr) -> IterSumExpr:
        kind = type(expr)
        if kind is Var or kind is e.SizeVar:
            return self._variable(expr)  # type: ignore[arg-type]
        if kind is IntImm:
            return IterSumExpr((), self._constant(expr))
        if _is_scalar_int(expr.dtype):
            if kind in _SUMS:
                parts: list[IterSplitExpr] = []
                base = self._collect(expr, 1, parts)
                return IterSumExpr(tuple(_merge_equal_pieces(parts)), base)
            rule = _RULES.get(kind)
            if rule is not None:
                return rule(self, expr)
        if self._mentions_iterator(expr):
            raise NoIterMapError(f"`{expr}` is not affine")
        return IterSumExpr((), self._linear(expr))

    def normalized(self, expr: PrimExpr) -> IterSumExpr:
        """Return an index as a sum of pieces and a base.

        The base holds the parts that are not pieces.
        """
        found = self._terms(expr)
        pieces = merge_pieces(_merge_equal_pieces(list(found.args)))
        pieces.sort(key=lambda s: size_rank(s.scale), reverse=True)
        return IterSumExpr(tuple(pieces), found.base)

    def _terms(self, expr: PrimExpr) -> IterSumExpr:
        if isinstance(expr, (e.Add, e.Sub)):
            a, b = self._terms(expr.a), self._terms(expr.b)
            sign = 1 if isinstance(expr, e.Add) else -1
            scaled = (s.scaled(s.scale * sign) for s in b.args)
            return IterSumExpr((*a.args, *scaled), a.base.plus(b.base, sign))
        if isinstance(expr, e.Mul):
            a, b = self._terms(expr.a), self._terms(expr.b)
            a, b = (b, a) if b.args else (a, b)
            if not b.args and not self._holds_iterators(b.base):
                factor = self._size(b.base)
                scaled = (s.scaled(s.scale * factor) for s in a.args if factor != 0)
                return IterSumExpr(tuple(scaled), self._linear.product(a.base, b.base))
        try:
            return self._rewrite(expr)
        except NoIterMapError:
            return IterSumExpr((), self._linear(expr))

    def _holds_iterators(self, value: Linear) -> bool:
        return any(var in self._domain for term in value.terms for var in variables_of(term))

    def _collect(self, expr: PrimExpr, factor: int, parts: list[IterSplitExpr]) -> Linear:
        """Add the pieces in `factor` times an integer to a list, and return the base.

        A sum is read in one loop, at any nesting depth.
        """
        base = ZERO
        kind = type(expr)
        while kind in _SUMS:
            if kind is e.Mul:
                if type(expr.b) is not IntImm or not expr.b.value:  # type: ignore[attr-defined]
                    break
                factor *= expr.b.value  # type: ignore[attr-defined]
                expr = expr.a  # type: ignore[attr-defined]
            else:
                base = _add_base(base, self._collect(expr.a, factor, parts), 1)  # type: ignore[attr-defined]
                factor = factor if kind is e.Add else -factor
                expr = expr.b  # type: ignore[attr-defined]
            kind = type(expr)
        if kind is Var:
            found = self._vars.get(expr) or self._variable(expr)  # type: ignore[arg-type, call-overload]
        else:
            found = self._multiply(expr) if kind is e.Mul else self._rewrite(expr)
        for split in found.args:
            parts.append(split if factor == 1 else split.scaled(factor * split.scale))
        return _add_base(base, found.base, factor)

    def _multiply(self, node: Any) -> IterSumExpr:
        a, b = self._rewrite(node.a), self._rewrite(node.b)
        if a.args and b.args:
            raise NoIterMapError(f"`{node}` multiplies iterators")
        if not a.args and not b.args:
            return IterSumExpr((), self._linear.product(a.base, b.base))
        if not a.args:
            a, b = b, a
        factor = self._size(b.base)
        if factor == 0:
            return IterSumExpr((), ZERO)
        if type(factor) is not int and not is_positive(factor):
            raise NoIterMapError(
                f"`{node}` scales an iterator by a factor that may not be positive"
            )
        scaled = tuple(s.scaled(s.scale * factor) for s in a.args)
        return IterSumExpr(scaled, times_size(a.base, factor))

    def _cast(self, node: e.Cast) -> IterSumExpr:
        source, target = node.value.dtype, node.dtype
        if not source.is_int:
            if self._mentions_iterator(node):
                raise NoIterMapError(f"`{node}` is not affine")
            return IterSumExpr((), self._linear(node))
        inner = self._rewrite(node.value)
        if target.bits >= source.bits:
            return inner
        if not inner.args:
            return IterSumExpr((), self._linear(node))
        if not self._fits(inner, target):
            # Pieces that the predicate constrains together may have a smaller sum.
            inner = self._fuser.single(inner)
            if not self._fits(inner, target):
                raise NoIterMapError(f"`{node}` may lose bits of the value that it narrows")
        return inner

    def _fits(self, value: IterSumExpr, dtype: DataType) -> bool:
        low, high = self._linear.bound(value.base)
        for split in value.args:
            first, last = self._ends(split, dtype)
            low, high = low + first, high + last
        least, most = e.integer_limits(dtype)
        return least <= low and high <= most

    def _ends(self, split: IterSplitExpr, dtype: DataType) -> Interval:
        """Return the minimum and maximum of a piece.

        A symbolic extent is at most the maximum of its own dtype.
        """
        last = (split.extent - 1) * split.scale
        low, high = self._linear.bound(linear_of(last))
        if not is_positive(split.scale):
            return low, 0
        if isinstance(split.extent, SymbolicSize) and split.scale == 1:
            extent = split.extent.linear
            for term, coefficient in extent.terms.items():
                narrow = isinstance(term, Var) and term.dtype.bits <= dtype.bits
                if narrow and coefficient == 1 and len(extent.terms) == 1:
                    high = min(high, e.integer_limits(dtype)[1] + extent.const - 1)
        return 0, high

    def _divide(self, node: e.FloorDiv | e.FloorMod) -> IterSumExpr:
        quotient = type(node) is e.FloorDiv
        a, b = self._rewrite(node.a), self._rewrite(node.b)
        divisor = self._size(b.base)
        if b.args or not is_positive(divisor):
            raise NoIterMapError(f"`{node}` has a divisor that is not known to be positive")
        if not a.args:
            return self._divide_base(a.base, divisor, quotient)
        single = self._fuser.single(a)
        if not single.args:
            return self._divide_base(single.base, divisor, quotient)
        return self._divide_piece(single.args[0], single.base, divisor, quotient)

    def _divide_base(self, base: Linear, divisor: Size, quotient: bool) -> IterSumExpr:
        whole = self._linear.floor_divide(base, linear_of(divisor))
        return IterSumExpr((), whole if quotient else base.plus(times_size(whole, divisor), -1))

    def _divide_piece(
        self, split: IterSplitExpr, base: Linear, divisor: Size, quotient: bool
    ) -> IterSumExpr:
        scale = split.scale
        outer: Size = 1
        if scale != 1:
            if scale % divisor == 0 and self._divides(divisor, base):
                if not quotient:
                    return IterSumExpr((), ZERO)
                whole = split.scaled(scale // divisor)
                return IterSumExpr((whole,), self._exact_quotient(base, divisor))
            if not is_positive(scale) or divisor % scale != 0 or not self._divides(scale, base):
                raise NoIterMapError(
                    "a scaled iterator is divided by a number that is not a multiple of its scale"
                )
            divisor, base = divisor // scale, self._exact_quotient(base, scale)
            outer = 1 if quotient else scale
            split = split.scaled(1)
        if divisor == 1:
            return IterSumExpr((split,), base) if quotient else IterSumExpr((), ZERO)
        left: Size = 0
        if not self._divides(divisor, base):
            start = self._divide_base(base, divisor, False).base
            if self._linear.bound(start.plus(linear_of(split.extent - divisor), 1))[1] <= 0:
                # No value reaches the next multiple of the divisor.
                if quotient:
                    return self._divide_base(base, divisor, True)
                return IterSumExpr((split.scaled(outer),), times_size(start, outer))
            if type(divisor) is not int:
                raise NoIterMapError("the offset of a divided iterator is not known")
            left = self._size(base.plus(self._linear.quotient(base, divisor), -divisor))
        if type(divisor) is int and type(left) is int and (left or self._paddings):
            left = self._common_padding(split, left, divisor)
        if left != 0:
            split = self._padded_left(split, left)
        carried = self._exact_quotient(base.plus(linear_of(left), -1), divisor)
        if quotient:
            piece = self._quotient_piece(split, divisor)
            return IterSumExpr((piece,), carried)
        return IterSumExpr((self._remainder_piece(split, divisor, outer),), ZERO)

    def _divides(self, divisor: Size, value: Linear) -> bool:
        if type(divisor) is int:
            return value.const % divisor == 0 and all(
                c % divisor == 0 for c in value.terms.values()
            )
        return self._size(value) % divisor == 0

    def _exact_quotient(self, value: Linear, divisor: Size) -> Linear:
        """Return `value / divisor` for a multiple of the divisor."""
        if type(divisor) is int:
            terms = {t: c // divisor for t, c in value.terms.items()}
            return Linear(terms, value.const // divisor)
        return linear_of(self._size(value) // divisor)

    def _common_padding(self, split: IterSplitExpr, left: int, divisor: int) -> int:
        """Return the padding of a piece such that several divisions of it agree.

        A divisor that divides the divisors of other pieces uses their offset: `(x + 7) % 3` is
        read as a piece of `x + 7`, not of `x + 1`, if there is `(x + 7) // 12`.
        """
        known = self._paddings.setdefault(split.key, {}) if left else self._paddings.get(split.key)
        if known is None:
            return left
        if left:
            known.setdefault(divisor, left)
        fitting = [d for d, n in known.items() if d % divisor == 0 and n % divisor == left]
        return known[max(fitting)] if fitting else left

    def _padded_left(self, split: IterSplitExpr, left: Size) -> IterSplitExpr:
        if self._level is IterMapLevel.BIJECTIVE:
            raise NoIterMapError("an iterator would have to be padded on the left")
        mark = self._fuser.mark([split], split.extent + left, left)
        mark.missing = left
        return mark.whole

    def _pad(self, mark: IterMark) -> None:
        if self._level is IterMapLevel.BIJECTIVE:
            raise NoIterMapError("an iterator would have to be padded")
        mark.padded = True

    def _quotient_piece(self, split: IterSplitExpr, divisor: Size) -> IterSplitExpr:
        lower, extent = split.lower_factor, split.extent
        if extent % divisor == 0:
            return IterSplitExpr(split.source, lower * divisor, extent // divisor, 1)
        if split.reaches_top:
            self._pad(split.source)
            return IterSplitExpr(split.source, lower * divisor, ceil_div(extent, divisor), 1)
        mark = self._fuser.mark([split], extent, 0)
        self._pad(mark)
        return IterSplitExpr(mark, divisor, ceil_div(extent, divisor), 1)

    def _remainder_piece(self, split: IterSplitExpr, divisor: Size, scale: Size) -> IterSplitExpr:
        if split.extent % divisor != 0:
            if not split.reaches_top:
                split = self._fuser.mark([split], split.extent, 0).whole
            self._pad(split.source)
        return IterSplitExpr(split.source, split.lower_factor, divisor, scale)

    # -------------------------------------------------------------------------------- predicates

    def constrain(self, predicate: PrimExpr) -> None:
        """Apply the inequalities of a predicate to the ranges of variables and sums.

        A division fuses its operand with the facts known by then, so inequalities on sums are
        applied before inequalities on quotients and remainders of sums.
        """
        if predicate is TRUE:
            return
        pending = [side for side in self._inequalities(predicate) if not self._tighten_var(*side)]
        by_depth: dict[int, list[Inequality]] = {}
        for side in pending:
            by_depth.setdefault(_division_depth(side[0]), []).append(side)
        for depth in sorted(by_depth):
            self._constrain_sums(by_depth[depth])

    def _inequalities(self, predicate: PrimExpr) -> Iterator[Inequality]:
        """Yield the conjuncts of a predicate as limits of expressions.

        Conjuncts without an iterator are skipped. Raises NoIterMapError for conditions other than
        inequalities.
        """
        for condition in conjuncts(predicate):
            if not self._mentions_iterator(condition):
                continue
            if not isinstance(condition, (e.LT, e.LE, e.GT, e.GE)) or not condition.a.dtype.is_int:
                raise NoIterMapError(f"`{condition}` is not an inequality")
            a, b = condition.a, condition.b
            if isinstance(condition, (e.GT, e.GE)):
                a, b = b, a
            strict = 1 if isinstance(condition, (e.LT, e.GT)) else 0
            if not self._mentions_iterator(b):
                yield a, None, self._size(self._constant(b)) - strict
            elif not self._mentions_iterator(a):
                yield b, self._size(self._constant(a)) + strict, None
            else:
                yield e.Sub(a, b), None, -strict

    def _constrain_sums(self, found: list[Inequality]) -> None:
        bounds: dict[frozenset[Any], tuple[IterSumExpr, Size | None, Size | None]] = {}
        for expr, low, high in found:
            value = self._rewrite(expr)
            base = self._size(value.base)
            key = frozenset((*s.key, s.scale) for s in value.args)
            _, first, last = bounds.get(key, (value, None, None))
            if low is not None:
                first = low - base if first is None else larger(low - base, first)
            if high is not None:
                last = high - base if last is None else smaller(high - base, last)
            bounds[key] = value, first, last
        for value, first, last in sorted(bounds.values(), key=lambda b: len(b[0].args)):
            self._fuser.constrain(value, first, last)

    def _tighten_var(self, expr: PrimExpr, low: Size | None, high: Size | None) -> bool:
        """Apply a constraint on one variable to its range."""
        if not isinstance(expr, Var) or expr not in self._domain:
            return False
        if expr in self._tightened:
            first, last = self._tightened[expr]
        else:
            values = self._domain[expr]
            if self._mentions_iterator(values.min) or self._mentions_iterator(values.extent):
                return False
            first = self._size(self._constant(values.min))
            last = first + self._size(self._constant(values.extent)) - 1
        first = first if low is None else larger(first, low)
        last = last if high is None else smaller(last, high)
        if at_most(last + 1, first):
            raise NoIterMapError("the predicate never holds")
        self._tightened[expr] = (first, last)
        return True

    # ------------------------------------------------------------------------------- independence

    def check_independent(self, found: tuple[IterSumExpr, ...]) -> None:
        """Raise unless the pieces found fit together in every iterator."""
        if self._level is IterMapLevel.NO_CHECK:
            return
        used = check_pieces_fit(found, self._fuser.groups, self._level)
        if self._level is IterMapLevel.SURJECTIVE:
            return
        for var, values in self._domain.items():
            if is_const_int(values.extent, 1):
                continue
            known = self._vars.get(var)
            if known is None or any(split.source not in used for split in known.args):
                raise NoIterMapError(f"iterator {var.name} is not used")


def _division_depth(expr: Node) -> int:
    """Return the depth to which quotients and remainders are nested in an expression."""
    inside = max((_division_depth(part) for part in children(expr)), default=0)
    return inside + (type(expr) in (e.FloorDiv, e.FloorMod))


def _is_scalar_int(dtype: DataType) -> bool:
    return dtype.is_int and dtype.lanes == 1


def _add_base(base: Linear, other: Linear, factor: int) -> Linear:
    if not other.terms and not other.const:
        return base
    return base.plus(other, factor)


def _merge_equal_pieces(parts: list[IterSplitExpr]) -> list[IterSplitExpr]:
    """Return the terms of a sum, with equal pieces added up."""
    if len(parts) < 2 or len({s.source for s in parts}) == len(parts):
        return parts
    by_key: dict[PieceKey, IterSplitExpr] = {}
    for split in parts:
        known = by_key.get(split.key)
        scale = split.scale if known is None else known.scale + split.scale
        by_key[split.key] = split.scaled(scale)
    return [s for s in by_key.values() if s.scale != 0]


_SUMS: Final = frozenset({e.Add, e.Sub, e.Mul})
_RULES: Final[dict[type, Callable[[IterReader, Any], IterSumExpr]]] = {
    e.FloorDiv: IterReader._divide,
    e.FloorMod: IterReader._divide,
    e.Cast: IterReader._cast,
}
