"""What a change of indices does, checked point by point."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedule.analysis.layout_map import analyze_layout
from tensorir.arith import Analyzer
from tensorir.errors import IRValueError
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.buffer import Range
from tensorir.nodes.ops import const
from tensorir.rewriting.visit import substitute


def at(expr, variables, point):
    values = {v: const(p, v.dtype) for v, p in zip(variables, point, strict=True)}
    return Analyzer().simplify(substitute(expr, values)).value


def check_point_by_point(function, extents):
    """Compare the analysis with the map's values at every point of the box."""
    index_map = IndexMap.from_func(function, len(extents), index_dtype="int32")
    layout = analyze_layout(index_map, [Range(const(n, "int32")) for n in extents])
    shape = [n.value for n in layout.shape]
    taken = {}
    for point in itertools.product(*map(range, extents)):
        place = tuple(at(f, index_map.initial_indices, point) for f in index_map.final_indices)
        assert all(0 <= p < n for p, n in zip(place, shape, strict=True))
        assert place not in taken
        taken[place] = point
    inverse = layout.inverse
    for place in itertools.product(*map(range, shape)):
        assert bool(at(layout.padding, inverse.initial_indices, place)) == (place not in taken)
        if place in taken:
            back = tuple(at(f, inverse.initial_indices, place) for f in inverse.final_indices)
            assert back == taken[place]
    return layout


@pytest.mark.parametrize(
    ("function", "extents", "padded"),
    [
        (lambda i: (i // 4, i % 4), [16], False),
        (lambda i: (i // 4, i % 4), [13], True),
        (lambda i: (i // 4, i % 4), [3], True),
        (lambda i: ((i + 2) // 4, (i + 2) % 4), [14], True),
        (lambda i: (i // 8, i // 4 % 2, i % 4), [13], True),
        (lambda i, j: (i // 4, j // 4, i % 4, j % 4), [7, 9], True),
        (lambda i, j: (j, i), [3, 5], False),
        (lambda i, j: (2 - i, j), [3, 5], False),
        (lambda i, j: ((i * 8 + j) // 5, (i * 8 + j) % 5), [4, 8], True),
        (lambda i, j: (i,), [8, 1], False),
        (lambda i, j: (i, j, 0), [3, 4], False),
    ],
)
def test_layouts(function, extents, padded):
    assert check_point_by_point(function, extents).has_padding is padded


@given(
    extent=st.integers(1, 20),
    factor=st.integers(1, 6),
    inner=st.integers(1, 3),
    shift=st.integers(0, 3),
)
def test_tilings(extent, factor, inner, shift):
    def function(i, j):
        k = i + shift
        return (k // factor, j, k % factor)

    try:
        check_point_by_point(function, [extent, inner])
    except IRValueError:
        assert shift


@pytest.mark.parametrize(
    ("function", "extents", "words"),
    [
        (lambda i: (i // 2,), [8], "one place"),
        (lambda i: (i % 4,), [8], "one place"),
        (lambda i, j: (i * 3 + j,), [4, 5], "one place"),
        (lambda i: (i + 3,), [8], "start at 3"),
        (lambda i: (i * 2,), [8], "scale 2"),
        (lambda i: (i * i,), [8], "multiplies iterators"),
    ],
)
def test_refused_maps(function, extents, words):
    with pytest.raises(IRValueError, match=words):
        check_point_by_point(function, extents)
