"""Detecting that index expressions are independent pieces of a box of iterators.

The question behind every transformation of loops: given indices over iterators, is each a piece of
the iteration space that the others do not touch, and how many values does it take? The method
rewrites each index to pieces of iterators, fuses sums in which the scale of each term is the extent
of all terms below it, and at last checks that the pieces of every iterator fit together. Extents,
divisors and factors may be symbolic: expressions without iterators, which are positive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from tensorir.arith.analyzer import Analyzer
from tensorir.arith.const_interval import Interval
from tensorir.arith.iter_fuse import Fuser
from tensorir.arith.iter_independence import IterMapLevel, check_pieces_fit
from tensorir.arith.iter_predicate import Inequality, inequalities, tighter_high, tighter_low
from tensorir.arith.iter_term import (
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    IterWriter,
    NoIterMapError,
    PieceKey,
    widest,
)
from tensorir.arith.linear import ZERO, Linear
from tensorir.arith.size import (
    Size,
    Sizes,
    SymbolicSize,
    at_most,
    ceil_div,
    is_positive,
    larger,
    linear_of,
    smaller,
    times_size,
)
from tensorir.nodes import expr as e
from tensorir.nodes.dtype import INT32, DataType
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.index_arithmetic import holds_indices
from tensorir.nodes.node import Node
from tensorir.nodes.ops import TRUE, is_const_int
from tensorir.rewriting.visit import children, uses_var


class Bounds(Protocol):
    """The first value of a variable and the number of values: a `Range`, or a loop."""

    @property
    def min(self) -> PrimExpr:
        """The least value."""

    @property
    def extent(self) -> PrimExpr:
        """The number of values."""


@dataclass(slots=True)
class IterMapResult:
    """The result of detection; `indices` is empty if it failed, and `errors` says why."""

    indices: tuple[IterSumExpr, ...] = ()
    errors: list[str] = field(default_factory=list)


def detect_iter_map(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[Var, Bounds],
    predicate: PrimExpr = TRUE,
    check_level: IterMapLevel = IterMapLevel.SURJECTIVE,
    simplify_trivial_iterators: bool = True,
    analyzer: Analyzer | None = None,
) -> IterMapResult:
    """Rewrite indices as pieces of the iterators in `input_iters`.

    Each index of the result is a sum of at most one piece and a base. Only points at which
    `predicate` holds count. Iterators of one value are left out if `simplify_trivial_iterators`.
    """
    options = check_level, simplify_trivial_iterators
    if analyzer is not None:
        return _detected(indices, input_iters, predicate, *options, analyzer)
    key = _key(indices, input_iters, predicate, *options)
    known = _KNOWN.get(key)
    if known is None:
        known = _detected(indices, input_iters, predicate, *options, Analyzer())
        _remember(key, known)
    return IterMapResult(known.indices, list(known.errors))


def _detected(
    indices: Sequence[PrimExpr],
    domain: Mapping[Var, Bounds],
    predicate: PrimExpr,
    level: IterMapLevel,
    simplify_trivial: bool,
    analyzer: Analyzer,
) -> IterMapResult:
    detector = _Detector(domain, level, simplify_trivial, analyzer)
    try:
        detector.constrain(predicate)
        found = tuple([detector.index(i) for i in indices])
        detector.check_independent(found)
    except NoIterMapError as error:
        return IterMapResult(errors=[str(error)])
    return IterMapResult(found)


_KNOWN: Final[dict[tuple[object, ...], IterMapResult]] = {}
"""What was detected where nothing was known but the indices: it is the same whenever it is asked.

Checks that do not know of one another ask it, in primitive after primitive, most of which change
neither bindings nor what loops run over.
"""
_LIMIT: Final = 512
"""The number of results that are remembered; they keep old programs in memory."""


def _key(
    indices: Iterable[PrimExpr], domain: Mapping[Var, Bounds], *options: object
) -> tuple[object, ...]:
    ranges = [(var, values.min, values.extent) for var, values in domain.items()]
    return (*indices, *options, *ranges)


def _remember(key: tuple[object, ...], found: IterMapResult) -> None:
    if len(_KNOWN) >= _LIMIT:
        _KNOWN.clear()
    _KNOWN[key] = found


def iter_map_simplify(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[Var, Bounds],
    predicate: PrimExpr = TRUE,
    check_level: IterMapLevel = IterMapLevel.SURJECTIVE,
    analyzer: Analyzer | None = None,
    simplify_trivial_iterators: bool = True,
) -> tuple[PrimExpr, ...]:
    """Return indices in the form that their pieces have; unchanged where detection fails.

    Without success under the predicate it is tried again without, except at the bijective level.
    """
    if all(type(i) in _TRIVIAL for i in indices) and not simplify_trivial_iterators:
        return tuple(indices)
    options = check_level, simplify_trivial_iterators
    conditions = [predicate]
    if not is_const_int(predicate, 1) and check_level is not IterMapLevel.BIJECTIVE:
        conditions.append(TRUE)
    for condition in conditions:
        result = detect_iter_map(indices, input_iters, condition, *options, analyzer)
        if result.indices:
            written = tuple(
                normalize_iter_map_to_expr(s, i.dtype, analyzer)
                for s, i in zip(result.indices, indices, strict=True)
            )
            if analyzer is None:
                # These are what the next to look at the indices will ask for.
                _remember(_key(written, input_iters, condition, *options), result)
            return written
    return tuple(indices)


def normalize_iter_map_to_expr(
    value: IterSumExpr, dtype: DataType | str = INT32, analyzer: Analyzer | None = None
) -> PrimExpr:
    """Return a sum of pieces as an expression.

    What was narrowed to a dtype in which parts of it might wrap is summed up before.
    """
    linearizer = (analyzer or Analyzer()).linearizer
    wide = dtype = DataType(dtype)
    if not holds_indices(dtype):
        for split in value.args:
            wide = widest(split.source, wide)
    written = IterWriter(linearizer, wide).sum(value)
    return written if written.dtype is dtype else written.astype(dtype)


_TRIVIAL: Final = frozenset({Var, IntImm})


class _Detector:
    def __init__(
        self,
        domain: Mapping[Var, Bounds],
        level: IterMapLevel,
        simplify_trivial: bool,
        analyzer: Analyzer,
    ) -> None:
        self._level = level
        self._simplify_trivial = simplify_trivial
        self._linear = analyzer.linearizer
        self._domain = domain
        self._sizes = Sizes(self._linear, (values.extent for values in domain.values()))
        self._vars: dict[Var, IterSumExpr] = {}
        self._fuser = Fuser(level in (IterMapLevel.BIJECTIVE, IterMapLevel.INJECTIVE))
        self._tightened: dict[Var, tuple[Size, Size]] = {}

    # ---------------------------------------------------------------------------------- iterators

    def _variable(self, var: Var) -> IterSumExpr:
        """Return a variable as the iterator that it is, if it is one, and what it starts from."""
        known = self._vars.get(var)
        if known is not None:
            return known
        extent: Size = 1
        values = self._domain.get(var)
        if values is None:
            low = self._linear(var)
        elif var in self._tightened:
            least, most = self._tightened[var]
            low, extent = linear_of(least), most - least + 1
        else:
            first, count = values.min, values.extent
            low = ZERO if _is_zero(first) else self._linear(self._outside(first, var))
            if type(count) is IntImm:
                extent = count.value
            else:
                extent = self._sizes.of(self._linear(self._outside(count, var)))
        if values is None or (extent == 1 and self._simplify_trivial):
            found = IterSumExpr((), low)
        else:
            mark = IterMark(var, extent, low if low.terms or low.const else None)
            found = IterSumExpr((mark.whole,), low)
        self._vars[var] = found
        return found

    def _outside(self, bound: PrimExpr, var: Var) -> PrimExpr:
        """Return a bound of a variable; NoIterMapError if it depends on another iterator."""
        if self._mentions_iterator(bound):
            raise NoIterMapError(f"the range of {var.name} depends on another iterator")
        return bound

    def _mentions_iterator(self, expr: PrimExpr) -> bool:
        return type(expr) is not IntImm and uses_var(expr, self._domain.__contains__)

    # ----------------------------------------------------------------------------------- rewriting

    def index(self, expr: PrimExpr) -> IterSumExpr:
        """Return an index as at most one piece and a base."""
        return self._fuser.single(self._rewrite(expr))

    def _rewrite(self, expr: PrimExpr) -> IterSumExpr:
        kind = type(expr)
        if kind is Var or kind is e.SizeVar:
            return self._variable(expr)  # type: ignore[arg-type]
        if _is_scalar_int(expr.dtype):
            if kind in _SUMS:
                parts: list[IterSplitExpr] = []
                base = self._collect(expr, 1, parts)
                return IterSumExpr(tuple(_added_up(parts)), base)
            rule = _RULES.get(kind)
            if rule is not None:
                return rule(self, expr)
        if self._mentions_iterator(expr):
            raise NoIterMapError(f"`{expr}` is not affine")
        return IterSumExpr((), self._linear(expr))

    def _collect(self, expr: PrimExpr, factor: int, parts: list[IterSplitExpr]) -> Linear:
        """Add the pieces in `factor` times an integer to a list, and return the base.

        A sum is read in one go, however deep it is.
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
                base = _plus(base, self._collect(expr.a, factor, parts), 1)  # type: ignore[attr-defined]
                factor = factor if kind is e.Add else -factor
                expr = expr.b  # type: ignore[attr-defined]
            kind = type(expr)
        if kind is Var:
            found = self._vars.get(expr) or self._variable(expr)  # type: ignore[arg-type, call-overload]
        else:
            found = self._multiply(expr) if kind is e.Mul else self._rewrite(expr)
        for split in found.args:
            parts.append(split if factor == 1 else split.scaled(factor * split.scale))
        return _plus(base, found.base, factor)

    def _multiply(self, node: Any) -> IterSumExpr:
        a, b = self._rewrite(node.a), self._rewrite(node.b)
        if a.args and b.args:
            raise NoIterMapError(f"`{node}` multiplies iterators")
        if not a.args and not b.args:
            return IterSumExpr((), self._linear.product(a.base, b.base))
        if not a.args:
            a, b = b, a
        factor = self._sizes.of(b.base)
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
            # Together, pieces that the predicate constrains may count less far than each alone.
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
        """Return the least and the largest value that a piece may have.

        A symbolic extent is what its own dtype holds at most.
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
        divisor = self._sizes.of(b.base)
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
                return IterSumExpr((whole,), self._over(base, divisor))
            if not is_positive(scale) or divisor % scale != 0 or not self._divides(scale, base):
                raise NoIterMapError(
                    "a scaled iterator is divided by a number that is no multiple of its scale"
                )
            divisor, base = divisor // scale, self._over(base, scale)
            outer = 1 if quotient else scale
            split = split.scaled(1)
        if divisor == 1:
            return IterSumExpr((split,), base) if quotient else IterSumExpr((), ZERO)
        left = 0
        if not self._divides(divisor, base):
            if type(divisor) is not int or not self._divides(divisor, Linear(base.terms, 0)):
                raise NoIterMapError("the offset of a divided iterator is not known")
            left = base.const % divisor
            split = self._padded_left(split, left, divisor)
        carried = self._over(base.plus_const(-left), divisor)
        if quotient:
            piece = self._quotient_piece(split, divisor)
            return IterSumExpr((piece,), carried)
        return IterSumExpr((self._remainder_piece(split, divisor, outer),), ZERO)

    def _divides(self, divisor: Size, value: Linear) -> bool:
        if type(divisor) is int:
            return value.const % divisor == 0 and all(
                c % divisor == 0 for c in value.terms.values()
            )
        return self._sizes.of(value) % divisor == 0

    def _over(self, value: Linear, divisor: Size) -> Linear:
        """Return a multiple of a divisor, divided by it."""
        if type(divisor) is int:
            terms = {t: c // divisor for t, c in value.terms.items()}
            return Linear(terms, value.const // divisor)
        return linear_of(self._sizes.of(value) // divisor)

    def _padded_left(self, split: IterSplitExpr, left: int, divisor: int) -> IterSplitExpr:
        if self._level is IterMapLevel.BIJECTIVE:
            raise NoIterMapError("an iterator would have to be padded on the left")
        mark = self._fuser.mark([split], left + split.extent, left)
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
        if split.is_whole:
            self._pad(split.source)
            return IterSplitExpr(split.source, divisor, ceil_div(extent, divisor), 1)
        mark = self._fuser.mark([split], extent, 0)
        self._pad(mark)
        return IterSplitExpr(mark, divisor, ceil_div(extent, divisor), 1)

    def _remainder_piece(self, split: IterSplitExpr, divisor: Size, scale: Size) -> IterSplitExpr:
        if split.extent % divisor != 0:
            if not split.is_whole:
                split = self._fuser.mark([split], split.extent, 0).whole
            self._pad(split.source)
        return IterSplitExpr(split.source, split.lower_factor, divisor, scale)

    # -------------------------------------------------------------------------------- predicates

    def constrain(self, predicate: PrimExpr) -> None:
        """Take the inequalities of a predicate into account.

        What a division fuses is what is known of its operand by then, so that inequalities on sums
        come before those on quotients and remainders of sums.
        """
        if predicate is TRUE:
            return
        found = inequalities(predicate, self._mentions_iterator, self._linear, self._sizes)
        pending = [side for side in found if not self._tighten_var(*side)]
        if len(pending) < 2:
            self._constrain_sums(pending)
            return
        by_depth: dict[int, list[Inequality]] = {}
        for side in pending:
            by_depth.setdefault(_divisions(side[0]), []).append(side)
        for depth in sorted(by_depth):
            self._constrain_sums(by_depth[depth])

    def _constrain_sums(self, found: list[Inequality]) -> None:
        bounds: dict[frozenset[Any], tuple[IterSumExpr, Size | None, Size | None]] = {}
        for expr, low, high in found:
            value = self._rewrite(expr)
            base = self._sizes.of(value.base)
            key = frozenset((*s.key, s.scale) for s in value.args)
            _, old_low, old_high = bounds.get(key, (value, None, None))
            bounds[key] = (
                value,
                tighter_low(None if low is None else low - base, old_low),
                tighter_high(None if high is None else high - base, old_high),
            )
        for value, low, high in sorted(bounds.values(), key=lambda b: len(b[0].args)):
            self._fuser.constrain(value, low, high)

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
            first = self._sizes.of(self._linear(values.min))
            last = first + self._sizes.of(self._linear(values.extent)) - 1
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


def _divisions(expr: Node) -> int:
    """Return the depth to which quotients and remainders are nested in an expression."""
    inside = max((_divisions(part) for part in children(expr)), default=0)
    return inside + (type(expr) in (e.FloorDiv, e.FloorMod))


def _is_scalar_int(dtype: DataType) -> bool:
    return dtype.is_int and dtype.lanes == 1


def _is_zero(expr: PrimExpr) -> bool:
    return type(expr) is IntImm and not expr.value


def _plus(base: Linear, other: Linear, factor: int) -> Linear:
    if not other.terms and not other.const:
        return base
    return base.plus(other, factor)


def _added_up(parts: list[IterSplitExpr]) -> list[IterSplitExpr]:
    """Return the terms of a sum with each piece once."""
    if len(parts) < 2 or len({s.source for s in parts}) == len(parts):
        return parts
    by_key: dict[PieceKey, IterSplitExpr] = {}
    for split in parts:
        known = by_key.get(split.key)
        scale = split.scale if known is None else known.scale + split.scale
        by_key[split.key] = split.scaled(scale)
    return [s for s in by_key.values() if s.scale != 0]


_SUMS: Final = frozenset({e.Add, e.Sub, e.Mul})
_RULES: Final[dict[type, Callable[[_Detector, Any], IterSumExpr]]] = {
    e.FloorDiv: _Detector._divide,
    e.FloorMod: _Detector._divide,
    e.Cast: _Detector._cast,
}
