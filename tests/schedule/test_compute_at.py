"""compute_at: a producer moves below a loop of its consumers."""

from __future__ import annotations

import pytest

from schedule import LoopRV, Schedule
from tensorir import assert_structural_equal, parse
from tests.schedule.programs import COPY, MATMUL_RELU, OVERWRITES
from tests.schedule.transformation import apply, refused

SHIFTED = """\
@T.prim_func
def main(A: T.Buffer((8, 9)), C: T.Buffer((8, 8))):
    B = T.alloc_buffer((8, 9))
    for i, j in T.grid(8, 9):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for x, y in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [x, y])
            C[vi, vj] = B[vi, vj] + B[vi, vj + 1]
"""

SIBLINGS = """\
@T.prim_func
def main(A: T.Buffer((8,)), X: T.Buffer((8,)), Y: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)
    for x in range(8):
        with T.block("X"):
            vi = T.axis.spatial(8, x)
            X[vi] = A[vi]
        with T.block("Y"):
            vi = T.axis.spatial(8, x)
            Y[vi] = A[vi] * T.float32(3)
        with T.block("C"):
            vi = T.axis.spatial(8, x)
            C[vi] = B[vi] * T.float32(2)
"""


def at(block, target, depth, *args, **options):
    """Compute a block at a loop of another one, counted from outside."""
    return lambda sch: sch.compute_at(block, sch.get_loops(target)[depth], *args, **options)


def loop_names(sch, block):
    return [sch.get(loop).loop_var.name for loop in sch.get_loops(block)]


# ------------------------------------------------------------------------------ instances computed


def test_what_an_iteration_of_the_consumer_reads_is_computed_there():
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 9)), C: T.Buffer((8, 8))):
    B = T.alloc_buffer((8, 9))
    for x in range(8):
        for ax0 in range(9):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [x, ax0])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for y in range(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [x, y])
                C[vi, vj] = B[vi, vj] + B[vi, vj + 1]
"""
    apply(SHIFTED, at("B", "C", 0), after)


def test_a_producer_of_no_elements_moves_with_its_loops():
    before = """\
@T.prim_func
def main(A: T.Buffer((8, 1)), C: T.Buffer((8, 0))):
    B = T.alloc_buffer((8, 0))
    for i, j in T.grid(8, 0):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for x, y in T.grid(8, 0):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [x, y])
            C[vi, vj] = B[vi, vj] + T.float32(1)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 1)), C: T.Buffer((8, 0))):
    B = T.alloc_buffer((8, 0))
    for x in range(8):
        for ax0 in range(0):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [x, ax0])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for y in range(0):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [x, y])
                C[vi, vj] = B[vi, vj] + T.float32(1)
"""
    apply(before, at("B", "C", 0), after)


def test_below_the_innermost_loop_elements_are_computed_repeatedly():
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 9)), C: T.Buffer((8, 8))):
    B = T.alloc_buffer((8, 9))
    for x, y in T.grid(8, 8):
        for ax0 in range(2):
            with T.block("B"):
                vi = T.axis.spatial(8, x)
                vj = T.axis.spatial(9, y + ax0)
                B[vi, vj] = A[vi, vj] * T.float32(2)
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [x, y])
            C[vi, vj] = B[vi, vj] + B[vi, vj + 1]
"""
    apply(SHIFTED, at("B", "C", 1), after)


def test_loops_of_extent_1_are_kept_if_asked_for():
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 9)), C: T.Buffer((8, 8))):
    B = T.alloc_buffer((8, 9))
    for x in range(8):
        for ax0, ax1 in T.grid(1, 9):
            with T.block("B"):
                vi = T.axis.spatial(8, x + ax0)
                vj = T.axis.spatial(9, ax1)
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for y in range(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [x, y])
                C[vi, vj] = B[vi, vj] + B[vi, vj + 1]
"""
    apply(SHIFTED, at("B", "C", 0, preserve_unit_loops=True), after)


def test_reduction_axes_run_over_all_their_values():
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 5)), W: T.Buffer((5, 6)), R: T.Buffer((8, 6))):
    M = T.alloc_buffer((8, 6))
    for x in range(8):
        for ax0, ax1 in T.grid(6, 5):
            with T.block("M"):
                vi, vj, vk = T.axis.remap("SSR", [x, ax0, ax1])
                with T.init():
                    M[vi, vj] = T.float32(0)
                M[vi, vj] = M[vi, vj] + A[vi, vk] * W[vk, vj]
        for y in range(6):
            with T.block("R"):
                vi, vj = T.axis.remap("SS", [x, y])
                R[vi, vj] = T.max(M[vi, vj], T.float32(0))
"""
    apply(MATMUL_RELU, at("M", "R", 0), after)


def test_a_tile_of_the_consumer():
    after = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((16,))
    for x_0 in range(4):
        for ax0 in range(4):
            with T.block("B"):
                vi = T.axis.spatial(16, x_0 * 4 + ax0)
                B[vi] = A[vi] + T.float32(1)
        for x_1 in range(4):
            with T.block("C"):
                vi = T.axis.spatial(16, x_0 * 4 + x_1)
                C[vi] = B[vi] * T.float32(2)
"""

    def call(sch):
        outer, _ = sch.split(sch.get_loops("C")[0], [4, None])
        sch.compute_at("B", outer)

    apply(COPY, call, after)


def test_tiles_that_do_not_divide_get_a_predicate():
    after = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((16,))
    for x_0 in range(4):
        for ax0 in range(5):
            with T.block("B"):
                vi = T.axis.spatial(16, x_0 * 5 + ax0)
                T.where(x_0 * 5 + ax0 < 16)
                B[vi] = A[vi] + T.float32(1)
        for x_1 in range(5):
            with T.block("C"):
                vi = T.axis.spatial(16, x_0 * 5 + x_1)
                T.where(x_0 * 5 + x_1 < 16)
                C[vi] = B[vi] * T.float32(2)
"""

    def call(sch):
        outer, _ = sch.split(sch.get_loops("C")[0], [None, 5])
        sch.compute_at("B", outer)

    apply(COPY, call, after)


def test_reads_beyond_both_ends_get_a_predicate():
    before = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((10,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)
    for x in range(10):
        with T.block("C"):
            vi = T.axis.spatial(10, x)
            T.reads(B[vi - 1])
            T.writes(C[vi])
            C[vi] = T.if_then_else(1 <= vi and vi < 9, B[vi - 1], T.float32(0))
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((10,))):
    B = T.alloc_buffer((8,))
    for x in range(10):
        with T.block("B"):
            vi = T.axis.spatial(8, x - 1)
            T.where(1 <= x and x < 9)
            B[vi] = A[vi] + T.float32(1)
        with T.block("C"):
            vi = T.axis.spatial(10, x)
            T.reads(B[vi - 1])
            T.writes(C[vi])
            C[vi] = T.if_then_else(1 <= vi and vi < 9, B[vi - 1], T.float32(0))
"""
    apply(before, at("B", "C", 0), after)


def test_a_reversed_access():
    before = COPY.replace("C[vi] = B[vi]", "C[vi] = B[15 - vi]")
    after = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((16,))
    for x in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, 15 - x)
            B[vi] = A[vi] + T.float32(1)
        with T.block("C"):
            vi = T.axis.spatial(16, x)
            C[vi] = B[15 - vi] * T.float32(2)
"""
    apply(before, at("B", "C", 0), after)


def test_a_producer_that_stores_in_another_layout():
    before = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((4, 4))):
    B = T.alloc_buffer((4, 4))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi // 4, vi % 4] = A[vi]
    for x, y in T.grid(4, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [x, y])
            C[vi, vj] = B[vi, vj] + T.float32(1)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((4, 4))):
    B = T.alloc_buffer((4, 4))
    for x in range(4):
        for ax0 in range(4):
            with T.block("B"):
                vi = T.axis.spatial(16, x * 4 + ax0)
                B[vi // 4, vi % 4] = A[vi]
        for y in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [x, y])
                C[vi, vj] = B[vi, vj] + T.float32(1)
"""
    apply(before, at("B", "C", 0), after)


def test_a_producer_of_two_elements_an_instance():
    before = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((4, 4))):
    B = T.alloc_buffer((16,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi * 2:vi * 2 + 2])
            T.writes(B[vi * 2:vi * 2 + 2])
            for e in range(2):
                B[vi * 2 + e] = A[vi * 2 + e]
    for x, y in T.grid(4, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [x, y])
            C[vi, vj] = B[vi * 4 + vj] + T.float32(1)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((4, 4))):
    B = T.alloc_buffer((16,))
    for x in range(4):
        for ax0 in range(2):
            with T.block("B"):
                vi = T.axis.spatial(8, x * 2 + ax0)
                T.reads(A[vi * 2:vi * 2 + 2])
                T.writes(B[vi * 2:vi * 2 + 2])
                for e in range(2):
                    B[vi * 2 + e] = A[vi * 2 + e]
        for y in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [x, y])
                C[vi, vj] = B[vi * 4 + vj] + T.float32(1)
"""
    apply(before, at("B", "C", 0), after)


def test_two_consumers_get_what_either_reads():
    before = """\
@T.prim_func
def main(A: T.Buffer((9,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    B = T.alloc_buffer((9,))
    for i in range(9):
        with T.block("B"):
            vi = T.axis.spatial(9, i)
            B[vi] = A[vi] + T.float32(1)
    for x in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, x)
            C[vi] = B[vi]
        with T.block("D"):
            vi = T.axis.spatial(8, x)
            D[vi] = B[vi + 1]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((9,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    B = T.alloc_buffer((9,))
    for x in range(8):
        for ax0 in range(2):
            with T.block("B"):
                vi = T.axis.spatial(9, x + ax0)
                B[vi] = A[vi] + T.float32(1)
        with T.block("C"):
            vi = T.axis.spatial(8, x)
            C[vi] = B[vi]
        with T.block("D"):
            vi = T.axis.spatial(8, x)
            D[vi] = B[vi + 1]
"""
    apply(before, at("B", "C", 0), after)


def test_loops_of_extent_1_around_do_not_show_in_bindings():
    after = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((16,))
    for x_0, x_1 in T.grid(1, 16):
        with T.block("B"):
            vi = T.axis.spatial(16, x_1)
            B[vi] = A[vi] + T.float32(1)
        with T.block("C"):
            vi = T.axis.spatial(16, x_0 * 16 + x_1)
            C[vi] = B[vi] * T.float32(2)
"""

    def call(sch):
        _, inner = sch.split(sch.get_loops("C")[0], [1, 16])
        sch.compute_at("B", inner)

    apply(COPY, call, after)


def test_what_threads_share_is_computed_for_all_of_them():
    before = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((16,), scope="shared")
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + T.float32(1)
    for x in T.thread_binding(2, thread="blockIdx.x"):
        for y in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("C"):
                vi = T.axis.spatial(16, x * 8 + y)
                C[vi] = B[vi] * T.float32(2)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((16,), scope="shared")
    for x in T.thread_binding(2, thread="blockIdx.x"):
        for y in T.thread_binding(8, thread="threadIdx.x"):
            for ax0 in range(8):
                with T.block("B"):
                    vi = T.axis.spatial(16, x * 8 + ax0)
                    B[vi] = A[vi] + T.float32(1)
            with T.block("C"):
                vi = T.axis.spatial(16, x * 8 + y)
                C[vi] = B[vi] * T.float32(2)
"""
    apply(before, at("B", "C", 1), after)


def test_64_bit_loops():
    before = COPY.replace("16", "T.int64(16)")
    after = """\
@T.prim_func
def main(A: T.Buffer((T.int64(16),)), C: T.Buffer((T.int64(16),))):
    B = T.alloc_buffer((T.int64(16),))
    for x_0 in range(T.int64(4)):
        for ax0 in range(T.int64(4)):
            with T.block("B"):
                vi = T.axis.spatial(T.int64(16), x_0 * T.int64(4) + ax0)
                B[vi] = A[vi] + T.float32(1)
        for x_1 in range(T.int64(4)):
            with T.block("C"):
                vi = T.axis.spatial(T.int64(16), x_0 * T.int64(4) + x_1)
                C[vi] = B[vi] * T.float32(2)
"""

    def call(sch):
        outer, _ = sch.split(sch.get_loops("C")[0], [4, 4])
        sch.compute_at("B", outer)

    apply(before, call, after)


def test_the_block_keeps_its_annotations_and_loses_its_predicate():
    before = """\
@T.prim_func
def main(A: T.Buffer((7,)), C: T.Buffer((7,))):
    B = T.alloc_buffer((7,))
    for i_0, i_1 in T.grid(2, 4):
        with T.block("B"):
            vi = T.axis.spatial(7, i_0 * 4 + i_1)
            T.where(i_0 * 4 + i_1 < 7)
            T.block_attr({"tag": 1})
            B[vi] = A[vi] + T.float32(1)
    for x in range(7):
        with T.block("C"):
            vi = T.axis.spatial(7, x)
            C[vi] = B[vi]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((7,)), C: T.Buffer((7,))):
    B = T.alloc_buffer((7,))
    for x in range(7):
        with T.block("B"):
            vi = T.axis.spatial(7, x)
            T.block_attr({"tag": 1})
            B[vi] = A[vi] + T.float32(1)
        with T.block("C"):
            vi = T.axis.spatial(7, x)
            C[vi] = B[vi]
"""
    apply(before, at("B", "C", 0), after)


def test_loops_that_hold_another_block_stay():
    before = """\
@T.prim_func
def main(A: T.Buffer((4, 4)), D: T.Buffer((4, 4)), C: T.Buffer((4, 4))):
    B = T.alloc_buffer((4, 4))
    for i in range(4):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        for j in range(4):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = A[vi, vj]
    for x, y in T.grid(4, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [x, y])
            C[vi, vj] = B[vi, vj]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((4, 4)), D: T.Buffer((4, 4)), C: T.Buffer((4, 4))):
    B = T.alloc_buffer((4, 4))
    for i, j in T.grid(4, 4):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = A[vi, vj]
    for x, y in T.grid(4, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [x, y])
            B[vi, vj] = A[vi, vj]
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [x, y])
            C[vi, vj] = B[vi, vj]
"""
    apply(before, at("B", "C", 1), after)


# -------------------------------------------------------------------------------- place in the loop


@pytest.mark.parametrize(
    ("index", "order"),
    [(-1, "XYBC"), (-2, "BXYC"), (0, "BXYC"), (1, "XBYC"), (2, "XYBC")],
)
def test_place_among_the_statements_of_the_loop(index, order):
    parts = {
        "B": "B[vi] = A[vi] + T.float32(1)",
        "X": "X[vi] = A[vi]",
        "Y": "Y[vi] = A[vi] * T.float32(3)",
        "C": "C[vi] = B[vi] * T.float32(2)",
    }
    after = """\
@T.prim_func
def main(A: T.Buffer((8,)), X: T.Buffer((8,)), Y: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for x in range(8):
"""
    for name in order:
        after += f"""\
        with T.block("{name}"):
            vi = T.axis.spatial(8, x)
            {parts[name]}
"""
    apply(SIBLINGS, at("B", "C", 0, index=index), after)


# ---------------------------------------------------------------------------------- special targets


def test_the_root_mark_leaves_the_program_as_it_is():
    def call(sch):
        block = sch.get_block("B")
        sch.compute_at(block, sch.sample_compute_location(block, decision=-1))

    sch = apply(COPY, call, COPY)
    assert len(sch.trace.insts) == 3


def test_the_inline_mark_inlines():
    def call(sch):
        block = sch.get_block("B")
        sch.compute_at(block, sch.sample_compute_location(block, decision=-2))

    inlined = Schedule(parse(COPY))
    inlined.compute_inline("B")
    sch = apply(COPY, call)
    assert_structural_equal(sch.mod, inlined.mod)
    sch = Schedule(parse(COPY))
    sch.compute_at("B", LoopRV.inline_rv())
    assert_structural_equal(sch.mod, inlined.mod)


# ------------------------------------------------------------------------------------------ handles


def test_handles():
    sch = Schedule(parse(SHIFTED), debug_mask="all")
    block, (x, _) = sch.get_block("B"), sch.get_loops("C")
    old = sch.get_loops(block)
    sch.compute_at(block, x)
    assert sch.get(block).name_hint == "B"
    assert loop_names(sch, block) == ["x", "ax0"]
    assert sch.get_sref(x) is sch.get_sref(sch.get_loops(block)[0])
    for loop in old:
        with pytest.raises(ValueError, match="compute-at replaced it"):
            sch.get(loop)
    sch.vectorize(sch.get_loops(block)[1])


def test_trace():
    sch = apply(SHIFTED, at("B", "C", 0, True, -2))
    assert sch.trace.as_python() == [
        'b0 = sch.get_block(name="C", func_name="main")',
        "l1, l2 = sch.get_loops(block=b0)",
        'b3 = sch.get_block(name="B", func_name="main")',
        "sch.compute_at(block=b3, loop=l1, preserve_unit_loops=True, index=-2)",
    ]
    assert sch.trace.as_json() == [
        [
            ["GetBlock", [], ["C", "main"], ["b0"]],
            ["GetLoops", ["b0"], [], ["l1", "l2"]],
            ["GetBlock", [], ["B", "main"], ["b3"]],
            ["ComputeAt", ["b3", "l1"], [1, -2], []],
        ],
        [],
    ]
    sch = apply(SHIFTED, at("B", "C", 0))
    assert sch.trace.as_json()[0][-1] == ["ComputeAt", ["b3", "l1"], [0, -1], []]


# ------------------------------------------------------------------------------------------ refused

PARTLY_WRITTEN = COPY.replace("for i in range(16)", "for i in range(8)")

READS_ITSELF = COPY.replace("B[vi] = A[vi] + T.float32(1)", "B[vi] = B[vi] + A[vi]")

NESTED_CONSUMER = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi]
    for x in range(4):
        with T.block("C"):
            vx = T.axis.spatial(4, x)
            T.reads(B[vx * 4:vx * 4 + 4])
            T.writes(C[vx * 4:vx * 4 + 4])
            for y in range(4):
                with T.block("C_inner"):
                    vy = T.axis.spatial(4, y)
                    T.reads(B[vx * 4 + vy])
                    T.writes(C[vx * 4 + vy])
                    C[vx * 4 + vy] = B[vx * 4 + vy]
"""

OTHER_CONSUMERS = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,)), D: T.Buffer((8,)), E: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for x in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, x)
            C[vi] = B[vi]
    for y in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, y)
            D[vi] = B[vi]
    for z in range(8):
        with T.block("E"):
            vi = T.axis.spatial(8, z)
            E[vi] = B[vi]
"""

UNREAD = """\
@T.prim_func
def main(A: T.Buffer((8,)), X: T.Buffer((8,))):
    P = T.alloc_buffer((8,))
    B = T.alloc_buffer((8,))
    for x in range(8):
        with T.block("X"):
            vi = T.axis.spatial(8, x)
            X[vi] = A[vi]
    for p in range(8):
        with T.block("P"):
            vi = T.axis.spatial(8, p)
            P[vi] = A[vi]
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = P[vi]
"""

ALONE = """\
@T.prim_func
def main(A: T.Buffer((8,))):
    X = T.alloc_buffer((8,))
    B = T.alloc_buffer((8,))
    for x in range(8):
        with T.block("X"):
            vi = T.axis.spatial(8, x)
            X[vi] = A[vi]
        T.evaluate(T.call_extern("int32", "tick"))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = X[vi]
"""

OFF_BY_ONE = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((18,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi * 2:vi * 2 + 2])
            T.writes(B[vi * 2 + 1:vi * 2 + 3])
            for e in range(2):
                B[vi * 2 + 1 + e] = A[vi * 2 + e]
    for x in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, x)
            C[vi] = B[vi + 1]
"""

SUMS = """\
@T.prim_func
def main(A: T.Buffer((4, 8)), C: T.Buffer((4, 8))):
    B = T.alloc_buffer((4,))
    for i, k in T.grid(4, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
    for x, y in T.grid(4, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [x, y])
            C[vi, vj] = A[vi, vj] - B[vi]
"""


def at_the_loop_of_a_removed_block(sch):
    (x,) = sch.get_loops("X")
    sch.compute_inline("X")
    sch.compute_at("B", x)


def below_itself(sch):
    block = sch.get_block("B")
    sch.compute_at(block, sch.get_loops(block)[0])


@pytest.mark.parametrize(
    ("before", "call", "code", "words", "marked"),
    [
        (COPY, at("root", "C", 0), "RootBlockError", "root block", ["block root"]),
        (
            OVERWRITES,
            at("B", "C", 0),
            "NotStagePipelineError",
            'block "A" overwrites A, which block "B" reads before',
            ["block root", "block A"],
        ),
        (
            PARTLY_WRITTEN,
            at("B", "C", 0),
            "NotStagePipelineError",
            'block "C" reads more than its producers write',
            ["block root", "block C"],
        ),
        (
            READS_ITSELF,
            at("B", "C", 0),
            "NotCompleteOrReductionBlockError",
            "violates condition #3) nor a reduction block (it violates condition #1)",
            ["block B"],
        ),
        (
            NESTED_CONSUMER,
            at("B", "C_inner", 0),
            "NotInSameScopeError",
            "not in the same block scope",
            ["block B", "loop y"],
        ),
        (COPY, below_itself, "NotInSameScopeError", "ancestor of block", ["block B", "loop i"]),
        (COPY, at("C", "B", 0), "OutputBlockError", "writes C", ["block C"]),
        (
            ALONE,
            at_the_loop_of_a_removed_block,
            "OnlyLeafError",
            "only leaf",
            ["block B", "block root"],
        ),
        (
            SIBLINGS,
            at("B", "C", 0, index=3),
            "InvalidInsertionIndexError",
            "3 is not in the valid range [0, 2]",
            ["block B", "loop x"],
        ),
        (
            SIBLINGS,
            at("B", "C", 0, index=-3),
            "InvalidInsertionIndexError",
            "-3 is not in the valid range [0, 2]",
            ["block B", "loop x"],
        ),
        (
            OTHER_CONSUMERS,
            at("B", "C", 0),
            "NotAllRequiredBlocksAreVisitedError",
            'requires all the consumer(s) of block "B" to be under loop `x`, but these are not: '
            "D, E",
            ["block B", "loop x"],
        ),
        (
            UNREAD,
            at("B", "X", 0),
            "DependencyOrderError",
            "wrong side",
            ["block B", "loop x", "block P"],
        ),
        (
            OFF_BY_ONE,
            at("B", "C", 0),
            "DomainNotSolvableError",
            "the index `vi * 2 + 1`",
            ["block B", "loop x"],
        ),
    ],
)
def test_refused(before, call, code, words, marked):
    refused(before, call, code, words, marked)


@pytest.mark.parametrize("change", ["parallel", "vectorize"])
def test_loops_that_run_at_the_same_time_may_hold_a_whole_reduction(change):
    def call(sch):
        x, y = sch.get_loops("C")
        getattr(sch, change)(y)
        sch.compute_at("B", x)
        sch.compute_at("B", y)

    sch = apply(SUMS, call)
    assert loop_names(sch, "B") == ["x", "y", "ax0"]


@pytest.mark.parametrize(
    ("block", "loop", "words"),
    [
        (3, None, r"Schedule\.compute_at: `block` takes a BlockRV or the name of a block"),
        ("B", "x", r"Schedule\.compute_at: `loop` takes a LoopRV, got str"),
    ],
)
def test_arguments_of_another_type(block, loop, words):
    sch = Schedule(parse(COPY))
    with pytest.raises(TypeError, match=words):
        sch.compute_at(block, loop)
    assert not sch.trace.insts


def test_without_checks_the_scope_need_not_be_a_stage_pipeline():
    sch = Schedule(parse(OVERWRITES), enable_check=False)
    sch.compute_at("B", sch.get_loops("C")[0])
    assert loop_names(sch, "B") == ["x"]


OVERLAPPING = """
@T.prim_func
def main(A: T.Buffer((9,)), C: T.Buffer((9,))):
    B = T.alloc_buffer((9,))
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi * 2 : vi * 2 + 3])
            T.writes(B[vi * 2 : vi * 2 + 3])
            T.block_attr({"schedule.any_order": True})
            for k in range(3):
                B[vi * 2 + k] = A[vi * 2 + k]
    for i in range(9):
        with T.block("C"):
            vi = T.axis.spatial(9, i)
            C[vi] = B[vi]
"""


def test_instances_that_overlap_may_not_be_cut_off():
    # Element 8 would be computed by the instance 4, which there is not; 3 computes it, too.
    refused(
        OVERLAPPING,
        lambda s: s.compute_at("B", s.get_loops("C")[0]),
        "DomainNotSolvableError",
        "may lie outside of those there are, 0 to 3",
        marked=["block B", "loop i"],
    )


ROW_SUMS = """
@T.prim_func
def main(A: T.Buffer((4, 6)), D: T.Buffer((4,))):
    C = T.alloc_buffer((4,))
    for i, k in T.grid(4, 12):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            vk = T.axis.reduce(6, k // 2)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
    for i in range(4):
        with T.block("D"):
            vi = T.axis.spatial(4, i)
            D[vi] = C[vi]
"""


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (ROW_SUMS, "its bindings may give the same steps several times"),
        (
            ROW_SUMS.replace("i, k in T.grid(4, 12)", "i, k, r in T.grid(4, 6, 2)").replace(
                "k // 2", "k"
            ),
            "loop `r` runs the same steps several times",
        ),
    ],
)
def test_a_reduction_that_repeats_its_steps_stays(before, words):
    refused(
        before,
        lambda s: s.compute_at("C", s.get_loops("D")[0]),
        "RepeatedReductionError",
        "here, the steps of its reduction do not each run once with the initialising step "
        "first, because " + words,
        marked=["block C", "loop i"],
    )


PART_OF_A_SUM = """
@T.prim_func
def main(A: T.Buffer((4, 6)), D: T.Buffer((4,))):
    C = T.alloc_buffer((4,))
    for i, k in T.grid(4, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(k < 5)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
    for i in range(4):
        with T.block("D"):
            vi = T.axis.spatial(4, i)
            D[vi] = C[vi]
"""


def test_steps_that_a_predicate_leaves_out_do_not_come_back():
    refused(
        PART_OF_A_SUM,
        lambda s: s.compute_at("C", s.get_loops("D")[0]),
        "LeftOutInstancesError",
        "may leave out values of its axis vk",
        marked=["block C", "loop i"],
    )


def test_a_sum_that_takes_all_its_steps_may_have_a_predicate():
    def call(sch):
        sch.split(sch.get_loops("C")[1], [None, 4])
        sch.compute_at("C", sch.get_loops("D")[0])

    apply(PART_OF_A_SUM.replace("            T.where(k < 5)\n", ""), call)


UNDER_A_CONDITION = """
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        if i < 5:
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi]
"""


def test_a_producer_comes_before_the_condition_around_its_consumer():
    after = """
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
        if i < 5:
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi]
"""
    apply(UNDER_A_CONDITION, lambda s: s.compute_at("B", s.get_loops("C")[0]), after)


TWO_READERS = """
@T.prim_func
def main(A: T.Buffer((4, 6)), C: T.Buffer((4, 3)), D: T.Buffer((4, 3))):
    B = T.alloc_buffer((4, 6))
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for i in range(4):
        for j in range(3):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj]
        for j in range(3):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = B[vi, vj + 3]
"""


def test_a_reader_that_declares_nothing_may_need_the_whole_buffer():
    """The pieces of a partitioned loop stand in a block that says nothing of what they touch."""

    def call(sch):
        sch.loop_partition(sch.get_loops("D")[1], [1, None])
        sch.compute_at("B", sch.get_loops("C")[0])
        assert [int(sch.get(loop).extent) for loop in sch.get_loops("B")] == [4, 4, 6]

    apply(TWO_READERS, call)


GROUPED = """\
@T.prim_func
def main(A: T.Buffer((8, 64)), W: T.Buffer((32, 32)), C: T.Buffer((8, 32))):
    P = T.alloc_buffer((8, 64))
    for i, j in T.grid(8, 64):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = A[vi, vj] * T.float32(2)
    for i, g, r in T.grid(8, 32, 32):
        with T.block("C"):
            vi, vg, vr = T.axis.remap("SSR", [i, g, r])
            with T.init():
                C[vi, vg] = T.float32(0)
            C[vi, vg] = C[vi, vg] + P[vi, vg // 16 * 32 + vr] * W[vg, vr]
"""


def test_below_fused_loops_only_what_one_iteration_reads_is_computed():
    """The inner fused loop stays in one group: `(i_1_g_1_fused % 4 * 4 + g_2) // 16` is 0."""

    def call(sch):
        i, g, r = sch.get_loops("C")
        i_0, i_1 = sch.split(i, [4, 2])
        g_0, g_1, g_2 = sch.split(g, [2, 4, 4])
        r_0, r_1 = sch.split(r, [4, 8])
        sch.reorder(i_0, g_0, r_0, i_1, g_1, g_2, r_1)
        outer = sch.fuse(g_0, r_0)
        sch.fuse(i_1, g_1)
        sch.compute_at("P", outer)

    after = """\
@T.prim_func
def main(A: T.Buffer((8, 64)), W: T.Buffer((32, 32)), C: T.Buffer((8, 32))):
    P = T.alloc_buffer((8, 64))
    for i_0, g_0_r_0_fused in T.grid(4, 8):
        for ax0, ax1 in T.grid(2, 8):
            with T.block("P"):
                vi = T.axis.spatial(8, i_0 * 2 + ax0)
                vj = T.axis.spatial(64, g_0_r_0_fused * 8 + ax1)
                P[vi, vj] = A[vi, vj] * T.float32(2)
        for i_1_g_1_fused, g_2, r_1 in T.grid(8, 4, 8):
            with T.block("C"):
                vi = T.axis.spatial(8, i_0 * 2 + i_1_g_1_fused // 4)
                vg = T.axis.spatial(32, g_0_r_0_fused // 4 * 16 + i_1_g_1_fused % 4 * 4 + g_2)
                vr = T.axis.reduce(32, g_0_r_0_fused % 4 * 8 + r_1)
                with T.init():
                    C[vi, vg] = T.float32(0)
                C[vi, vg] = C[vi, vg] + P[vi, vg // 16 * 32 + vr] * W[vg, vr]
"""
    apply(GROUPED, call, after)


@pytest.mark.parametrize("mark", ["vectorize", "unroll", "parallel"])
def test_a_loop_that_new_ones_would_replace_keeps_its_kind(mark):
    before = """\
@T.prim_func
def main(A: T.Buffer((8, 8)), C: T.Buffer((8, 8))):
    B = T.alloc_buffer((8, 8))
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
"""

    def of_producer(sch):
        getattr(sch, mark)(sch.get_loops("B")[1])
        sch.compute_at("B", sch.get_loops("C")[0])

    def of_consumer(sch):
        getattr(sch, mark)(sch.get_loops("C")[1])
        sch.reverse_compute_at("C", sch.get_loops("B")[0])

    words = "is not a plain serial loop"
    refused(before, of_producer, "LoopKindLostError", words, ["block B", "loop j"])
    refused(before, of_consumer, "LoopKindLostError", words, ["block C", "loop j"])
