"""Reading predicates as bounds of sums of iterators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from tensorir.arith.iter_term import NoIterMapError
from tensorir.arith.linearize import Linearizer
from tensorir.arith.size import Size, Sizes, larger, smaller
from tensorir.nodes import expr as e
from tensorir.nodes.expr import PrimExpr
from tensorir.nodes.ops import conjuncts

Inequality: TypeAlias = "tuple[PrimExpr, Size | None, Size | None]"
"""An expression with its least and largest value, both included; None is no limit."""


def inequalities(
    predicate: PrimExpr,
    mentions_iterator: Callable[[PrimExpr], bool],
    reader: Linearizer,
    sizes: Sizes,
) -> Iterator[Inequality]:
    """Yield the conjuncts of a predicate as limits of expressions.

    Conjuncts without an iterator are left out. NoIterMapError for one that is no inequality.
    """
    for condition in conjuncts(predicate):
        if not mentions_iterator(condition):
            continue
        if not isinstance(condition, (e.LT, e.LE, e.GT, e.GE)) or not condition.a.dtype.is_int:
            raise NoIterMapError(f"`{condition}` is no inequality")
        a, b = condition.a, condition.b
        if isinstance(condition, (e.GT, e.GE)):
            a, b = b, a
        strict = 1 if isinstance(condition, (e.LT, e.GT)) else 0
        if not mentions_iterator(b):
            yield a, None, sizes.of(reader(b)) - strict
        elif not mentions_iterator(a):
            yield b, sizes.of(reader(a)) + strict, None
        else:
            yield e.Sub(a, b), None, -strict


def tighter_low(a: Size | None, b: Size | None) -> Size | None:
    """Return the larger of two lower bounds, of which None is none."""
    if a is None or b is None:
        return b if a is None else a
    return larger(a, b)


def tighter_high(a: Size | None, b: Size | None) -> Size | None:
    """Return the smaller of two upper bounds, of which None is none."""
    if a is None or b is None:
        return b if a is None else a
    return smaller(a, b)
