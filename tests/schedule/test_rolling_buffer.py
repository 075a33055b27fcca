"""rolling_buffer: of what a window slides over, only the window itself is kept."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.transformation import apply, refused


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
