"""rolling_buffer: of what a window slides over, only the window itself is kept."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import Schedule
from tensorir import parse
from tensorir.nodes.expr import IterVar
from tests.schedule.transformation import apply, refused

LINE = """\
@T.prim_func
def main(A: T.Buffer((18,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((18,))
    for i in range(16):
        for k in range(3):
            with T.block("B"):
                vb = T.axis.spatial(18, i + k)
                B[vb] = A[vb] * T.float32(2)
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi] + B[vi + 1] + B[vi + 2]
"""

LINE_AFTER = """\
@T.prim_func
def main(A: T.Buffer((18,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((3,))
    for i in range(16):
        for k in range(3):
            with T.block("B"):
                vb = T.axis.opaque(18, i + k)
                T.where(i < 1 or 2 <= k)
                T.reads(A[vb])
                T.writes(B[vb % 3])
                B[vb % 3] = A[vb] * T.float32(2)
        with T.block("C"):
            vi = T.axis.opaque(16, i)
            C[vi] = B[vi % 3] + B[(vi + 1) % 3] + B[(vi + 2) % 3]
"""

IMAGE = """\
@T.prim_func
def main(A: T.Buffer((8, 8)), C: T.Buffer((6, 6))):
    B = T.alloc_buffer((8, 8))
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j, r, s in T.grid(6, 6, 3, 3):
        with T.block("C"):
            vi, vj, vr, vs = T.axis.remap("SSRR", [i, j, r, s])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + B[vi + vr, vj + vs]
"""


def roll(block="B", index=0):
    return lambda sch: sch.rolling_buffer(block, index)


def moved(depth, *before, consumer="C", block="B"):
    """Compute `block` at a loop of its consumer, then let it roll."""

    def call(sch):
        for change in before:
            change(sch)
        sch.compute_at(block, sch.get_loops(sch.get_block(consumer))[depth])
        sch.rolling_buffer(block, 0)

    return call


# ----------------------------------------------------------------------------------------- the window


def test_a_window_that_slides_by_one():
    apply(LINE, roll(), LINE_AFTER)


@pytest.mark.parametrize(
    ("step", "width", "overlap"), [(1, 2, 1), (2, 3, 1), (2, 5, 3), (3, 4, 1), (4, 7, 3)]
)
def test_a_window_that_slides_by_a_stride(step, width, overlap):
    length = (6 - 1) * step + width
    stride = f" * {step}" if step > 1 else ""
    before = f"""\
@T.prim_func
def main(A: T.Buffer(({length},)), C: T.Buffer((6,))):
    B = T.alloc_buffer(({length},))
    for i in range(6):
        for k in range({width}):
            with T.block("B"):
                vb = T.axis.spatial({length}, i{stride} + k)
                B[vb] = A[vb] * T.float32(2)
        for k in range({width}):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + B[vi{stride} + vk]
"""
    after = f"""\
@T.prim_func
def main(A: T.Buffer(({length},)), C: T.Buffer((6,))):
    B = T.alloc_buffer(({width},))
    for i in range(6):
        for k in range({width}):
            with T.block("B"):
                vb = T.axis.opaque({length}, i{stride} + k)
                T.where(i < 1 or {overlap} <= k)
                B[vb % {width}] = A[vb] * T.float32(2)
        for k in range({width}):
            with T.block("C"):
                vi = T.axis.opaque(6, i)
                vk = T.axis.reduce({width}, k)
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + B[(vi{stride} + vk) % {width}]
"""
    apply(before, roll(), after)


@pytest.mark.parametrize(
    ("start", "length", "width", "overlap"),
    [("i // 2", 6, 2, 1), ("i * 3 // 2", 16, 3, 1), ("i * 2 // 3", 8, 3, 2)],
)
def test_a_window_that_does_not_move_by_the_same_each_time(start, length, width, overlap):
    place = start.replace("i", "vi")
    reads = " + ".join(f"B[{place} + {k}]" for k in range(width)).replace(" + 0]", "]")
    before = f"""\
@T.prim_func
def main(A: T.Buffer(({length},)), C: T.Buffer((9,))):
    B = T.alloc_buffer(({length},))
    for i in range(9):
        for k in range({width}):
            with T.block("B"):
                vb = T.axis.spatial({length}, {start} + k)
                B[vb] = A[vb] * T.float32(2)
        with T.block("C"):
            vi = T.axis.spatial(9, i)
            T.reads(B[{place}:{place} + {width}])
            T.writes(C[vi])
            C[vi] = {reads}
"""
    rolled = " + ".join(f"B[({place} + {k}) % {width}]" for k in range(width)).replace(
        f"({place} + 0)", f"{place}" if "//" not in place else f"({place})"
    )
    after = f"""\
@T.prim_func
def main(A: T.Buffer(({length},)), C: T.Buffer((9,))):
    B = T.alloc_buffer(({width},))
    for i in range(9):
        for k in range({width}):
            with T.block("B"):
                vb = T.axis.opaque({length}, {start} + k)
                T.where(i < 1 or {overlap} <= k)
                B[vb % {width}] = A[vb] * T.float32(2)
        with T.block("C"):
            vi = T.axis.opaque(9, i)
            C[vi] = {rolled}
"""
    apply(before, roll(), after)


def test_rows_of_an_image():
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 8)), C: T.Buffer((6, 6))):
    B = T.alloc_buffer((3, 8))
    for i in range(6):
        for ax0, ax1 in T.grid(3, 8):
            with T.block("B"):
                vi = T.axis.opaque(8, i + ax0)
                vj = T.axis.spatial(8, ax1)
                T.where(i < 1 or 2 <= ax0)
                B[vi % 3, vj] = A[vi, vj] * T.float32(2)
        for j, r, s in T.grid(6, 3, 3):
            with T.block("C"):
                vi = T.axis.opaque(6, i)
                vj = T.axis.spatial(6, j)
                vr, vs = T.axis.remap("RR", [r, s])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + B[(vi + vr) % 3, vj + vs]
"""
    apply(IMAGE, moved(0), after)


def test_of_two_dimensions_that_slide_the_outermost_rolls():
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 8)), C: T.Buffer((6, 6))):
    B = T.alloc_buffer((3, 8))
    for i, j in T.grid(6, 6):
        for ax0, ax1 in T.grid(3, 3):
            with T.block("B"):
                vi = T.axis.opaque(8, i + ax0)
                vj = T.axis.opaque(8, j + ax1)
                T.where((i < 1 or 2 <= ax0) and (j < 1 or 2 <= ax1))
                B[vi % 3, vj] = A[vi, vj] * T.float32(2)
        for r, s in T.grid(3, 3):
            with T.block("C"):
                vi = T.axis.opaque(6, i)
                vj = T.axis.opaque(6, j)
                vr, vs = T.axis.remap("RR", [r, s])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + B[(vi + vr) % 3, vj + vs]
"""
    apply(IMAGE, moved(1), after)


def test_a_dimension_that_slides_in_an_outer_loop_is_computed_again():
    """Where the rows have rolled through in between, the columns of before are gone."""

    def columns_first(sch):
        i, j, _, _ = sch.get_loops(sch.get_block("C"))
        sch.reorder(j, i)

    sch = apply(IMAGE, moved(1, columns_first))
    predicate = sch.get_sref(sch.get_block("B")).block_realize.predicate
    assert str(predicate) == "i < 1 or 2 <= ax0"


def test_the_axes_that_index_what_slides_become_opaque():
    """Whatever their positions among the axes of the block."""

    def turned(sch):
        sch.reorder_block_iter_var("B", [1, 0])

    sch = apply(IMAGE, moved(0, turned))
    kinds = {axis.var.name: axis.iter_type for axis in sch.get(sch.get_block("B")).iter_vars}
    assert kinds["vi"] == IterVar.OPAQUE


def test_a_dimension_further_in_rolls_if_those_before_stand_still():
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 8)), C: T.Buffer((6, 6))):
    B = T.alloc_buffer((8, 3))
    for j in range(6):
        for ax0, ax1 in T.grid(8, 3):
            with T.block("B"):
                vi = T.axis.spatial(8, ax0)
                vj = T.axis.opaque(8, j + ax1)
                T.where(j < 1 or 2 <= ax1)
                B[vi, vj % 3] = A[vi, vj] * T.float32(2)
        for i, r, s in T.grid(6, 3, 3):
            with T.block("C"):
                vi = T.axis.spatial(6, i)
                vj = T.axis.opaque(6, j)
                vr, vs = T.axis.remap("RR", [r, s])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + B[vi + vr, (vj + vs) % 3]
"""

    def columns_first(sch):
        i, j, _, _ = sch.get_loops(sch.get_block("C"))
        sch.reorder(j, i)

    apply(IMAGE, moved(0, columns_first), after)


def test_a_window_of_tiles():
    def tiled(sch):
        i, *_ = sch.get_loops(sch.get_block("C"))
        sch.split(i, [3, 2])

    after = """\
@T.prim_func
def main(A: T.Buffer((8, 8)), C: T.Buffer((6, 6))):
    B = T.alloc_buffer((4, 8))
    for i_0 in range(3):
        for ax0, ax1 in T.grid(4, 8):
            with T.block("B"):
                vi = T.axis.opaque(8, i_0 * 2 + ax0)
                vj = T.axis.spatial(8, ax1)
                T.where(i_0 < 1 or 2 <= ax0)
                B[vi % 4, vj] = A[vi, vj] * T.float32(2)
        for i_1, j, r, s in T.grid(2, 6, 3, 3):
            with T.block("C"):
                vi = T.axis.opaque(6, i_0 * 2 + i_1)
                vj = T.axis.spatial(6, j)
                vr, vs = T.axis.remap("RR", [r, s])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + B[(vi + vr) % 4, vj + vs]
"""
    apply(IMAGE, moved(0, tiled), after)


def test_each_turn_of_an_outer_loop_starts_with_a_whole_window():
    before = """\
@T.prim_func
def main(A: T.Buffer((2, 8)), C: T.Buffer((2, 6))):
    B = T.alloc_buffer((2, 8))
    for n, i in T.grid(2, 6):
        for k in range(3):
            with T.block("B"):
                vn = T.axis.spatial(2, n)
                vb = T.axis.spatial(8, i + k)
                B[vn, vb] = A[vn, vb] * T.float32(2)
        with T.block("C"):
            vn, vi = T.axis.remap("SS", [n, i])
            C[vn, vi] = B[vn, vi] + B[vn, vi + 2]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((2, 8)), C: T.Buffer((2, 6))):
    B = T.alloc_buffer((2, 3))
    for n, i in T.grid(2, 6):
        for k in range(3):
            with T.block("B"):
                vn = T.axis.spatial(2, n)
                vb = T.axis.opaque(8, i + k)
                T.where(i < 1 or 2 <= k)
                B[vn, vb % 3] = A[vn, vb] * T.float32(2)
        with T.block("C"):
            vn = T.axis.spatial(2, n)
            vi = T.axis.opaque(6, i)
            C[vn, vi] = B[vn, vi % 3] + B[vn, (vi + 2) % 3]
"""
    apply(before, roll(), after)


# ----------------------------------------------------------------------------------- the blocks around


def test_several_consumers():
    before = """\
@T.prim_func
def main(A: T.Buffer((10,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    B = T.alloc_buffer((10,))
    for i in range(8):
        for k in range(3):
            with T.block("B"):
                vb = T.axis.spatial(10, i + k)
                B[vb] = A[vb] * T.float32(2)
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = B[vi + 2]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((10,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    B = T.alloc_buffer((3,))
    for i in range(8):
        for k in range(3):
            with T.block("B"):
                vb = T.axis.opaque(10, i + k)
                T.where(i < 1 or 2 <= k)
                B[vb % 3] = A[vb] * T.float32(2)
        with T.block("C"):
            vi = T.axis.opaque(8, i)
            C[vi] = B[vi % 3]
        with T.block("D"):
            vi = T.axis.opaque(8, i)
            D[vi] = B[(vi + 2) % 3]
"""
    apply(before, roll(), after)


def test_axes_at_the_position_become_opaque_in_other_blocks_too():
    before = LINE.replace("C: T.Buffer((16,))", "C: T.Buffer((16,)), E: T.Buffer((4, 2))")
    before += """\
    for e, f in T.grid(4, 2):
        with T.block("E"):
            ve, vf = T.axis.remap("SS", [e, f])
            E[ve, vf] = T.float32(0)
"""
    after = LINE_AFTER.replace("C: T.Buffer((16,))", "C: T.Buffer((16,)), E: T.Buffer((4, 2))")
    after += """\
    for e, f in T.grid(4, 2):
        with T.block("E"):
            ve = T.axis.opaque(4, e)
            vf = T.axis.spatial(2, f)
            E[ve, vf] = T.float32(0)
"""
    apply(before, roll(), after)


def test_a_predicate_of_the_block_stays():
    def tiled(sch):
        i, *_ = sch.get_loops(sch.get_block("C"))
        sch.split(i, [None, 4])

    after = """\
@T.prim_func
def main(A: T.Buffer((8, 8)), C: T.Buffer((6, 6))):
    B = T.alloc_buffer((6, 8))
    for i_0 in range(2):
        for ax0, ax1 in T.grid(6, 8):
            with T.block("B"):
                vi = T.axis.opaque(8, i_0 * 4 + ax0)
                vj = T.axis.spatial(8, ax1)
                T.where(i_0 * 4 + ax0 < 8 and (i_0 < 1 or 2 <= ax0))
                B[vi % 6, vj] = A[vi, vj] * T.float32(2)
        for i_1, j, r, s in T.grid(4, 6, 3, 3):
            with T.block("C"):
                vi = T.axis.opaque(6, i_0 * 4 + i_1)
                vj = T.axis.spatial(6, j)
                vr, vs = T.axis.remap("RR", [r, s])
                T.where(i_0 * 4 + i_1 < 6)
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + B[(vi + vr) % 6, vj + vs]
"""
    apply(IMAGE, moved(0, tiled), after)


def test_a_reduction_that_fills_the_window():
    before = LINE.replace("A: T.Buffer((18,))", "A: T.Buffer((18, 5))").replace(
        """\
            with T.block("B"):
                vb = T.axis.spatial(18, i + k)
                B[vb] = A[vb] * T.float32(2)
""",
        """\
            for r in range(5):
                with T.block("B"):
                    vb = T.axis.spatial(18, i + k)
                    vr = T.axis.reduce(5, r)
                    with T.init():
                        B[vb] = T.float32(0)
                    B[vb] = B[vb] + A[vb, vr]
""",
    )
    after = LINE_AFTER.replace("A: T.Buffer((18,))", "A: T.Buffer((18, 5))").replace(
        """\
            with T.block("B"):
                vb = T.axis.opaque(18, i + k)
                T.where(i < 1 or 2 <= k)
                T.reads(A[vb])
                T.writes(B[vb % 3])
                B[vb % 3] = A[vb] * T.float32(2)
""",
        """\
            for r in range(5):
                with T.block("B"):
                    vb = T.axis.opaque(18, i + k)
                    vr = T.axis.reduce(5, r)
                    T.where(i < 1 or 2 <= k)
                    with T.init():
                        B[vb % 3] = T.float32(0)
                    B[vb % 3] = B[vb % 3] + A[vb, vr]
""",
    )
    apply(before, roll(), after)


def test_one_of_two_buffers():
    before = """\
@T.prim_func
def main(A: T.Buffer((10,)), C: T.Buffer((8,))):
    M = T.alloc_buffer((10,))
    N = T.alloc_buffer((10,))
    for i in range(8):
        for k in range(3):
            with T.block("both"):
                vb = T.axis.spatial(10, i + k)
                T.reads(A[vb])
                T.writes(M[vb], N[vb])
                M[vb] = A[vb] * T.float32(2)
                N[vb] = A[vb] * T.float32(3)
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = M[vi] + N[vi + 2]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((10,)), C: T.Buffer((8,))):
    M = T.alloc_buffer((10,))
    N = T.alloc_buffer((3,))
    for i in range(8):
        for k in range(3):
            with T.block("both"):
                vb = T.axis.opaque(10, i + k)
                T.where(i < 1 or 2 <= k)
                T.reads(A[vb])
                T.writes(M[vb], N[vb % 3])
                M[vb] = A[vb] * T.float32(2)
                N[vb % 3] = A[vb] * T.float32(3)
        with T.block("C"):
            vi = T.axis.opaque(8, i)
            C[vi] = M[vi] + N[(vi + 2) % 3]
"""
    apply(before, roll("both", 1), after)
    apply(before, roll("both", "N"), after)


def test_a_chain_of_windows():
    before = """\
@T.prim_func
def main(A: T.Buffer((12,)), D: T.Buffer((8,))):
    B = T.alloc_buffer((12,))
    C = T.alloc_buffer((10,))
    for i in range(12):
        with T.block("B"):
            vi = T.axis.spatial(12, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(10):
        with T.block("C"):
            vi = T.axis.spatial(10, i)
            C[vi] = B[vi] + B[vi + 2]
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = C[vi] * C[vi + 2]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((12,)), D: T.Buffer((8,))):
    B = T.alloc_buffer((5,))
    C = T.alloc_buffer((3,))
    for i in range(8):
        for ax0 in range(5):
            with T.block("B"):
                vi = T.axis.opaque(12, i + ax0)
                T.where(i < 1 or 4 <= ax0)
                B[vi % 5] = A[vi] * T.float32(2)
        for ax0 in range(3):
            with T.block("C"):
                vi = T.axis.opaque(10, i + ax0)
                T.where(i < 1 or 2 <= ax0)
                C[vi % 3] = B[vi % 5] + B[(vi + 2) % 5]
        with T.block("D"):
            vi = T.axis.opaque(8, i)
            D[vi] = C[vi % 3] * C[(vi + 2) % 3]
"""

    def roll(first, second):
        def call(sch):
            loop = sch.get_loops(sch.get_block("D"))[0]
            sch.compute_at("C", loop)
            sch.compute_at("B", loop)
            sch.rolling_buffer(first, 0)
            sch.rolling_buffer(second, 0)

        return call

    apply(before, roll("B", "C"), after)
    apply(before, roll("C", "B"), after)
    refused(before, roll("B", "B"), "NotStagePipelineError")


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


# --------------------------------------------------------------------------------- handles and trace


def test_handles():
    sch = Schedule(parse(LINE), debug_mask="all")
    producer, consumer = sch.get_block("B"), sch.get_block("C")
    loops = sch.get_loops(producer)
    sch.rolling_buffer(producer, 0)
    assert sch.get(producer).name_hint == "B"
    assert sch.get(consumer).name_hint == "C"
    assert [sch.get(loop).loop_var.name for loop in loops] == ["i", "k"]


def test_trace():
    sch = apply(LINE, roll(), LINE_AFTER)
    assert sch.trace.as_python() == [
        'b0 = sch.get_block(name="B", func_name="main")',
        "sch.rolling_buffer(block=b0, write_buffer_index=0)",
    ]
    assert sch.trace.as_json() == [
        [
            ["GetBlock", [], ["B", "main"], ["b0"]],
            ["RollingBuffer", ["b0"], [0], []],
        ],
        [],
    ]


# ------------------------------------------------------------------------------------------- refused


def window(bind="i + k", body="B[vb] = A[vb] * T.float32(2)", outer="for i in range(16):"):
    return (
        LINE.replace("i + k", bind)
        .replace("B[vb] = A[vb] * T.float32(2)", body)
        .replace("for i in range(16):", outer)
    )


APART = """\
@T.prim_func
def main(A: T.Buffer((18,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((18,))
    for i in range(18):
        with T.block("B"):
            vi = T.axis.spatial(18, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi] + B[vi + 2]
"""

UNUSED = """\
@T.prim_func
def main(A: T.Buffer((18,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((18,))
    for i in range(18):
        with T.block("B"):
            vi = T.axis.spatial(18, i)
            B[vi] = A[vi] * T.float32(2)
"""

TWO_WRITERS = LINE.replace(
    """\
        with T.block("C"):
""",
    """\
        for k in range(3):
            with T.block("again"):
                vb = T.axis.spatial(18, i + k)
                B[vb] = A[vb]
        with T.block("C"):
""",
)

CONTINUES = window(body="B[vb] = B[vb] + A[vb]")

OVERWRITES = (
    LINE
    + """\
    for i in range(18):
        with T.block("A"):
            vi = T.axis.spatial(18, i)
            A[vi] = T.float32(0)
"""
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

THROUGH_A_VIEW = LINE.replace(
    """\
            C[vi] = B[vi] + B[vi + 1] + B[vi + 2]
""",
    """\
            T.reads(B[vi:vi + 3])
            T.writes(C[vi])
            V = T.match_buffer(B[vi:vi + 3], (3,), offset_factor=1)
            C[vi] = V[0] + V[2]
""",
)

BY_TURN = LINE.replace("i + k)\n", "i + k)\n                vx = T.axis.spatial(16, i)\n").replace(
    "T.float32(2)", 'T.Cast("float32", vx)'
)

REUSED = """\
@T.prim_func
def main(A: T.Buffer((18, 4)), C: T.Buffer((16, 4))):
    B = T.alloc_buffer((18,))
    for i, j in T.grid(16, 4):
        for k in range(3):
            with T.block("B"):
                vb = T.axis.spatial(18, i + k)
                vj = T.axis.spatial(4, j)
                B[vb] = A[vb, vj] * T.float32(2)
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi] + B[vi + 1] + B[vi + 2]
"""

FROM_A_SCALAR = (
    LINE.replace(
        """\
        for k in range(3):
            with T.block("B"):
""",
        """\
        with T.block("X"):
            vx = T.axis.spatial(16, i)
            X[0] = A[vx]
        for k in range(3):
            with T.block("B"):
""",
    )
    .replace("A[vb] * T.float32(2)", "A[vb] * X[0]")
    .replace("    for i in", "    X = T.alloc_buffer((1,))\n    for i in")
)


@pytest.mark.parametrize(
    ("before", "call", "code", "words", "marked"),
    [
        (
            LINE,
            roll("B", 1),
            "BufferIndexOutOfRangeError",
            '`buffer_index` is 1, but block "B" has 1 write region(s)',
            ["block B"],
        ),
        (LINE, roll("B", -1), "BufferIndexOutOfRangeError", "count from 0", ["block B"]),
        (LINE, roll("root"), "RootBlockError", "root block", ["block root"]),
        (
            OVERWRITES,
            roll(),
            "NotStagePipelineError",
            'block "A" overwrites A, which block "B" reads before',
            ["block root", "block A"],
        ),
        (LINE, roll("C"), "OutputBlockError", 'block "C" is an output block', ["block C"]),
        (
            TWO_WRITERS,
            roll(),
            "RollingBufferDependencyError",
            'B cannot roll: block "again" does not only read elements that block "B" has written',
            ["block B", "block again"],
        ),
        (
            CONTINUES,
            roll(),
            "RollingBufferDependencyError",
            'B cannot roll: block "B" does not only read elements that block "B" has written',
            ["block B", "block B"],
        ),
        (
            APART,
            roll(),
            "RollingBufferInsertionError",
            'block "B" and its consumers have no common loop',
            ["block B"],
        ),
        (
            UNUSED,
            roll(),
            "RollingBufferInsertionError",
            "no common loop along which a window slides",
            ["block B"],
        ),
        (
            THROUGH_A_VIEW,
            roll(),
            "OpaqueAccessError",
            'B has an opaque access in block "root"',
            ["block root"],
        ),
        (
            BY_TURN,
            roll(),
            "StaleValueError",
            'in block "B", axis vx = `i` decides what is stored in B, but not where',
            ["block B", "block B"],
        ),
        (
            REUSED,
            roll(),
            "StaleValueError",
            'in block "B", axis vj = `j` decides what is stored in B, but not where',
            ["block B", "block B"],
        ),
        (
            FROM_A_SCALAR,
            roll(),
            "StaleValueError",
            'in block "X", axis vx = `i` decides what is stored in X, but not where',
            ["block B", "block X"],
        ),
        (
            FROM_A_SCALAR.replace("X[0] = A[vx]", "X[0] = X[0] + T.float32(1)").replace(
                "            vx = T.axis.spatial(16, i)\n", ""
            ),
            roll(),
            "StaleValueError",
            'in block "X", the value stored in X depends on the previous one',
            ["block B", "block X"],
        ),
    ],
)
def test_refused(before, call, code, words, marked):
    refused(before, call, code, words, marked)


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


def test_a_window_that_is_not_indexed_by_an_axis_alone():
    before = LINE.replace(
        """\
                vb = T.axis.spatial(18, i + k)
                B[vb] = A[vb] * T.float32(2)
""",
        """\
                vi = T.axis.spatial(16, i)
                vk = T.axis.spatial(3, k)
                B[vi + vk] = A[vi + vk] * T.float32(2)
""",
    )
    words = "dimension 0 is not indexed by an axis of the block alone"
    refused(before, roll(), "RollingBufferMatchError", words, ["block B"])


def test_a_condition_that_is_another_one_in_each_iteration():
    before = LINE.replace("range(3)", "range(4)").replace(
        "i + k)\n", "i + k)\n                T.where(k < 3)\n"
    )
    words = 'in block "B", the condition `k < 3` is not the same for an element in each iteration'
    refused(before, roll(), "StaleValueError", words, ["block B", "block B"])


def test_a_buffer_that_the_block_only_reads():
    sch = Schedule(parse(LINE))
    with pytest.raises(ValueError, match="names a buffer that the block reads"):
        sch.rolling_buffer("B", "A")
