"""The least sum of costs of nodes and edges."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from search.models.graph_tuner.layout_choice import least_cost

Nodes = list[list[float]]
Edges = dict[tuple[int, int], list[list[float]]]


def by_trying_all(nodes: Nodes, edges: Edges) -> float:
    return min(
        sum(costs[c] for costs, c in zip(nodes, choices, strict=True))
        + sum(costs[choices[u]][choices[v]] for (u, v), costs in edges.items())
        for choices in itertools.product(*(range(len(costs)) for costs in nodes))
    )


@st.composite
def graphs(draw: st.DrawFn, most_neighbours_before: int) -> tuple[Nodes, Edges]:
    """Draw a graph of nodes with so many edges to nodes before them, which are joined."""
    costs = st.sampled_from([0.0, 1.0, 2.0, 3.0, 5.0, 8.0, math.inf])
    nodes = draw(st.lists(st.lists(costs, min_size=1, max_size=3), min_size=1, max_size=6))
    edges: Edges = {}

    def join(u: int, v: int) -> None:
        row = st.lists(costs, min_size=len(nodes[v]), max_size=len(nodes[v]))
        edges[u, v] = draw(st.lists(row, min_size=len(nodes[u]), max_size=len(nodes[u])))

    for v in range(1, len(nodes)):
        before = draw(st.sets(st.integers(0, v - 1), max_size=most_neighbours_before))
        for u in sorted(before):
            join(u, v)
    return nodes, edges


def test_neighbours_that_agree_are_cheaper_than_the_cheapest_alone() -> None:
    differ = [[0, 5], [5, 0]]
    found = least_cost([[1, 2], [2, 1], [1, 4]], {(0, 1): differ, (1, 2): differ})
    assert found == ((0, 0, 0), 4.0, True)


def test_a_diamond_is_exact() -> None:
    differ = [[0, 9], [9, 0]]
    edges = {(0, 1): differ, (0, 2): differ, (1, 3): differ, (2, 3): differ}
    assert least_cost([[5, 0], [0, 1], [0, 1], [0, 6]], edges) == ((0, 0, 0, 0), 5.0, True)


def test_what_is_forbidden_is_not_chosen() -> None:
    never = math.inf
    found = least_cost([[0, 1], [0, 1]], {(0, 1): [[never, never], [never, 0]]})
    assert found == ((1, 1), 2.0, True)


def test_an_assignment_that_cannot_be_costs_infinitely_much() -> None:
    found = least_cost([[0, 1], [0]], {(0, 1): [[math.inf], [math.inf]]})
    assert found.cost == math.inf


def test_of_equal_alternatives_the_first_is_taken() -> None:
    assert least_cost([[1, 1, 1], [2, 2]], {}).choices == (0, 0)


def test_a_hub_with_one_alternative_does_not_make_it_a_guess() -> None:
    edges = {(0, v): [[0, 1]] for v in range(1, 5)}
    edges |= {(u, v): [[0, 2], [2, 0]] for u, v in itertools.combinations(range(1, 5), 2)}
    assert not least_cost([[0], *[[1, 0]] * 4], edges).exact
    ring = {edge: costs for edge, costs in edges.items() if edge not in ((1, 3), (2, 4))}
    assert least_cost([[0], *[[1, 0]] * 4], ring).exact


def test_a_complete_graph_is_guessed_and_says_so() -> None:
    differ = [[0, 1], [1, 0]]
    edges = dict.fromkeys(itertools.combinations(range(5), 2), differ)
    found = least_cost([[0, 3]] * 4 + [[1, 0]], edges)
    assert found == ((0, 0, 0, 0, 0), 1.0, False)


@settings(max_examples=150, deadline=None)
@given(graphs(most_neighbours_before=1))
def test_trees_are_exact(graph: tuple[Nodes, Edges]) -> None:
    found = least_cost(*graph)
    assert found.exact
    assert found.cost == by_trying_all(*graph)


@settings(max_examples=150, deadline=None)
@given(graphs(most_neighbours_before=5))
def test_what_is_called_exact_is_and_the_same_each_time(graph: tuple[Nodes, Edges]) -> None:
    found = least_cost(*graph)
    assert found == least_cost(*graph)
    least = by_trying_all(*graph)
    assert found.cost >= least
    if found.exact:
        assert found.cost == least


def test_arrays_are_not_changed() -> None:
    nodes = [np.array([1.0, 2.0]), np.array([3.0, 0.0])]
    edges = {(0, 1): np.array([[0.0, 1.0], [1.0, 0.0]])}
    least_cost(nodes, edges)
    assert nodes[1].tolist() == [3.0, 0.0]
    assert edges[0, 1].tolist() == [[0.0, 1.0], [1.0, 0.0]]
