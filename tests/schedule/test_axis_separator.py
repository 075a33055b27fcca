"""Where the physical dimensions of a buffer begin."""

from __future__ import annotations

import pytest

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
        "no ascending positions",
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
