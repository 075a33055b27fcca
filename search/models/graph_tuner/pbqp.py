"""Partitioned boolean quadratic programming: the minimum sum of costs of nodes and of edges.

Each node has one of its alternatives. A vector of the node has the costs of its alternatives, and a
matrix of each edge has the costs of pairs of alternatives; infinite costs are forbidden.

A node with at most two neighbours is removed from the graph: for every choice of its neighbours the
best alternative is known, and its cost is added to the neighbour, or to an edge between both. A
node with one alternative is removed as well. This solves chains, trees and series-parallel graphs
exactly. In any other graph, the node with the most neighbours is decided by a heuristic (the rules
R0, R1, R2 and RN of Scholz and Eckstein).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from search.errors import TuningError

_Costs = NDArray[np.float64]


class Assignment(NamedTuple):
    """An alternative for every node, and the cost of all together."""

    choices: tuple[int, ...]
    cost: float
    """The sum of all costs; infinite if the choice is forbidden."""
    exact: bool
    """True if no assignment costs less; else the result is heuristic."""


def least_cost(
    nodes: Sequence[ArrayLike], edges: Mapping[tuple[int, int], ArrayLike]
) -> Assignment:
    """Return the assignment with the minimum sum of costs that the reductions find.

    `nodes[u]` has a cost for every alternative of node u, `edges[u, v]` for every pair, with those
    of u in rows. The first of equal alternatives is chosen. TuningError for a node without
    alternatives, an edge whose size differs from its nodes, and costs of NaN or minus infinity.
    """
    vectors = [_checked(costs, f"node {u}", None) for u, costs in enumerate(nodes)]
    matrices: dict[tuple[int, int], _Costs] = {}
    for (u, v), costs in edges.items():
        if u == v or not (0 <= u < len(vectors) and 0 <= v < len(vectors)):
            raise TuningError(f"edge {(u, v)} does not join two of the {len(vectors)} nodes")
        matrices[u, v] = _checked(costs, f"edge {(u, v)}", (vectors[u].size, vectors[v].size))
    choices, exact = _Reduction(vectors, matrices).solve()
    cost = sum(float(costs[choices[u]]) for u, costs in enumerate(vectors))
    cost += sum(float(costs[choices[u], choices[v]]) for (u, v), costs in matrices.items())
    return Assignment(tuple(choices), cost, exact)


def _checked(costs: ArrayLike, what: str, shape: tuple[int, int] | None) -> _Costs:
    array = np.array(costs, np.float64)
    if shape is None and (array.ndim != 1 or not array.size):
        raise TuningError(f"{what} needs a cost for each of its alternatives, got {costs!r}")
    if shape is not None and array.shape != shape:
        raise TuningError(f"{what} needs costs of shape {shape}, got shape {array.shape}")
    if not np.all(array > -math.inf):
        raise TuningError(f"{what} has a cost of NaN or minus infinity: {costs!r}")
    return array


class _Taken(NamedTuple):
    """A removed node, with its costs and edges at that time."""

    node: int
    costs: _Costs
    edges: dict[int, _Costs]


class _Reduction:
    def __init__(
        self, vectors: Sequence[_Costs], matrices: Mapping[tuple[int, int], _Costs]
    ) -> None:
        self._costs = {u: costs.copy() for u, costs in enumerate(vectors)}
        self._edges: dict[int, dict[int, _Costs]] = {u: {} for u in self._costs}
        """The neighbours of each node and their matrices, with its alternatives in rows."""
        for (u, v), costs in matrices.items():
            self._join(u, v, costs)

    def solve(self) -> tuple[list[int], bool]:
        """Return an alternative for every node, and True if no heuristic was used."""
        taken: list[_Taken] = []
        exact = True
        while self._costs:
            node = min(self._costs, key=lambda u: (self._difficulty(u), u))
            if self._difficulty(node) > 2:
                node = max(self._costs, key=lambda u: (len(self._edges[u]), -u))
                self._keep_only(node, self._guess(node))
                exact = False
            taken.append(self._take_out(node))
        choices = [0] * len(taken)
        for node, costs, edges in reversed(taken):
            total = costs + sum(matrix[:, choices[v]] for v, matrix in edges.items())
            choices[node] = int(np.argmin(total))
        return choices, exact

    def _difficulty(self, node: int) -> int:
        """Return the number of neighbours on which the choice for a node depends."""
        return len(self._edges[node]) if np.isfinite(self._costs[node]).sum() > 1 else 0

    def _guess(self, node: int) -> int:
        """Return the best alternative if each neighbour could choose independently."""
        total = self._costs[node].copy()
        for v, matrix in self._edges[node].items():
            total += (matrix + self._costs[v]).min(axis=1)
        return int(np.argmin(total))

    def _keep_only(self, node: int, choice: int) -> None:
        kept = np.full_like(self._costs[node], math.inf)
        kept[choice] = self._costs[node][choice]
        self._costs[node] = kept

    def _take_out(self, node: int) -> _Taken:
        """Remove a node, and add its minimum costs to its neighbours."""
        taken = _Taken(node, self._costs.pop(node), self._edges.pop(node))
        for v in taken.edges:
            del self._edges[v][node]
        choice = int(np.argmin(taken.costs))
        if np.isfinite(taken.costs).sum() <= 1:
            for v, matrix in taken.edges.items():
                self._costs[v] += matrix[choice]
        elif len(taken.edges) == 1:
            ((v, matrix),) = taken.edges.items()
            self._costs[v] += (taken.costs[:, None] + matrix).min(axis=0)
        elif len(taken.edges) == 2:
            (v, to_v), (w, to_w) = taken.edges.items()
            whole = taken.costs[:, None, None] + to_v[:, :, None] + to_w[:, None, :]
            self._join(v, w, whole.min(axis=0))
        return taken

    def _join(self, u: int, v: int, costs: _Costs) -> None:
        """Add costs to the edge between two nodes, or a new edge."""
        before = self._edges[u].get(v)
        total = costs if before is None else before + costs
        self._edges[u][v], self._edges[v][u] = total, total.T
