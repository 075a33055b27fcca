"""Random expressions, and their values computed the plain way."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hypothesis import strategies as st

from tensorir import expr as e
from tensorir.expr import IntImm, PrimExpr, Var
from tensorir.ops import as_expr, max_, min_, truncdiv, truncmod

X, Y, Z = Var("x"), Var("y"), Var("z")


def _truncated_quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a >= 0) == (b >= 0) else -1)


_VALUES: dict[type, Callable[[Any, Any], Any]] = {
    e.Add: operator.add,
    e.Sub: operator.sub,
    e.Mul: operator.mul,
    e.FloorDiv: operator.floordiv,
    e.FloorMod: operator.mod,
    e.Div: _truncated_quotient,
    e.Mod: lambda a, b: a - _truncated_quotient(a, b) * b,
    e.Min: min,
    e.Max: max,
    e.LT: operator.lt,
    e.LE: operator.le,
    e.GT: operator.gt,
    e.GE: operator.ge,
    e.EQ: operator.eq,
    e.NE: operator.ne,
    e.And: lambda a, b: a and b,
    e.Or: lambda a, b: a or b,
}


def evaluate(node: PrimExpr, env: Mapping[Var, int]) -> int:
    """Return the value of an expression."""
    if isinstance(node, Var):
        return env[node]
    if isinstance(node, IntImm):
        return node.value
    if isinstance(node, e.Not):
        return not evaluate(node.a, env)
    if isinstance(node, e.Select):
        return evaluate(node.true_value if evaluate(node.condition, env) else node.false_value, env)
    assert isinstance(node, e.BinaryOp)
    return _VALUES[type(node)](evaluate(node.a, env), evaluate(node.b, env))


def points(domain: Mapping[Var, range]) -> Iterator[dict[Var, int]]:
    """Yield every assignment of values."""
    for values in itertools.product(*domain.values()):
        yield dict(zip(domain, values, strict=True))


_SMALL = st.integers(-9, 17)
_FACTORS = st.sampled_from([-4, -1, 1, 2, 3, 4, 6, 8])
_DIVISORS = st.sampled_from([1, 2, 3, 4, 6, 8, 16, -1, -2, -3, -8])
_LEAVES = st.one_of(st.sampled_from([X, Y, Z]), _SMALL.map(as_expr))


def _grow(children: st.SearchStrategy[PrimExpr]) -> st.SearchStrategy[PrimExpr]:
    return st.one_of(
        st.builds(operator.add, children, children),
        st.builds(operator.sub, children, children),
        st.builds(operator.mul, children, _FACTORS),
        st.builds(operator.floordiv, children, _DIVISORS),
        st.builds(operator.mod, children, _DIVISORS),
        st.builds(truncdiv, children, _DIVISORS),
        st.builds(truncmod, children, _DIVISORS),
        st.builds(min_, children, children),
        st.builds(max_, children, children),
    )


INDEX_EXPRESSIONS: st.SearchStrategy[PrimExpr] = st.recursive(_LEAVES, _grow, max_leaves=8)
"""Signed integer expressions over X, Y and Z."""

CONDITIONS: st.SearchStrategy[PrimExpr] = st.builds(
    lambda kind, a, b: kind(a, b),
    st.sampled_from([e.LT, e.LE, e.GT, e.GE, e.EQ, e.NE]),
    INDEX_EXPRESSIONS,
    INDEX_EXPRESSIONS,
)
"""Comparisons of such expressions."""

DOMAINS: st.SearchStrategy[dict[Var, range]] = st.fixed_dictionaries(
    {
        v: st.builds(
            lambda low, extent: range(low, low + extent),
            st.sampled_from([0, 0, 0, -3, 2]),
            st.integers(1, 8),
        )
        for v in (X, Y, Z)
    }
)
"""Small domains for X, Y and Z."""
