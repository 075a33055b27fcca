"""Functions that never return, because every way through them calls one that does not."""

from __future__ import annotations

from collections.abc import Iterator

from tensorir.function import IRModule
from tensorir.nodes.expr import GlobalVar
from tensorir.relax.expr import GraphCall, If, SeqExpr
from tensorir.relax.function import graph_functions


def endless_chain(mod: IRModule) -> list[str]:
    """Return functions that call one another without end: `["f", "g", "f"]`; empty if none do.

    A call in one branch of an `If` may end by the other branch; what conditions say is not looked
    at.
    """
    functions = graph_functions(mod)
    endless = set(functions)
    """The functions of which it is not known yet that they may return."""
    while True:
        returning = {n for n in endless if _stuck(functions[n].body, endless) is None}
        if not returning:
            break
        endless -= returning
    if not endless:
        return []
    chain = [min(endless)]
    while chain.count(chain[-1]) < 2:
        callee = _stuck(functions[chain[-1]].body, endless)
        assert callee is not None
        chain.append(callee)
    return chain[chain.index(chain[-1]) :]


def _stuck(suite: SeqExpr, endless: set[str]) -> str | None:
    """Return one of the functions `endless` that a suite cannot avoid to call, None without one."""
    for call in _steps(suite):
        if isinstance(call, If):
            yes, no = (_stuck(b, endless) for b in (call.true_branch, call.false_branch))
            if yes is not None and no is not None:
                return yes
        elif isinstance(call.op, GlobalVar) and call.op.name in endless:
            return call.op.name
    return None


def _steps(suite: SeqExpr) -> Iterator[GraphCall | If]:
    for binding in suite.bindings:
        if isinstance(binding.value, (GraphCall, If)):
            yield binding.value
