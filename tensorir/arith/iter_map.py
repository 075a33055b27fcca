"""Detecting that index expressions are independent pieces of a box of iterators.

The question behind every transformation of loops: given indices over iterators, is each a piece of
the iteration space that the others do not touch, and how many values does it take? The method
rewrites each index to pieces of iterators, fuses sums in which the scale of each term is the extent
of all terms below it, and at last checks that the pieces of every iterator fit together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

from tensorir import expr as e
from tensorir.arith.analyzer import Analyzer
from tensorir.arith.iter_term import IterMark, IterSplitExpr, IterSumExpr, IterWriter
from tensorir.arith.linear import ZERO, Linear
from tensorir.arith.mixed_radix import plainly_simplified
from tensorir.buffer import Range
from tensorir.dtype import INT32
from tensorir.expr import IntImm, PrimExpr, Var
from tensorir.ops import FALSE, TRUE, const, is_const_int
from tensorir.visit import uses_var


class IterMapLevel(IntEnum):
    """How strictly the pieces of an iterator must fit."""

    BIJECTIVE = 0
    """Every value of every iterator appears exactly once."""
    SURJECTIVE = 1
    """The indices are independent; parts of an iterator may be unused."""
    NO_CHECK = 3
    """Nothing is checked, and iterators may be padded."""


@dataclass(slots=True)
class IterMapResult:
    """What detection found; `indices` is empty if it failed, and `errors` says why."""

    indices: tuple[IterSumExpr, ...] = ()
    errors: list[str] = field(default_factory=list)
    padding_predicate: PrimExpr = FALSE


class _Mismatch(Exception):  # noqa: N818
    """An index is not of the form that is looked for."""


class _Group:
    """Terms that a predicate constrains together: they run over `extent` values from `low`."""

    __slots__ = ("extent", "low", "met", "terms")

    def __init__(self, terms: list[IterSplitExpr], low: int, extent: int) -> None:
        self.terms = terms
        self.met = False
        """Whether an index contains the terms as a whole."""
        self.low = low
        self.extent = extent


def detect_iter_map(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[Var, Range],
    predicate: PrimExpr = TRUE,
    check_level: IterMapLevel = IterMapLevel.SURJECTIVE,
    simplify_trivial_iterators: bool = True,
    analyzer: Analyzer | None = None,
) -> IterMapResult:
    """Rewrite indices as pieces of the iterators in `input_iters`.

    Each index of the result is a sum of at most one piece and a base. Only points at which
    `predicate` holds count. Iterators of one value are left out if `simplify_trivial_iterators`.
    """
    detector = _Detector(input_iters, check_level, simplify_trivial_iterators, analyzer)
    try:
        detector.constrain(predicate)
        found = tuple(detector.index(i) for i in indices)
        detector.check_independent(found)
    except _Mismatch as error:
        return IterMapResult(errors=[str(error)])
    return IterMapResult(found, [], detector.padding_predicate())


def iter_map_simplify(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[Var, Range],
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
    trivial = is_const_int(predicate, 1)
    if trivial and check_level is not IterMapLevel.BIJECTIVE:
        plain = plainly_simplified(indices, input_iters, not simplify_trivial_iterators)
        if plain is not None:
            return plain
    analyzer = analyzer or Analyzer()
    options: dict[str, Any] = {
        "check_level": check_level,
        "simplify_trivial_iterators": simplify_trivial_iterators,
        "analyzer": analyzer,
    }
    result = detect_iter_map(indices, input_iters, predicate, **options)
    if not result.indices and not trivial and check_level is not IterMapLevel.BIJECTIVE:
        result = detect_iter_map(indices, input_iters, TRUE, **options)
    if not result.indices:
        return tuple(indices)
    return tuple(
        normalize_iter_map_to_expr(s, i.dtype, analyzer)
        for s, i in zip(result.indices, indices, strict=True)
    )


def normalize_iter_map_to_expr(
    value: IterSumExpr, dtype: Any = INT32, analyzer: Analyzer | None = None
) -> PrimExpr:
    """Return a sum of pieces as an expression."""
    return IterWriter((analyzer or Analyzer()).linearizer, dtype).sum(value)


_TRIVIAL: Final = frozenset({Var, IntImm})


class _Detector:
    def __init__(
        self,
        domain: Mapping[Var, Range],
        level: IterMapLevel,
        simplify_trivial: bool,
        analyzer: Analyzer | None,
    ) -> None:
        self._level = level
        self._simplify_trivial = simplify_trivial
        self._linear = (analyzer or Analyzer()).linearizer
        self._domain = domain
        self._vars: dict[Var, IterSumExpr] = {}
        self._fused: dict[tuple[Any, ...], IterMark] = {}
        self._groups: list[_Group] = []
        self._tightened: dict[Var, tuple[int, int]] = {}

    # ---------------------------------------------------------------------------------- iterators

    def _var(self, var: Var) -> IterSumExpr:
        known = self._vars.get(var)
        if known is not None:
            return known
        values = self._domain.get(var)
        if values is None:
            return IterSumExpr((), self._linear(var))
        if uses_var(values.min, self._is_iterator) or uses_var(values.extent, self._is_iterator):
            raise _Mismatch(f"the range of {var.name} depends on another iterator")
        low, extent = self._linear(values.min), self._linear(values.extent)
        if var in self._tightened and not low.terms:
            first, last = self._tightened[var]
            low, extent = Linear({}, first), Linear({}, last - first + 1)
        if extent.terms:
            raise _Mismatch(f"the extent of {var.name} is not constant")
        if extent.const == 1 and self._simplify_trivial:
            made = IterSumExpr((), low)
        else:
            offset = low if low.terms or low.const else None
            mark = IterMark(var, extent.const, offset)
            made = IterSumExpr((IterSplitExpr(mark, 1, extent.const, 1),), low)
        self._vars[var] = made
        return made

    def _is_iterator(self, var: Var) -> bool:
        return var in self._domain

    def _mentions_iterator(self, expr: PrimExpr) -> bool:
        return uses_var(expr, self._is_iterator)

    # ----------------------------------------------------------------------------------- rewriting

    def index(self, expr: PrimExpr) -> IterSumExpr:
        """Return an index as at most one piece and a base."""
        return self._single(self._rewrite(expr))

    def _rewrite(self, expr: PrimExpr) -> IterSumExpr:
        kind = type(expr)
        if kind is Var or kind is e.SizeVar:
            return self._var(expr)  # type: ignore[arg-type]
        if kind is IntImm:
            return IterSumExpr((), self._linear(expr))
        rule = _RULES.get(kind)
        if rule is not None and expr.dtype.is_int and expr.dtype.lanes == 1:
            return rule(self, expr)
        if self._mentions_iterator(expr):
            raise _Mismatch(f"`{expr}` is not affine")
        return IterSumExpr((), self._linear(expr))

    def _add(self, a: IterSumExpr, b: IterSumExpr, sign: int) -> IterSumExpr:
        args = {s.key: s for s in a.args}
        for split in b.args:
            known = args.get(split.key)
            scale = sign * split.scale + (known.scale if known is not None else 0)
            args[split.key] = split.scaled(scale)
        kept = tuple(s for s in args.values() if s.scale)
        return IterSumExpr(kept, a.base.plus(b.base, sign))

    def _mul(self, node: e.Mul) -> IterSumExpr:
        a, b = self._rewrite(node.a), self._rewrite(node.b)
        if a.args and b.args:
            raise _Mismatch(f"`{node}` multiplies iterators")
        if not a.args:
            a, b = b, a
        if not a.args:
            return IterSumExpr((), self._linear.product(a.base, b.base))
        if b.base.terms:
            raise _Mismatch(f"`{node}` scales an iterator by something that is not constant")
        factor = b.base.const
        if factor == 0:
            return IterSumExpr((), ZERO)
        return IterSumExpr(tuple(s.scaled(s.scale * factor) for s in a.args), a.base.times(factor))

    def _divide(self, node: e.FloorDiv | e.FloorMod) -> IterSumExpr:
        quotient = type(node) is e.FloorDiv
        a, b = self._rewrite(node.a), self._rewrite(node.b)
        if b.args or b.base.terms or b.base.const <= 0:
            raise _Mismatch(f"`{node}` divides by something that is no positive constant")
        divisor = b.base.const
        if not a.args:
            whole = self._linear.quotient(a.base, divisor)
            if quotient:
                return IterSumExpr((), whole)
            return IterSumExpr((), a.base.plus(whole, -divisor))
        single = self._single(a)
        if not single.args:
            return self._divide_base(single.base, divisor, quotient)
        return self._divide_piece(single.args[0], single.base, divisor, quotient)

    def _divide_base(self, base: Linear, divisor: int, quotient: bool) -> IterSumExpr:
        whole = self._linear.quotient(base, divisor)
        return IterSumExpr((), whole if quotient else base.plus(whole, -divisor))

    def _divide_piece(
        self, split: IterSplitExpr, base: Linear, divisor: int, quotient: bool
    ) -> IterSumExpr:
        scale = split.scale
        outer = 1
        if scale != 1:
            if scale % divisor == 0 and _divides(divisor, base):
                if not quotient:
                    return IterSumExpr((), ZERO)
                return IterSumExpr((split.scaled(scale // divisor),), _over(base, divisor))
            if scale < 1 or divisor % scale or not _divides(scale, base):
                raise _Mismatch("a scaled iterator is divided by what its scale does not divide")
            divisor, base = divisor // scale, _over(base, scale)
            outer = 1 if quotient else scale
            split = split.scaled(1)
        if divisor == 1:
            return IterSumExpr((split,), base) if quotient else IterSumExpr((), ZERO)
        if base.terms and not _divides(divisor, Linear(base.terms, 0)):
            raise _Mismatch("the offset of a divided iterator is not known")
        left = base.const % divisor
        if left:
            split = self._padded_left(split, left, divisor)
        carried = _over(base.plus_const(-left), divisor)
        if quotient:
            piece = self._quotient_piece(split, divisor)
            return IterSumExpr((piece,) if piece is not None else (), carried)
        return IterSumExpr((self._remainder_piece(split, divisor, outer),), ZERO)

    def _padded_left(self, split: IterSplitExpr, left: int, divisor: int) -> IterSplitExpr:
        if self._level is IterMapLevel.BIJECTIVE:
            raise _Mismatch("an iterator would have to be padded on the left")
        mark = self._mark([split], left + split.extent, left)
        mark.padded_extent = round_up(left + split.extent, divisor)
        return IterSplitExpr(mark, 1, mark.extent, 1)

    def _pad(self, mark: IterMark, unit: int) -> None:
        if self._level is IterMapLevel.BIJECTIVE:
            raise _Mismatch("an iterator would have to be padded")
        mark.padded_extent = round_up(mark.extent, unit)

    def _quotient_piece(self, split: IterSplitExpr, divisor: int) -> IterSplitExpr | None:
        lower, extent = split.lower_factor, split.extent
        if extent % divisor == 0:
            return IterSplitExpr(split.source, lower * divisor, extent // divisor, 1)
        if split.is_whole:
            self._pad(split.source, divisor)
            return IterSplitExpr(split.source, divisor, -(-extent // divisor), 1)
        mark = self._mark([split], extent, 0)
        self._pad(mark, divisor)
        return IterSplitExpr(mark, divisor, -(-extent // divisor), 1)

    def _remainder_piece(self, split: IterSplitExpr, divisor: int, scale: int) -> IterSplitExpr:
        if split.extent % divisor:
            if not split.is_whole:
                split = IterSplitExpr(self._mark([split], split.extent, 0), 1, split.extent, 1)
            self._pad(split.source, divisor)
        return IterSplitExpr(split.source, split.lower_factor, divisor, scale)

    # ------------------------------------------------------------------------------------- fusing

    def _single(self, value: IterSumExpr) -> IterSumExpr:
        """Return a sum as one piece and a base."""
        if not value.args or (len(value.args) == 1 and not self._groups):
            return value
        terms = _merge_pieces(list(value.args))
        if len(terms) == 1 and not self._groups:
            return IterSumExpr(tuple(terms), value.base)
        ordered, base_scale, extent, low = self._order(terms)
        if len(ordered) == 1 and extent == ordered[0].extent:
            return IterSumExpr((ordered[0],), value.base)
        relative = [s.scaled(s.scale // base_scale) for s in ordered]
        mark = self._mark(relative, extent, -low)
        piece = IterSplitExpr(mark, 1, extent, base_scale)
        return IterSumExpr((piece,), value.base.plus_const(low * base_scale))

    def _mark(self, terms: list[IterSplitExpr], extent: int, base: int) -> IterMark:
        key = (extent, base, *((*s.key, s.scale) for s in terms))
        mark = self._fused.get(key)
        if mark is None:
            mark = IterMark(IterSumExpr(tuple(terms), Linear({}, base)), extent)
            self._fused[key] = mark
        return mark

    def _order(self, terms: list[IterSplitExpr]) -> tuple[list[IterSplitExpr], int, int, int]:
        """Return terms from the outermost to the innermost, their scale, extent and least value.

        The extent and the least value are in units of the innermost term's scale.
        """
        left = list(terms)
        start = 0
        for k in range(len(left) - 1, -1, -1):
            best, term = left[start], left[k]
            if (
                k == len(left) - 1
                or abs(term.scale) < abs(best.scale)
                or (abs(term.scale) == abs(best.scale) and term.extent == 1 != best.extent)
            ):
                start = k
        base_scale = left[start].scale
        if base_scale < 0:
            if len(left) == 1:
                return left, base_scale, left[0].extent, 0
            raise _Mismatch("iterators with negative scales are added")
        picked: list[IterSplitExpr] = []
        expected, low, slack = base_scale, 0, 0
        first = True
        while left:
            following = start if first else self._next(left, expected)
            overlap = 0
            if following is None:
                following, overlap = self._overlapping(left, expected, base_scale)
            first = False
            k = following
            term = left[k]
            slack += overlap
            group = self._group_ending_in(term, left)
            if group is None:
                left.pop(k)
                picked.append(term)
                expected = term.extent * term.scale
            else:
                group.met = True
                factor = term.scale
                keys = {s.key for s in group.terms}
                taken = [s for s in left if s.key in keys]
                taken.sort(key=lambda s: s.scale)
                left = [s for s in left if s.key not in keys]
                picked.extend(taken)
                low += group.low * factor // base_scale
                expected = group.extent * factor
        picked.reverse()
        return picked, base_scale, expected // base_scale + slack, low

    def _next(self, left: list[IterSplitExpr], expected: int) -> int | None:
        """Return the position of the term that continues at scale `expected`."""
        found: int | None = None
        for k in range(len(left) - 1, -1, -1):
            if left[k].scale != expected:
                continue
            if left[k].extent == 1:
                return k
            if found is None:
                found = k
        return found

    def _overlapping(
        self, left: list[IterSplitExpr], expected: int, base_scale: int
    ) -> tuple[int, int]:
        """Return a term whose values overlap with those of the terms below, and by how much."""
        if self._level is not IterMapLevel.BIJECTIVE and base_scale == 1:
            candidates = [k for k, s in enumerate(left) if 0 < s.scale <= expected]
            if candidates:
                k = max(candidates, key=lambda c: left[c].scale)
                return k, expected - left[k].scale
        raise _Mismatch("the scales of added iterators leave gaps")

    # -------------------------------------------------------------------------------- predicates

    def constrain(self, predicate: PrimExpr) -> None:
        """Take the inequalities of a predicate into account."""
        bounds: dict[tuple[Any, ...], tuple[IterSumExpr, int | None, int | None]] = {}
        pending = []
        for conjunct in _conjuncts(predicate):
            if not self._mentions_iterator(conjunct):
                continue
            side = self._inequality(conjunct)
            if not self._tighten_var(*side):
                pending.append(side)
        for expr, low, high in pending:
            value = self._rewrite(expr)
            if value.base.terms:
                raise _Mismatch(f"`{expr}` is compared with something that is not constant")
            low = None if low is None else low - value.base.const
            high = None if high is None else high - value.base.const
            key = tuple(sorted((*s.key, s.scale) for s in value.args))
            _, old_low, old_high = bounds.get(key, (value, None, None))
            lows = [b for b in (low, old_low) if b is not None]
            highs = [b for b in (high, old_high) if b is not None]
            bounds[key] = (value, max(lows, default=None), min(highs, default=None))
        for value, low, high in sorted(bounds.values(), key=lambda b: len(b[0].args)):
            self._add_group(value, low, high)

    def _inequality(self, condition: PrimExpr) -> tuple[PrimExpr, int | None, int | None]:
        """Return an expression and constants that it lies between."""
        if not isinstance(condition, (e.LT, e.LE, e.GT, e.GE)):
            raise _Mismatch(f"`{condition}` is no inequality")
        a, b = condition.a, condition.b
        if isinstance(condition, (e.GT, e.GE)):
            a, b = b, a
        strict = 1 if isinstance(condition, (e.LT, e.GT)) else 0
        if isinstance(b, IntImm):
            return a, None, b.value - strict
        if isinstance(a, IntImm):
            return b, a.value + strict, None
        return e.Sub(a, b), None, -strict

    def _tighten_var(self, expr: PrimExpr, low: int | None, high: int | None) -> bool:
        """Apply a constraint on one variable to its range."""
        if type(expr) is not Var or expr not in self._domain:
            return False
        values = self._domain[expr]
        if not isinstance(values.min, IntImm) or not isinstance(values.extent, IntImm):
            return False
        first = values.min.value
        last = first + values.extent.value - 1
        first, last = self._tightened.get(expr, (first, last))
        first = first if low is None else max(first, low)
        last = last if high is None else min(last, high)
        if last < first:
            raise _Mismatch("the predicate never holds")
        self._tightened[expr] = (first, last)
        return True

    def _add_group(self, value: IterSumExpr, low: int | None, high: int | None) -> None:
        terms = _merge_pieces(list(value.args))
        if not terms:
            return
        ordered, scale, extent, least = self._order(terms)
        if scale != 1:
            raise _Mismatch("a predicate constrains a scaled iterator")
        first = least if low is None else max(low, least)
        last = least + extent - 1 if high is None else min(high, least + extent - 1)
        if last < first:
            raise _Mismatch("the predicate never holds")
        keys = {s.key for s in ordered}
        for group in self._groups:
            known = {s.key for s in group.terms}
            if keys & known and not keys >= known:
                raise _Mismatch("constraints overlap without being nested")
        self._groups.append(_Group(ordered, first, last - first + 1))

    def _group_ending_in(self, term: IterSplitExpr, left: list[IterSplitExpr]) -> _Group | None:
        """Return the largest constrained group whose innermost term is `term`, if all are there."""
        present = {s.key: s.scale for s in left}
        for group in reversed(self._groups):
            if group.terms[-1].key != term.key:
                continue
            if all(present.get(s.key) == s.scale * term.scale for s in group.terms):
                return group
        return None

    # ------------------------------------------------------------------------------- independence

    def check_independent(self, found: tuple[IterSumExpr, ...]) -> None:
        """Raise unless the pieces found fit together in every iterator."""
        if self._level is IterMapLevel.NO_CHECK:
            return
        uses: dict[IterMark, list[IterSplitExpr]] = {}
        for value in found:
            for split in value.args:
                uses.setdefault(split.source, []).append(split)
        depths = max((m.depth for m in uses), default=0)
        for depth in range(depths, -1, -1):
            for mark in [m for m in uses if m.depth == depth]:
                self._check_pieces(mark, uses[mark])
                if isinstance(mark.source, IterSumExpr):
                    for split in mark.source.args:
                        uses.setdefault(split.source, []).append(split)
        for group in self._groups:
            if not group.met and any(s.source in uses for s in group.terms):
                raise _Mismatch("a predicate constrains iterators that no index has together")
        if self._level is IterMapLevel.BIJECTIVE:
            for var, values in self._domain.items():
                if is_const_int(values.extent, 1):
                    continue
                known = self._vars.get(var)
                if known is None or (known.args and known.args[0].source not in uses):
                    raise _Mismatch(f"iterator {var.name} is not used")

    def _check_pieces(self, mark: IterMark, splits: list[IterSplitExpr]) -> None:
        strict = self._level is IterMapLevel.BIJECTIVE
        padded = mark.padded_extent != mark.extent
        reached = 1
        for split in sorted(splits, key=lambda s: (s.lower_factor, s.extent)):
            gap = split.lower_factor != reached
            if gap and (strict or split.lower_factor % reached):
                raise _Mismatch("the pieces of an iterator overlap or leave a gap")
            reached = split.lower_factor * split.extent
        if padded:
            last = splits[0]
            covers = len(splits) == 1 and -(-mark.extent // last.lower_factor) >= last.extent
            fits = covers or reached <= mark.extent
        elif strict:
            fits = reached == mark.extent
        else:
            fits = mark.extent % reached == 0
        if not fits:
            raise _Mismatch("the pieces of an iterator do not make up its extent")

    def padding_predicate(self) -> PrimExpr:
        """Return the condition under which a point lies in the padding that was added."""
        result: PrimExpr = FALSE
        marks = [v.args[0].source for v in self._vars.values() if v.args]
        for mark in [*marks, *self._fused.values()]:
            if mark.padded_extent == mark.extent:
                continue
            whole = IterSumExpr((IterSplitExpr(mark, 1, mark.extent, 1),), ZERO)
            value = IterWriter(self._linear, INT32).sum(whole)
            beyond = e.GE(value, const(mark.extent, value.dtype))
            result = beyond if result is FALSE else e.Or(result, beyond)
        return result


def round_up(extent: int, unit: int) -> int:
    """Return `extent` rounded up to a multiple of `unit`."""
    return -(-extent // unit) * unit


def _divides(divisor: int, value: Linear) -> bool:
    return value.const % divisor == 0 and all(c % divisor == 0 for c in value.terms.values())


def _over(value: Linear, divisor: int) -> Linear:
    return Linear({t: c // divisor for t, c in value.terms.items()}, value.const // divisor)


def _merge_pieces(terms: list[IterSplitExpr]) -> list[IterSplitExpr]:
    """Join neighbouring pieces of one iterator: `x // 4 * 4 + x % 4` is `x`."""
    merged = True
    while merged and len(terms) > 1:
        merged = False
        for high in terms:
            for low in terms:
                if (
                    high is not low
                    and high.source is low.source
                    and high.lower_factor == low.lower_factor * low.extent
                    and high.scale == low.scale * low.extent
                ):
                    joined = IterSplitExpr(
                        low.source, low.lower_factor, low.extent * high.extent, low.scale
                    )
                    terms = [joined if t is high else t for t in terms if t is not low]
                    merged = True
                    break
            if merged:
                break
    return terms


def _conjuncts(predicate: PrimExpr) -> list[PrimExpr]:
    if isinstance(predicate, e.And):
        return [*_conjuncts(predicate.a), *_conjuncts(predicate.b)]
    return [predicate]


_RULES: Final[dict[type, Callable[[_Detector, Any], IterSumExpr]]] = {
    e.Add: lambda d, n: d._add(d._rewrite(n.a), d._rewrite(n.b), 1),
    e.Sub: lambda d, n: d._add(d._rewrite(n.a), d._rewrite(n.b), -1),
    e.Mul: lambda d, n: d._mul(n),
    e.FloorDiv: lambda d, n: d._divide(n),
    e.FloorMod: lambda d, n: d._divide(n),
    e.Cast: lambda d, n: d._rewrite(n.value),
}
