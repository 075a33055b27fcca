"""Graphs of a model that are read more than once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tensorir.frontend.onnx.limits import ImportLimits

_NODES_OF_ROUNDS: Final = 96
"""Nodes of all rounds of loops inside of one another that are read round by round."""


class Repeats:
    """Counts the nodes of graphs inside of nodes, and those that are read again.

    The rounds of short loops and the elements of sequences are read one by one, and the step of a
    loop again where its values change their shapes: nested loops can make a large program of a
    small graph.
    """

    def __init__(self, limits: ImportLimits) -> None:
        self._limits = limits
        self._inside: list[Any] = []
        """The nodes that are being read, each inside of the one before."""
        self._read: dict[tuple[int, ...], Any] = {}
        """The messages by whose identities a graph that was read is known."""
        self._changing: dict[tuple[int, ...], Any] = {}
        self._nodes = 0
        self._repeated = 0
        self._left_for_rounds = _NODES_OF_ROUNDS

    @contextmanager
    def node(self, proto: Any) -> Iterator[None]:
        """Read a node."""
        self._inside.append(proto)
        try:
            yield
        finally:
            self._inside.pop()

    def _key(self, *more: Any) -> tuple[int, ...]:
        return tuple(map(id, [*self._inside, *more]))

    def enter(self, graph: Any) -> None:
        """Count the nodes of a graph; ImportLimitError if they, or repeated ones, are too many."""
        count = 1 + len(graph.node)
        self._nodes += count
        self._limits.check("max_nodes", self._nodes, "the graphs inside of nodes have too many")
        key = self._key(graph)
        if key in self._read:
            self._repeated += count
            self._limits.check(
                "max_repeated_nodes",
                self._repeated,
                f"the graph {graph.name!r} of a loop or sequence is read again and again, and too "
                "many nodes are",
            )
        self._read[key] = (*self._inside, graph)

    def rounds(self, graph: Any) -> int:
        """Return the number of rounds of a graph that may be read one by one."""
        return self._left_for_rounds // _nodes_of(graph)

    @contextmanager
    def reading_rounds(self, count: int) -> Iterator[None]:
        """Read so many rounds one by one; fewer are left for each of the loops inside of them."""
        before = self._left_for_rounds
        self._left_for_rounds //= max(count, 1)
        try:
            yield
        finally:
            self._left_for_rounds = before

    def changing(self) -> dict[int, Any]:
        """Return what is known of the values that the loop of this node carries, to add to it.

        The step of a loop inside of another one is read anew with each reading of that, and begins
        with what it found before.
        """
        known: dict[int, Any] = self._changing.setdefault(self._key(), {})
        return known


def _nodes_of(graph: Any) -> int:
    """Return the number of nodes of a graph, with those of graphs inside of them; at least 1."""
    inner = [g for n in graph.node for a in n.attribute for g in [a.g, *a.graphs] if g.node]
    return max(1, len(graph.node) + sum(map(_nodes_of, inner)))
