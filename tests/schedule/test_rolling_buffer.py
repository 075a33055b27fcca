"""rolling_buffer: of what a window slides over, only the window itself is kept."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.cases import program
from tests.schedule.transformation import apply, refused

LINE = program("LINE", "rolling_buffer")


def roll(block="B", index=0):
    return lambda sch: sch.rolling_buffer(block, index)


# ----------------------------------------------------------------------------------- the blocks around


@settings(max_examples=20)
@given(
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from([(6, 1), (3, 2), (2, 3)]),
    st.integers(0, 1),
)
def test_windows_compute_the_same(step, width, columns, tiles, depth):
    length = 5 * step + width
    text = f"""\
@T.prim_func
def main(A: T.Buffer(({length}, {columns})), C: T.Buffer((6, {columns}))):
    B = T.alloc_buffer(({length}, {columns}))
    for i, j in T.grid({length}, {columns}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j, r in T.grid(6, {columns}, {width}):
        with T.block("C"):
            vi, vj, vr = T.axis.remap("SSR", [i, j, r])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + B[vi * {step} + vr, vj]
"""
    rows = (tiles[1] - 1) * step + width
    moves = tiles[1] * step

    def call(sch):
        i, *_ = sch.get_loops(sch.get_block("C"))
        outer, _ = sch.split(i, tiles)
        sch.compute_at("B", outer if depth == 0 else sch.get_loops(sch.get_block("C"))[0])
        sch.rolling_buffer("B", 0)

    if rows <= moves:
        refused(text, call, "RollingBufferMatchError")
        return
    sch = apply(text, call)
    (buffer,) = sch.get(sch.get_block("root")).alloc_buffers
    assert [int(n) for n in buffer.shape] == [rows, columns]


@pytest.mark.parametrize("tiles", [([3, 2], [2, 3]), ([6, 1], [3, 2]), ([2, 3], [6, 1])])
@pytest.mark.parametrize(("down", "across"), [((1, 3), (1, 2)), ((2, 3), (1, 4)), ((1, 2), (3, 4))])
def test_windows_that_slide_in_two_dimensions_compute_the_same(tiles, down, across):
    (step, width), (stride, span) = down, across
    rows, columns = 5 * step + width, 5 * stride + span
    text = f"""\
@T.prim_func
def main(A: T.Buffer(({rows}, {columns})), C: T.Buffer((6, 6))):
    B = T.alloc_buffer(({rows}, {columns}))
    for i, j in T.grid({rows}, {columns}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j, r, s in T.grid(6, 6, {width}, {span}):
        with T.block("C"):
            vi, vj, vr, vs = T.axis.remap("SSRR", [i, j, r, s])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + B[vi * {step} + vr, vj * {stride} + vs]
"""

    def call(sch):
        i, j, _, _ = sch.get_loops(sch.get_block("C"))
        (i0, i1), (j0, j1) = sch.split(i, tiles[0]), sch.split(j, tiles[1])
        sch.reorder(i0, j0, i1, j1)
        sch.compute_at("B", j0)
        sch.rolling_buffer("B", 0)

    sch = apply(text, call)
    assert str(sch.get_sref(sch.get_block("B")).block_realize.predicate).count(" or ") == 2


# ------------------------------------------------------------------------------------------- refused


def window(bind="i + k", body="B[vb] = A[vb] * T.float32(2)", outer="for i in range(16):"):
    return (
        LINE.replace("i + k", bind)
        .replace("B[vb] = A[vb] * T.float32(2)", body)
        .replace("for i in range(16):", outer)
    )


SAME_PLACE = """\
@T.prim_func
def main(A: T.Buffer((3,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((3,))
    for i in range(16):
        for k in range(3):
            with T.block("B"):
                vb = T.axis.spatial(3, k)
                B[vb] = A[vb] * T.float32(2)
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[0] + B[2]
"""

NO_OVERLAP = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((16,))
    for i in range(8):
        for k in range(2):
            with T.block("B"):
                vb = T.axis.spatial(16, i * 2 + k)
                B[vb] = A[vb] * T.float32(2)
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi * 2] + B[vi * 2 + 1]
"""

DIAGONAL = """\
@T.prim_func
def main(A: T.Buffer((18, 18)), C: T.Buffer((16,))):
    B = T.alloc_buffer((18, 18))
    for i in range(16):
        for k, l in T.grid(3, 3):
            with T.block("B"):
                vb = T.axis.spatial(18, i + k)
                vd = T.axis.spatial(18, i + l)
                B[vb, vd] = A[vb, vd] * T.float32(2)
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi, vi] + B[vi + 2, vi]
"""

GROWING = """\
@T.prim_func
def main(A: T.Buffer((18,)), C: T.Buffer((9,))):
    B = T.alloc_buffer((18,))
    for i in range(9):
        for k in range(i + 2):
            with T.block("B"):
                vb = T.axis.spatial(18, i + k)
                B[vb] = A[vb] * T.float32(2)
        with T.block("C"):
            vi = T.axis.spatial(9, i)
            C[vi] = B[vi] + B[vi + 1]
"""


@pytest.mark.parametrize(
    ("before", "region", "reason"),
    [
        (SAME_PLACE, "0 to 2", "no dimension starts at a loop variable"),
        (
            window(outer="for i in T.parallel(16):"),
            "i to i + 2",
            "loop i is not serial from 0",
        ),
        (
            window("i + k - 1", outer="for i in range(1, 17):").replace(
                "spatial(16, i)", "spatial(16, i - 1)"
            ),
            "i - 1 to i + 1",
            "no dimension starts at a loop variable",
        ),
        (GROWING, "i to i * 2 + 1", "its extent along i is not constant"),
        (
            NO_OVERLAP,
            "i * 2 to i * 2 + 1",
            "the windows of two iterations of i do not overlap",
        ),
        (DIAGONAL, "i to i + 2, i to i + 2", "loop i moves other dimensions as well"),
    ],
)
def test_no_window(before, region, reason):
    words = (
        f"an iteration writes {region} of B, no dimension of which slides with overlap: {reason}"
    )
    refused(before, roll(), "RollingBufferMatchError", words, ["block B"])
