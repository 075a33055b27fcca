"""What the bindings of a graph function tell: variables in use, those still needed, tuples."""

from __future__ import annotations

from collections.abc import Iterator

from tensorir.nodes.node import Node
from tensorir.relax import expr as g
from tensorir.relax.function import Function
from tensorir.rewriting.visit import walk


def used_vars(node: Node) -> Iterator[g.GraphVar]:
    """Yield the variables that an expression uses, those of an `if`'s branches included."""
    return (part for part in walk(node) if isinstance(part, g.GraphVar))


def live_after(func: Function) -> dict[g.Binding, frozenset[g.GraphVar]]:
    """Return for each binding the variables that are used on some path behind it.

    What follows a binding in one branch of an `if` is not behind those of the other branch.
    """
    found: dict[g.Binding, frozenset[g.GraphVar]] = {}
    _before(func.body, frozenset(), found)
    return found


def _before(
    node: g.SeqExpr, behind: frozenset[g.GraphVar], found: dict[g.Binding, frozenset[g.GraphVar]]
) -> frozenset[g.GraphVar]:
    """Return the variables that are needed before a sequence, given those behind it."""
    live = behind | frozenset(used_vars(node.body))
    for binding in reversed(node.bindings):
        live = live - {binding.var}
        found[binding] = live
        value = binding.value
        if isinstance(value, g.If):
            yes, no = (_before(b, live, found) for b in (value.true_branch, value.false_branch))
            live = yes | no | frozenset(used_vars(value.cond))
        else:
            live = live | frozenset(used_vars(value))
    return live


class BuiltTuples:
    """The tuples that variables are bound to, as the bindings are gone through in order."""

    def __init__(self) -> None:
        self._tuples: dict[g.GraphVar, g.Tuple] = {}

    def bind(self, var: g.GraphVar, value: g.GraphExpr) -> None:
        """Note what a variable is bound to; only tuples and other names of them matter."""
        built = self.of(value)
        if built is not None:
            self._tuples[var] = built

    def of(self, value: g.GraphExpr) -> g.Tuple | None:
        """Return the tuple that a value is, None where its fields are not known."""
        if isinstance(value, g.GraphVar):
            return self._tuples.get(value)
        return value if isinstance(value, g.Tuple) else None

    def field(self, item: g.TupleGetItem) -> g.GraphExpr | None:
        """Return the value of a field of a tuple, None if it is not known."""
        built = self.of(item.tuple_value)
        return None if built is None else built.elements[item.index]
