"""The conditions under which blocks run."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tensorir.arith import Analyzer
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.ops import TRUE, conjuncts, is_const_int, logical_and
from tensorir.nodes.stmt import For
from tensorir.rewriting.visit import substitute, uses_var


def without_variables(predicate: PrimExpr, variables: Collection[Var]) -> PrimExpr:
    """Return the conjuncts of a predicate in which none of some variables occurs."""
    return divided_by_use(predicate, variables)[0]


def divided_by_use(predicate: PrimExpr, variables: Collection[Var]) -> tuple[PrimExpr, PrimExpr]:
    """Return the conjuncts of a predicate in which none of some variables occurs, and the rest."""
    if is_const_int(predicate, 1):
        return predicate, predicate
    without: PrimExpr = TRUE
    using: PrimExpr = TRUE
    for conjunct in conjuncts(predicate):
        if uses_var(conjunct, variables.__contains__):
            using = logical_and(using, conjunct)
        else:
            without = logical_and(without, conjunct)
    return without, using


def at_first_step(predicate: PrimExpr, reduction_loops: Sequence[For]) -> PrimExpr:
    """Return the predicate under which the init runs: reduction loops are at their first value."""
    first = {lp.loop_var: lp.min for lp in reduction_loops}
    analyzer = Analyzer()
    result: PrimExpr = TRUE
    for conjunct in reversed(conjuncts(predicate)):
        at_first = substitute(conjunct, first)
        if at_first is not conjunct:
            at_first = analyzer.simplify(at_first)
        result = logical_and(result, at_first)
    return result
