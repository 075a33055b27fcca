"""Random affine maps over small boxes of iterators, and what they do, found by running them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from strategies import X, Y, Z, evaluate, points

from tensorir import Range
from tensorir.nodes import expr as e
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.ops import all_of, const

_EXTENTS = st.sampled_from([1, 2, 3, 4, 5, 6, 8, 12])
_SCALES = st.sampled_from([1, 2, 3, 4, 5, 6, 8])
_DIVISORS = st.sampled_from([2, 3, 4, 5, 6, 8, 12, 23])
_OFFSETS = st.sampled_from([0, 0, 0, -15, -3, -1, 1, 2, 5])
_LIMITS = st.sampled_from([1, 2, 3, 4, 5, 6, 7, 8, 10, 13, 15, 20, 30])
_INEQUALITIES = st.sampled_from([e.LT, e.LE, e.GT, e.GE])


@dataclass
class IterationMap:
    """Indices over a box of iterators, of which the points count at which a predicate holds."""

    spans: dict[Var, range]
    indices: list[PrimExpr]
    predicate: PrimExpr

    @property
    def domain(self) -> dict[Var, Range]:
        """The box, as analyses take it."""
        return {
            v: Range.from_min_extent(const(s.start), const(len(s))) for v, s in self.spans.items()
        }

    def points(self) -> list[dict[Var, int]]:
        """Return the points at which the predicate holds."""
        return [p for p in points(self.spans) if evaluate(self.predicate, p)]

    def values(self, exprs: Sequence[PrimExpr] | None = None) -> list[tuple[int, ...]]:
        """Return what the indices, or other expressions, are at each of those points."""
        exprs = self.indices if exprs is None else exprs
        return [tuple(int(evaluate(i, p)) for i in exprs) for p in self.points()]

    def __repr__(self) -> str:
        indices = ", ".join(str(i) for i in self.indices)
        spans = ", ".join(f"{v.name} in {s}" for v, s in self.spans.items())
        return f"[{indices}] for {spans} where {self.predicate}"


@st.composite
def iteration_maps(draw: Callable[[Any], Any]) -> IterationMap:
    """Draw a map whose indices and predicates are about the same few sums of iterators."""
    variables = draw(st.permutations([X, Y, Z]))[: draw(st.integers(1, 3))]
    spans: dict[Var, range] = {}
    count: PrimExpr | None = None
    step = 1
    for var in variables:
        low, extent = draw(st.sampled_from([0, 0, 0, 0, -2, 3])), draw(_EXTENTS)
        spans[var] = range(low, low + extent)
        term = var * draw(st.one_of(st.just(step), st.just(step), _SCALES))
        count = term if count is None else term + count
        step *= extent
    assert count is not None
    total: PrimExpr = count + draw(_OFFSETS)

    def piece(depth: int = 2) -> PrimExpr:
        kind = draw(st.integers(0, 5))
        if kind == 0 or depth == 0:
            return total
        if kind == 1:
            return draw(st.sampled_from(variables))  # type: ignore[no-any-return]
        divisor = draw(_DIVISORS)
        divided = piece(depth - 1) + draw(_OFFSETS)
        return divided // divisor if kind < 4 else divided % divisor

    def index() -> PrimExpr:
        if draw(st.booleans()):
            return piece()
        return piece(1) * draw(_SCALES) + piece(1) + draw(_OFFSETS)

    if draw(st.booleans()):
        divisor = draw(_DIVISORS)
        indices = [total // divisor, total % divisor]
    else:
        indices = [index() for _ in range(draw(st.integers(1, 2)))]
    limited = [piece() for _ in range(draw(st.integers(0, 2)))]
    predicate = all_of([draw(_INEQUALITIES)(part, const(draw(_LIMITS))) for part in limited])
    return IterationMap(spans, indices, predicate)


def box(axes: Sequence[Sequence[int]]) -> set[tuple[int, ...]]:
    """Return the points of a box."""
    return set(itertools.product(*axes))
