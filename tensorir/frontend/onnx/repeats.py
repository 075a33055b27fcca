"""Limits on reading the same graph of a model repeatedly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tensorir.frontend.onnx.limits import ImportLimits

_NODES_OF_ROUNDS: Final = 96
"""The maximum number of nodes in all unrolled rounds of nested loops."""


class Repeats:
    """Counts the nodes of subgraphs, and the nodes that are read again.

    Short loops are unrolled, sequences of known length are read element by element, and the step of
    a loop is read again if its values change their shapes. So nested loops can turn a small graph
    into a large program.
    """

    def __init__(self, limits: ImportLimits) -> None:
        self._limits = limits
        self._inside: list[Any] = []
        """The nodes that are being read, from the outermost to the innermost."""
        self._read: dict[tuple[int, ...], Any] = {}
        """The messages of each graph that was read, by their identities (keeps them alive)."""
        self._changing: dict[tuple[int, ...], Any] = {}
        self._nodes = 0
        self._repeated = 0
        self._left_for_rounds = _NODES_OF_ROUNDS

    @contextmanager
    def node(self, proto: Any) -> Iterator[None]:
        """Read a node in a `with` statement."""
        self._inside.append(proto)
        try:
            yield
        finally:
            self._inside.pop()

    def _key(self, *more: Any) -> tuple[int, ...]:
        return tuple(map(id, [*self._inside, *more]))

    def enter(self, graph: Any) -> None:
        """Count the nodes of a graph.

        Raises ImportLimitError for too many nodes or repeated nodes.
        """
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
        """Return the maximum number of rounds of a graph that may be unrolled."""
        return self._left_for_rounds // _nodes_of(graph)

    @contextmanager
    def reading_rounds(self, count: int) -> Iterator[None]:
        """Unroll `count` rounds of a loop; its inner loops share the remaining rounds."""
        before = self._left_for_rounds
        self._left_for_rounds //= max(count, 1)
        try:
            yield
        finally:
            self._left_for_rounds = before

    def changing(self) -> dict[int, Any]:
        """Return the recorded shape changes of the values that the loop of this node carries.

        An inner loop is read again with each reading of the outer loop, and starts with the changes
        found before. The caller adds new changes to the returned dictionary.
        """
        known: dict[int, Any] = self._changing.setdefault(self._key(), {})
        return known


def _nodes_of(graph: Any) -> int:
    """Return the number of nodes of a graph, including nested graphs; at least 1."""
    inner = [g for n in graph.node for a in n.attribute for g in [a.g, *a.graphs] if g.node]
    return max(1, len(graph.node) + sum(map(_nodes_of, inner)))
