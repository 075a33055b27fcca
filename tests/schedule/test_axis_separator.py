"""Where the physical dimensions of a buffer begin."""

from __future__ import annotations

import pytest

from tensorir import IndexMap, assert_structural_equal
from tests.schedule.transformation import apply, refused

BEFORE = """\
@T.prim_func
def main(A: T.Buffer((4, 3)), C: T.Buffer((4, 3))):
    B = T.alloc_buffer((4, 3))
    for i, j in T.grid(4, 3):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for i, j in T.grid(4, 3):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj]
"""


@pytest.mark.parametrize("buffer", ["B", ("write", 0), 1])
def test_intermediate_buffer(buffer):
    after = BEFORE.replace("alloc_buffer((4, 3))", "alloc_buffer((4, 3), axis_separators=[1])")
    sch = apply(BEFORE, lambda s: s.set_axis_separator("B", buffer, [1]), after)
    line = 'sch.set_axis_separator(block=b0, buffer=("write", 0), axis_separators=[1])'
    assert sch.trace.as_python()[-1] == line


def test_parameter():
    after = BEFORE.replace("C: T.Buffer((4, 3))", "C: T.Buffer((4, 3), axis_separators=[1])")
    apply(BEFORE, lambda s: s.set_axis_separator("C", "C", [1]), after)


def test_none_takes_them_away():
    before = BEFORE.replace("alloc_buffer((4, 3))", "alloc_buffer((4, 3), axis_separators=[1])")
    apply(before, lambda s: s.set_axis_separator("C", "B", None), BEFORE)


@pytest.mark.parametrize("separators", [[2, 1], [1, 1], [3], [-1]])
def test_impossible_positions_are_refused(separators):
    refused(
        BEFORE,
        lambda s: s.set_axis_separator("B", "B", separators),
        "InvalidAxisSeparatorError",
        "must be ascending positions",
    )


def test_views_are_refused():
    before = """\
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))):
    for i in range(8):
        with T.block("outer"):
            vi = T.axis.spatial(8, i)
            V = T.match_buffer(A[vi, 0:8], (8,), offset_factor=1)
            for j in range(8):
                with T.block("inner"):
                    vj = T.axis.spatial(8, j)
                    B[vi, vj] = V[vj]
"""
    refused(before, lambda s: s.set_axis_separator("inner", "V", [0]), "BufferIsSubregionError")


VIEWS = """\
@T.prim_func
def main(A: T.Buffer((4, 6, 8)), C: T.Buffer((4, 6, 8))):
    B = T.alloc_buffer((4, 6, 8))
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            V = T.match_buffer(B[vi, 0:6, 0:8], (6, 8), offset_factor=1)
            for j, k in T.grid(6, 8):
                with T.block("inner"):
                    vj, vk = T.axis.remap("SS", [j, k])
                    W = T.match_buffer(V[vj, vk], (), offset_factor=1)
                    W[()] = A[vi, vj, vk]
    for i, j, k in T.grid(4, 6, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            C[vi, vj, vk] = B[vi, vj, vk]
"""


@pytest.mark.parametrize(
    ("separators", "view", "element"), [([2], [1], [0]), ([1], [0], [0]), ([1, 2], [0, 1], [0, 0])]
)
def test_views_are_divided_where_the_buffer_is(separators, view, element):
    after = (
        VIEWS.replace(
            "alloc_buffer((4, 6, 8)", f"alloc_buffer((4, 6, 8), axis_separators={separators}"
        )
        .replace("(6, 8), offset_factor=1", f"(6, 8), offset_factor=1, axis_separators={view}")
        .replace("(), offset_factor=1", f"(), offset_factor=1, axis_separators={element}")
    )
    apply(VIEWS, lambda s: s.set_axis_separator("C", "B", separators), after)


def test_a_layout_that_only_divides_the_buffer_keeps_its_views():
    def call(sch):
        sch.transform_layout("C", "B", lambda i, j, k: (i, IndexMap.AXIS_SEPARATOR, j, k))

    sch = apply(VIEWS, call)
    divided = apply(VIEWS, lambda s: s.set_axis_separator("C", "B", [1]))
    assert_structural_equal(sch.mod, divided.mod)
