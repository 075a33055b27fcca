"""Random expressions, and their values computed the plain way."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Mapping
from typing import Any

from hypothesis import strategies as st

from tensorir.nodes import expr as e
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.ops import as_expr, max_, min_, truncdiv, truncmod
from tensorir.rewriting.visit import children
from tensorir.semantics import convert, operation

X, Y, Z = Var("x"), Var("y"), Var("z")


def evaluate(node: PrimExpr, env: Mapping[Var, int]) -> Any:
    """Return the value of an expression; IRValueError for a division by 0."""
    kind = type(node)
    if kind is Var:
        return env[node]  # type: ignore[index]
    if kind is IntImm:
        return node.value  # type: ignore[attr-defined]
    if isinstance(node, e.Let):
        return evaluate(node.body, {**env, node.var: evaluate(node.value, env)})
    if isinstance(node, e.Cast):
        return convert(evaluate(node.value, env), node.value.dtype, node.dtype)
    if isinstance(node, e.Call):
        name = node.op.short_name
        if name == "if_then_else":
            condition, yes, no = node.args
            return evaluate(yes if evaluate(condition, env) else no, env)
        return operation(name, node.dtype)(*[evaluate(a, env) for a in node.args])
    parts = children(node)
    return operation(kind, parts[-1].dtype)(*[evaluate(p, env) for p in parts])


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
