"""Facts from the bindings of a graph function: used variables, live variables, tuples."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from tensorir.nodes.node import Node
from tensorir.relax import expr as g
from tensorir.relax.function import Function
from tensorir.rewriting.visit import walk


def used_vars(node: Node) -> Iterator[g.GraphVar]:
    """Yield the variables that an expression uses, those of an `if`'s branches included."""
    return (part for part in walk(node) if isinstance(part, g.GraphVar))


def leaves_of(value: Node) -> list[Node]:
    """Return the leaves of a value, in order."""
    if isinstance(value, g.Tuple):
        return [leaf for part in value.elements for leaf in leaves_of(part)]
    return [value]


class Uses:
    """The variables that are used on some path after a binding.

    Bindings are numbered in order. What follows one in a branch of an `if` is not behind those of
    the other branch.
    """

    def __init__(self, func: Function) -> None:
        self._points: dict[g.GraphVar, list[int]] = {}
        """The points at which a variable is used, in order."""
        self._behind: dict[g.Binding, int] = {}
        """The first point behind a binding."""
        self._apart: dict[g.Binding, tuple[range, ...]] = {}
        """The points behind a binding on no path from it, in order."""
        self._next = 0
        self._sequence(func.body)

    def are_behind(self, binding: g.Binding, variables: Iterable[g.GraphVar]) -> bool:
        """Say whether one of the variables is used behind a binding."""
        start, apart = self._behind[binding], self._apart[binding]
        return any(self._is_used(self._points.get(var, ()), start, apart) for var in variables)

    @staticmethod
    def _is_used(points: Sequence[int], start: int, apart: tuple[range, ...]) -> bool:
        found = bisect_left(points, start)
        for skipped in apart:
            if found < len(points) and points[found] in skipped:
                found = bisect_left(points, skipped.stop)
        return found < len(points)

    def _use(self, node: Node) -> None:
        for var in used_vars(node):
            self._points.setdefault(var, []).append(self._next)
        self._next += 1

    def _sequence(self, node: g.SeqExpr) -> list[g.Binding]:
        """Number a sequence; return its bindings, also those of branches."""
        found: list[g.Binding] = []
        for binding in node.bindings:
            value = binding.value
            self._apart[binding] = ()
            if isinstance(value, g.If):
                self._use(value.cond)
                inner = self._sequence(value.true_branch)
                start = self._next
                found += self._sequence(value.false_branch)
                apart = range(start, self._next)
                for one in inner:
                    self._apart[one] = (*self._apart[one], apart)
                found += inner
            else:
                self._use(value)
            self._behind[binding] = self._next
            found.append(binding)
        self._use(node.body)
        return found


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
