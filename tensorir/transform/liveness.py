"""Liveness: the variables of a graph function that are needed after each of its bindings."""

from __future__ import annotations

from collections.abc import Iterator

from tensorir.nodes.node import Node
from tensorir.relax.expr import Binding, GraphVar, If, SeqExpr
from tensorir.relax.function import Function
from tensorir.rewriting.visit import walk


def used_vars(node: Node) -> Iterator[GraphVar]:
    """Yield the variables that an expression uses, those of an `if`'s branches included."""
    return (part for part in walk(node) if isinstance(part, GraphVar))


def live_after(func: Function) -> dict[Binding, frozenset[GraphVar]]:
    """Return for each binding the variables that are used on some path behind it.

    What follows a binding in one branch of an `if` is not behind those of the other branch.
    """
    found: dict[Binding, frozenset[GraphVar]] = {}
    _before(func.body, frozenset(), found)
    return found


def _before(
    node: SeqExpr, behind: frozenset[GraphVar], found: dict[Binding, frozenset[GraphVar]]
) -> frozenset[GraphVar]:
    """Return the variables that are needed before a sequence, given those behind it."""
    live = behind | frozenset(used_vars(node.body))
    for binding in reversed(node.bindings):
        live = live - {binding.var}
        found[binding] = live
        value = binding.value
        if isinstance(value, If):
            yes, no = (_before(b, live, found) for b in (value.true_branch, value.false_branch))
            live = yes | no | frozenset(used_vars(value.cond))
        else:
            live = live | frozenset(used_vars(value))
    return live
