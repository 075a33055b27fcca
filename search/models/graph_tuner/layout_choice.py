"""The layouts of a graph function that minimise the time of its kernels and transforms.

A node of the problem is a kernel with its candidates, or a tensor with the sets of layouts that it
may have. Vectors have the costs of the alternatives of nodes, matrices those of pairs, and infinite
costs are forbidden: a partitioned boolean quadratic problem.

A node with at most two neighbours is removed from the graph: for every choice of its neighbours the
best alternative is known, and its cost is added to the neighbour, or to an edge between both. A
node with one alternative is removed as well. This solves chains, trees and series-parallel graphs
exactly. In any other graph, the node with the most neighbours is decided by a heuristic (the rules
R0, R1, R2 and RN of Scholz and Eckstein).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, islice
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from search.models.graph_tuner.candidates import Candidate
from search.models.graph_tuner.kernel_graph import KernelCall, KernelGraph, Layout, Tensor
from tensorir.relax.expr import GraphVar

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
    of u in rows. The first of equal alternatives is chosen.
    """
    left = {u: np.array(costs, np.float64) for u, costs in enumerate(nodes)}
    near: dict[int, dict[int, _Costs]] = {u: {} for u in left}

    def join(u: int, v: int, costs: ArrayLike) -> None:
        total = near[u].get(v, 0.0) + np.asarray(costs, np.float64)
        near[u][v], near[v][u] = total, total.T

    def neighbours(u: int) -> int:
        """Return the number of neighbours on which the choice for a node depends."""
        return len(near[u]) if np.isfinite(left[u]).sum() > 1 else 0

    for (u, v), costs in edges.items():
        join(u, v, costs)
    removed: list[tuple[int, _Costs, dict[int, _Costs]]] = []
    exact = True
    while left:
        node = min(left, key=lambda u: (neighbours(u), u))
        if neighbours(node) > 2:
            # Decide for the best alternative if each neighbour could choose independently.
            node = max(left, key=lambda u: (len(near[u]), -u))
            total = left[node] + sum((m + left[v]).min(axis=1) for v, m in near[node].items())
            left[node][np.arange(len(total)) != np.argmin(total)] = math.inf
            exact = False
        count = neighbours(node)
        own, around = left.pop(node), near.pop(node)
        removed.append((node, own, around))
        for v in around:
            del near[v][node]
        if count == 0:
            for v, matrix in around.items():
                left[v] += matrix[int(np.argmin(own))]
        elif count == 1:
            ((v, matrix),) = around.items()
            left[v] += (own[:, None] + matrix).min(axis=0)
        else:
            (v, to_v), (w, to_w) = around.items()
            join(v, w, (own[:, None, None] + to_v[:, :, None] + to_w[:, None, :]).min(axis=0))
    choices = [0] * len(nodes)
    for node, own, around in reversed(removed):
        total = own + sum(matrix[:, choices[v]] for v, matrix in around.items())
        choices[node] = int(np.argmin(total))
    cost = sum(float(np.asarray(costs)[choices[u]]) for u, costs in enumerate(nodes))
    cost += sum(float(np.asarray(m)[choices[u], choices[v]]) for (u, v), m in edges.items())
    return Assignment(tuple(choices), cost, exact)


_MOST_SETS: Final = 256
"""The maximum number of sets of layouts that are considered for a tensor, small ones first."""

_NOISE: Final = 0.03
"""The relative noise of the time of a kernel between two measurements."""

TransformSeconds: TypeAlias = Callable[[Tensor, Layout, Layout], float]
"""The cost of transforming a tensor from a layout to a different one."""


@dataclass(frozen=True, eq=False)
class Timed:
    """A candidate with its seconds per call; None for a kernel that cannot be measured."""

    candidate: Candidate
    seconds: float | None

    @property
    def known_seconds(self) -> float:
        """The seconds, 0 if they are unknown, because then there is only one candidate."""
        return self.seconds or 0.0


@dataclass(frozen=True, eq=False)
class Choice:
    """A candidate of each kernel, and the layouts of each tensor."""

    kernels: dict[GraphVar, Timed]
    available: dict[GraphVar, tuple[Layout, ...]]
    exact: bool
    """True if no other choice costs less."""

    @property
    def kernel_seconds(self) -> float:
        """The sum of the kernels that were measured."""
        return sum(timed.known_seconds for timed in self.kernels.values())

    def transforms(self, graph: KernelGraph) -> Iterable[tuple[Tensor, Layout, Layout]]:
        """Yield the tensors that are transformed, each with the old and the new layout."""
        for var, layouts in self.available.items():
            tensor = graph.tensors[var]
            made = self.made_in(tensor)
            for layout in layouts:
                if layout != made:
                    yield tensor, made, layout

    def made_in(self, tensor: Tensor) -> Layout:
        """Return the layout of a tensor where it is produced."""
        if tensor.maker is None:
            return None
        return slot_layout(tensor.maker, self.kernels[tensor.var].candidate, tensor.maker.output)


def slot_layout(call: KernelCall, candidate: Candidate, position: int | None) -> Layout:
    """Return the layout of a candidate in a slot, None for other parameters."""
    if position not in call.slots:
        return None
    return candidate.layouts[call.slots.index(position)]


def fastest_of_each(candidates: Sequence[Candidate], seconds: Sequence[float]) -> list[Timed]:
    """Return the fastest candidate for each combination of layouts, all row-major first.

    The first candidate, which is row-major, comes before a faster row-major one. If no row-major
    candidate works, it is the only one, without a time. If only the first one fails, the fastest
    row-major candidate replaces it.
    """
    best: dict[tuple[Layout, ...], Timed] = {}
    for candidate, found in zip(candidates, seconds, strict=True):
        known = best.get(candidate.layouts)
        if found < math.inf and (known is None or found < known.known_seconds):
            best[candidate.layouts] = Timed(candidate, found)
    plain = candidates[0]
    if plain.layouts not in best:
        return [Timed(plain, None)]
    fastest = best.pop(plain.layouts)
    if fastest.candidate is plain or seconds[0] == math.inf:
        return [fastest, *best.values()]
    return [Timed(plain, seconds[0]), fastest, *best.values()]


def possible_transforms(
    graph: KernelGraph, kernels: Mapping[GraphVar, Sequence[Timed]]
) -> Iterable[tuple[Tensor, Layout, Layout]]:
    """Yield the transforms that a graph may need: tensor, old and new layout."""
    for tensor in graph.tensors.values():
        for made in dict.fromkeys(_layouts_written(tensor, kernels)):
            for layout in _layouts_read(tensor, kernels):
                if layout != made:
                    yield tensor, made, layout


def row_major(kernels: Mapping[GraphVar, Sequence[Timed]], graph: KernelGraph) -> Choice:
    """Return the choice with all tensors row-major."""
    chosen = {var: timed[0] for var, timed in kernels.items()}
    available: dict[GraphVar, tuple[Layout, ...]] = dict.fromkeys(graph.tensors, (None,))
    return Choice(chosen, available, exact=False)


def best_choice(
    graph: KernelGraph,
    kernels: Mapping[GraphVar, Sequence[Timed]],
    transform_seconds: TransformSeconds,
) -> Choice:
    """Return the choice with the minimum sum, or a good one (see `Choice.exact`).

    Kernels are nodes with their candidates as alternatives. A tensor is a node too. Its
    alternatives are the sets of layouts that it may have, so that a transform for several readers
    counts once. The edge between a tensor and its producer has the costs of transforms; an edge to
    a reader forbids the sets without the layout of the reader. Layouts other than row-major cost a
    little more than the measured time, so that noise does not decide between equal times.
    """
    vertices = {var: k for k, var in enumerate(kernels)}
    costs = [_costs(alternatives) for alternatives in kernels.values()]
    edges: dict[tuple[int, int], ArrayLike] = {}
    sets: dict[GraphVar, list[tuple[Layout, ...]]] = {}
    for tensor in graph.tensors.values():
        options = sets[tensor.var] = _layout_sets(tensor, _layouts_read(tensor, kernels))
        node = len(costs)
        makings = [
            [
                sum(transform_seconds(tensor, made, layout) for layout in option if layout != made)
                for option in options
            ]
            for made in _layouts_written(tensor, kernels)
        ]
        if tensor.maker is None:
            (alone,) = makings
            costs.append(alone)
        else:
            costs.append([0.0] * len(options))
            edges[vertices[tensor.var], node] = makings
        for reader, position in tensor.readers:
            matrix = [
                [
                    0.0 if slot_layout(reader, t.candidate, position) in option else math.inf
                    for option in options
                ]
                for t in kernels[reader.var]
            ]
            known = edges.get((vertices[reader.var], node))
            edges[vertices[reader.var], node] = matrix if known is None else np.add(known, matrix)
    found = least_cost(costs, edges)
    exact = found.exact and all(len(options) < _MOST_SETS for options in sets.values())
    plain = row_major(kernels, graph)
    if not exact and plain.kernel_seconds <= found.cost:
        return plain
    chosen = {var: kernels[var][found.choices[k]] for var, k in vertices.items()}
    picked = zip(sets, found.choices[len(kernels) :], strict=True)
    available = {var: sets[var][choice] for var, choice in picked}
    return Choice(chosen, available, exact)


def _costs(alternatives: Sequence[Timed]) -> list[float]:
    """Return the costs of the alternatives of a kernel, row-major first."""
    first, *others = (timed.known_seconds for timed in alternatives)
    return [first, *(seconds + _NOISE * first for seconds in others)]


def _layouts_written(tensor: Tensor, kernels: Mapping[GraphVar, Sequence[Timed]]) -> list[Layout]:
    """Return the layout in which each candidate of its producer writes a tensor."""
    call = tensor.maker
    if call is None:
        return [None]
    return [slot_layout(call, timed.candidate, call.output) for timed in kernels[call.var]]


def _layouts_read(tensor: Tensor, kernels: Mapping[GraphVar, Sequence[Timed]]) -> list[Layout]:
    """Return the layouts in which a tensor may be read."""
    found: dict[Layout, None] = {None: None} if tensor.used_otherwise else {}
    for reader, position in tensor.readers:
        for timed in kernels[reader.var]:
            found[slot_layout(reader, timed.candidate, position)] = None
    return list(found)


def _layout_sets(tensor: Tensor, layouts: Sequence[Layout]) -> list[tuple[Layout, ...]]:
    """Return the sets of layouts that a tensor may have, small ones first."""
    fixed: tuple[Layout, ...] = (None,) if tensor.used_otherwise else ()
    free = [layout for layout in layouts if layout not in fixed]
    most = min(len(free), len(tensor.readers))
    some = chain.from_iterable(combinations(free, size) for size in range(most + 1))
    return [(*fixed, *chosen) for chosen in islice(some, _MOST_SETS)]
