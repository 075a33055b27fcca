"""reverse_compute_at: a consumer moves below a loop of its producers."""

from __future__ import annotations

import math

import pytest

from schedule import LoopRV, Schedule, ScheduleError
from tensorir import assert_structural_equal, parse
from tests.schedule.programs import COPY, MATMUL_RELU, OVERWRITES, ROW_SUMS, STAGES
from tests.schedule.transformation import apply, refused

SIBLINGS = """\
@T.prim_func
def main(A: T.Buffer((8,)), X: T.Buffer((8,)), Y: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)
        with T.block("X"):
            vi = T.axis.spatial(8, i)
            X[vi] = A[vi]
        with T.block("Y"):
            vi = T.axis.spatial(8, i)
            Y[vi] = A[vi] * T.float32(3)
    for x in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, x)
            C[vi] = B[vi] * T.float32(2)
"""


def at(block, target, depth, *args, **options):
    """Compute a block at a loop of another one, counted from outside."""
    return lambda sch: sch.reverse_compute_at(block, sch.get_loops(target)[depth], *args, **options)


# ------------------------------------------------------------------------------ instances computed


def test_a_consumer_uses_a_row_as_soon_as_it_is_there():
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    B = T.alloc_buffer((8, 6))
    for i in range(8):
        for j in range(6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for ax0 in range(6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, ax0])
                C[vi, vj] = B[vi, vj] + T.float32(1)
"""
    apply(STAGES, at("C", "B", 0), after)


def test_loops_of_extent_1_are_kept_if_asked_for():
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    B = T.alloc_buffer((8, 6))
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
        for ax0, ax1 in T.grid(1, 1):
            with T.block("C"):
                vi = T.axis.spatial(8, i + ax0)
                vj = T.axis.spatial(6, j + ax1)
                C[vi, vj] = B[vi, vj] + T.float32(1)
"""
    apply(STAGES, at("C", "B", 1, preserve_unit_loops=True), after)


def test_a_consumer_of_a_reduction_follows_its_last_step():
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 5)), W: T.Buffer((5, 6)), R: T.Buffer((8, 6))):
    M = T.alloc_buffer((8, 6))
    for i, j in T.grid(8, 6):
        for k in range(5):
            with T.block("M"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    M[vi, vj] = T.float32(0)
                M[vi, vj] = M[vi, vj] + A[vi, vk] * W[vk, vj]
        with T.block("R"):
            vi, vj = T.axis.remap("SS", [i, j])
            R[vi, vj] = T.max(M[vi, vj], T.float32(0))
"""
    apply(MATMUL_RELU, at("R", "M", 1), after)


def test_a_transposed_read():
    before = """\
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((6, 8))):
    B = T.alloc_buffer((8, 6))
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for x, y in T.grid(6, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [x, y])
            C[vi, vj] = B[vj, vi]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((6, 8))):
    B = T.alloc_buffer((8, 6))
    for i in range(8):
        for j in range(6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for ax0 in range(6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [ax0, i])
                C[vi, vj] = B[vj, vi]
"""
    apply(before, at("C", "B", 0), after)


def test_a_read_in_another_layout():
    before = """\
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((48,))):
    B = T.alloc_buffer((8, 6))
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for x in range(48):
        with T.block("C"):
            vx = T.axis.spatial(48, x)
            C[vx] = B[vx // 6, vx % 6]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((48,))):
    B = T.alloc_buffer((8, 6))
    for i in range(8):
        for j in range(6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for ax0 in range(6):
            with T.block("C"):
                vx = T.axis.spatial(48, i * 6 + ax0)
                C[vx] = B[vx // 6, vx % 6]
"""
    apply(before, at("C", "B", 0), after)


def test_tiles_that_do_not_divide_get_a_predicate():
    after = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((16,))
    for i_0 in range(4):
        for i_1 in range(5):
            with T.block("B"):
                vi = T.axis.spatial(16, i_0 * 5 + i_1)
                T.where(i_0 * 5 + i_1 < 16)
                B[vi] = A[vi] + T.float32(1)
        for ax0 in range(5):
            with T.block("C"):
                vi = T.axis.spatial(16, i_0 * 5 + ax0)
                T.where(i_0 * 5 + ax0 < 16)
                C[vi] = B[vi] * T.float32(2)
"""

    def call(sch):
        outer, _ = sch.split(sch.get_loops("B")[0], [None, 5])
        sch.reverse_compute_at("C", outer)

    apply(COPY, call, after)


def test_a_consumer_of_less_than_its_producer_gives():
    before = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((10,))):
    B = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + T.float32(1)
    for x in range(10):
        with T.block("C"):
            vi = T.axis.spatial(10, x)
            C[vi] = B[vi]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((10,))):
    B = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + T.float32(1)
        with T.block("C"):
            vi = T.axis.spatial(10, i)
            T.where(i < 10)
            C[vi] = B[vi]
"""
    apply(before, at("C", "B", 0), after)


def test_a_reduction_runs_over_what_its_producer_gives():
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8, 6))
    for i in range(8):
        for j in range(6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for ax0 in range(6):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, ax0])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + B[vi, vk]
"""
    apply(ROW_SUMS, at("C", "B", 0), after)


def test_steps_of_a_reduction_may_follow_a_serial_loop():
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8, 6))
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, j])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + B[vi, vk]
"""
    apply(ROW_SUMS, at("C", "B", 1), after)


def test_axes_that_read_nothing_run_over_all_their_values():
    before = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((4, 8))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)
    for x, y in T.grid(4, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [x, y])
            C[vi, vj] = B[vj]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((4, 8))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)
        for ax0 in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [ax0, i])
                C[vi, vj] = B[vj]
"""
    apply(before, at("C", "B", 0), after)


def test_two_producers_under_the_same_loop():
    before = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    D = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = A[vi] * T.float32(2)
    for x in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, x)
            C[vi] = B[vi] + D[vi]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    D = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = A[vi] * T.float32(2)
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + D[vi]
"""
    apply(before, at("C", "D", 0), after)


def test_threads_are_not_relaxed():
    before = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((16,), scope="shared")
    for i in T.thread_binding(2, thread="blockIdx.x"):
        for j in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("B"):
                vi = T.axis.spatial(16, i * 8 + j)
                B[vi] = A[vi] + T.float32(1)
    for x in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, x)
            C[vi] = B[vi] * T.float32(2)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((16,), scope="shared")
    for i in T.thread_binding(2, thread="blockIdx.x"):
        for j in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("B"):
                vi = T.axis.spatial(16, i * 8 + j)
                B[vi] = A[vi] + T.float32(1)
            with T.block("C"):
                vi = T.axis.spatial(16, i * 8 + j)
                C[vi] = B[vi] * T.float32(2)
"""
    apply(before, at("C", "B", 1), after)


def test_the_copy_that_cache_write_made():
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 5)), W: T.Buffer((5, 6)), C: T.Buffer((8, 6))):
    C_local = T.alloc_buffer((8, 6), scope="local")
    for i_0 in range(2):
        for j, k, i_1 in T.grid(6, 5, 4):
            with T.block("C"):
                vi = T.axis.spatial(8, i_0 * 4 + i_1)
                vj, vk = T.axis.remap("SR", [j, k])
                with T.init():
                    C_local[vi, vj] = T.float32(0)
                C_local[vi, vj] = C_local[vi, vj] + A[vi, vk] * W[vk, vj]
        for ax0, ax1 in T.grid(4, 6):
            with T.block("C_local"):
                v0 = T.axis.spatial(8, i_0 * 4 + ax0)
                v1 = T.axis.spatial(6, ax1)
                C[v0, v1] = C_local[v0, v1]
"""
    before = """\
@T.prim_func
def main(A: T.Buffer((8, 5)), W: T.Buffer((5, 6)), C: T.Buffer((8, 6))):
    for i, j, k in T.grid(8, 6, 5):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * W[vk, vj]
"""

    def call(sch):
        block = sch.get_block("C")
        i, j, k = sch.get_loops(block)
        outer, inner = sch.split(i, [2, 4])
        sch.reorder(outer, j, k, inner)
        sch.reverse_compute_at(sch.cache_write(block, 0, "local"), outer)

    apply(before, call, after)


# -------------------------------------------------------------------------------- place in the loop


@pytest.mark.parametrize(
    ("index", "order"),
    [(-1, "BXYC"), (-2, "BCXY"), (1, "BCXY"), (2, "BXCY"), (3, "BXYC")],
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
    for i in range(8):
"""
    for name in order:
        after += f"""\
        with T.block("{name}"):
            vi = T.axis.spatial(8, i)
            {parts[name]}
"""
    apply(SIBLINGS, at("C", "B", 0, index=index), after)


# ---------------------------------------------------------------------------------- special targets


def test_marks_leave_or_inline_the_block():
    sch = Schedule(parse(COPY))
    program = sch.mod["main"]
    sch.reverse_compute_at("C", LoopRV.root_rv())
    assert sch.mod["main"] is program
    inlined = Schedule(parse(COPY))
    inlined.reverse_compute_inline("C")
    sch.reverse_compute_at("C", LoopRV.inline_rv())
    assert_structural_equal(sch.mod, inlined.mod)


# ------------------------------------------------------------------------------------------ handles


def test_handles():
    sch = Schedule(parse(STAGES), debug_mask="all")
    block, (i, _) = sch.get_block("C"), sch.get_loops("B")
    old = sch.get_loops(block)
    sch.reverse_compute_at(block, i)
    assert sch.get(block).name_hint == "C"
    first, second = sch.get_loops(block)
    assert sch.get_sref(first) is sch.get_sref(i)
    assert sch.get(second).loop_var.name == "ax0"
    for loop in old:
        with pytest.raises(ValueError, match="reverse-compute-at replaced it"):
            sch.get(loop)


def test_trace():
    sch = apply(STAGES, at("C", "B", 0, True, 1))
    assert sch.trace.as_python() == [
        'b0 = sch.get_block(name="B", func_name="main")',
        "l1, l2 = sch.get_loops(block=b0)",
        'b3 = sch.get_block(name="C", func_name="main")',
        "sch.reverse_compute_at(block=b3, loop=l1, preserve_unit_loops=True, index=1)",
    ]
    assert sch.trace.as_json()[0][-1] == ["ReverseComputeAt", ["b3", "l1"], [1, 1], []]
    sch = apply(STAGES, at("C", "B", 0))
    assert sch.trace.as_json()[0][-1] == ["ReverseComputeAt", ["b3", "l1"], [0, -1], []]


# ------------------------------------------------------------------------------------------ refused

PARTLY_WRITTEN = COPY.replace("for i in range(16)", "for i in range(8)")

UPDATES_IN_PLACE = COPY.replace("C[vi] = B[vi] * T.float32(2)", "C[vi] = C[vi] + B[vi]")

NESTED_PRODUCER = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((16,))
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi * 4:vi * 4 + 4])
            T.writes(B[vi * 4:vi * 4 + 4])
            for j in range(4):
                with T.block("B_inner"):
                    vj = T.axis.spatial(4, j)
                    T.reads(A[vi * 4 + vj])
                    T.writes(B[vi * 4 + vj])
                    B[vi * 4 + vj] = A[vi * 4 + vj]
    for x in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, x)
            C[vi] = B[vi]
"""

OTHER_PRODUCERS = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    D = T.alloc_buffer((8,))
    E = T.alloc_buffer((8,))
    for d in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, d)
            D[vi] = A[vi]
    for e in range(8):
        with T.block("E"):
            vi = T.axis.spatial(8, e)
            E[vi] = A[vi]
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for x in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, x)
            C[vi] = B[vi] + D[vi] + E[vi]
"""

CONSUMER_BETWEEN = """\
@T.prim_func
def main(A: T.Buffer((8,)), D: T.Buffer((8,)), X: T.Buffer((8,))):
    C = T.alloc_buffer((8,))
    for c in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, c)
            C[vi] = A[vi]
    for d in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, d)
            D[vi] = C[vi]
    for x in range(8):
        with T.block("X"):
            vi = T.axis.spatial(8, x)
            X[vi] = A[vi]
"""

ALONE = """\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    X = T.alloc_buffer((8,))
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

NEXT_ELEMENT = """\
@T.prim_func
def main(A: T.Buffer((9,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((9,))
    for i in range(9):
        with T.block("B"):
            vi = T.axis.spatial(9, i)
            B[vi] = A[vi]
    for x in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, x)
            C[vi] = B[vi] + B[vi + 1]
"""

PADDED = """\
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

OFF_BY_ONE = """\
@T.prim_func
def main(A: T.Buffer((18,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((18,))
    for i in range(18):
        with T.block("B"):
            vi = T.axis.spatial(18, i)
            B[vi] = A[vi]
    for x in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, x)
            C[vi] = B[vi * 2 + 1] + B[vi * 2 + 2]
"""


def at_the_loop_of_a_removed_block(sch):
    (x,) = sch.get_loops("X")
    sch.compute_inline("X")
    sch.reverse_compute_at("B", x)


def below_itself(sch):
    block = sch.get_block("C")
    sch.reverse_compute_at(block, sch.get_loops(block)[0])


def at_the_same_time(change):
    def call(sch):
        _, j = sch.get_loops("B")
        getattr(sch, change)(j)
        sch.reverse_compute_at("C", j)

    return call


@pytest.mark.parametrize(
    ("before", "call", "code", "words", "marked"),
    [
        (COPY, at("root", "B", 0), "RootBlockError", "root block", ["block root"]),
        (
            PARTLY_WRITTEN,
            at("C", "B", 0),
            "NotStagePipelineError",
            'block "C" reads more than its producers write',
            ["block root", "block C"],
        ),
        (
            UPDATES_IN_PLACE,
            at("C", "B", 0),
            "NotCompleteOrReductionBlockError",
            "violates condition #3) nor a reduction block (it violates condition #1)",
            ["block C"],
        ),
        (
            NESTED_PRODUCER,
            at("C", "B_inner", 0),
            "NotInSameScopeError",
            "not in the same block scope",
            ["block C", "loop j"],
        ),
        (COPY, below_itself, "NotInSameScopeError", "ancestor of block", ["block C", "loop x"]),
        (
            ALONE,
            at_the_loop_of_a_removed_block,
            "OnlyLeafError",
            "only leaf",
            ["block B", "block root"],
        ),
        (
            SIBLINGS,
            at("C", "B", 0, index=0),
            "InvalidInsertionIndexError",
            "0 is not in the valid range [1, 3]",
            ["block C", "loop i"],
        ),
        (
            SIBLINGS,
            at("C", "B", 0, index=4),
            "InvalidInsertionIndexError",
            "4 is not in the valid range [1, 3]",
            ["block C", "loop i"],
        ),
        (
            OTHER_PRODUCERS,
            at("C", "B", 0),
            "NotAllRequiredBlocksAreVisitedError",
            'requires all the producer(s) of block "C" to be under loop `i`, but these are not: ',
            ["block C", "loop i"],
        ),
        (
            CONSUMER_BETWEEN,
            at("C", "X", 0),
            "DependencyOrderError",
            "wrong side",
            ["block C", "loop x", "block D"],
        ),
        (
            NEXT_ELEMENT,
            at("C", "B", 0),
            "NotRegionCoverError",
            "would read elements that its producers have not written yet",
            ["block C", "loop i"],
        ),
        (
            PADDED,
            at("C", "B", 0),
            "NotRegionCoverError",
            'read beyond the elements that block "B" stores',
            ["block C", "loop i", "block B"],
        ),
        (
            ROW_SUMS,
            at_the_same_time("parallel"),
            "WrongBlockIterTypeError",
            "drive its axis vk",
            ["block C", "loop j"],
        ),
        (
            ROW_SUMS,
            at_the_same_time("vectorize"),
            "WrongBlockIterTypeError",
            "drive its axis vk",
            ["block C", "loop j"],
        ),
        (
            OFF_BY_ONE,
            at("C", "B", 0),
            "DomainNotSolvableError",
            "the index `vi * 2 + 1`",
            ["block C", "loop i"],
        ),
    ],
)
def test_refused(before, call, code, words, marked):
    refused(before, call, code, words, marked)


def test_after_a_refusal_the_schedule_can_be_used():
    sch = Schedule(parse(NEXT_ELEMENT), debug_mask="all")
    (i,) = sch.get_loops("B")
    program = sch.mod["main"]
    with pytest.raises(RuntimeError, match="NotRegionCoverError"):
        sch.reverse_compute_at("C", i)
    assert sch.mod["main"] is program
    sch.compute_at("B", sch.get_loops("C")[0])


def test_without_checks_the_scope_need_not_be_a_stage_pipeline():
    sch = Schedule(parse(OVERWRITES), enable_check=False)
    sch.reverse_compute_at("C", sch.get_loops("B")[0])
    assert [sch.get(loop).loop_var.name for loop in sch.get_loops("C")] == ["i"]


def test_arguments_of_another_type():
    sch = Schedule(parse(COPY))
    with pytest.raises(TypeError, match=r"Schedule\.reverse_compute_at: `index` takes int, got"):
        sch.reverse_compute_at("C", sch.get_loops("B")[0], index="last")


PARTIAL_SUMS = """
@T.prim_func
def main(A: T.Buffer((4, 3, 5)), C: T.Buffer((4,))):
    P = T.alloc_buffer((4, 3))
    for i, j, k in T.grid(4, 3, 5):
        with T.block("P"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                P[vi, vj] = T.float32(0)
            P[vi, vj] = P[vi, vj] + A[vi, vj, vk]
    for i, j in T.grid(4, 3):
        with T.block("C"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + P[vi, vj]
"""


def test_steps_of_a_reduction_are_not_repeated():
    def under(position):
        return lambda s: s.reverse_compute_at("C", s.get_loops("P")[position])

    refused(
        PARTIAL_SUMS,
        under(2),
        "RepeatedReductionError",
        "there, the steps of its reduction do not each run once with the initialising step first, "
        "because loop `k` runs the same steps several times",
        marked=["block C", "loop k"],
    )
    apply(PARTIAL_SUMS, under(1))


def test_a_block_without_axes_that_uses_a_loop_stays():
    def call(sch):
        sch.loop_partition(sch.get_loops("C")[1], [1, None])
        sch.reverse_compute_at("C_j_common", sch.get_loops("P")[0])

    text = (
        PARTIAL_SUMS.replace(
            "[i, j])\n            with T.init():\n                C[vi] = T.float32(0)\n            C[vi] = C[vi] + P[vi, vj]",
            "[i, j])\n            C[vi, vj] = P[vi, vj]",
        )
        .replace("C: T.Buffer((4,))", "C: T.Buffer((4, 3))")
        .replace('remap("SR", [i, j])', 'remap("SS", [i, j])')
    )
    refused(
        text,
        call,
        "OpaqueBlockError",
        "uses the variable of loop `i`",
        marked=["block C_j_common", "loop i"],
    )


REVERSED = """
@T.prim_func
def main(A: T.Buffer((6,)), C: T.Buffer((1,))):
    B = T.alloc_buffer((6,))
    for i in range(6):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            B[5 - vi] = A[vi]
    for k in range(6):
        with T.block("C"):
            vk = T.axis.reduce(6, k)
            with T.init():
                C[0] = T.float32(0)
            C[0] = C[0] + B[vk]
"""


def test_the_step_that_initialises_stays_the_first():
    refused(
        REVERSED,
        lambda s: s.reverse_compute_at("C", s.get_loops("B")[0]),
        "RepeatedReductionError",
        "reduction axis vk may not start at 0",
        marked=["block C", "loop i"],
    )


def test_steps_follow_tiles_of_a_fused_loop_only_in_its_order():
    def under_tiles(swapped):
        def call(sch):
            outer, inner = sch.split(sch.fuse(*sch.get_loops("B")), [12, 4])
            if swapped:
                sch.reorder(inner, outer)
            sch.reverse_compute_at("C", outer if swapped else inner)

        return call

    apply(ROW_SUMS, under_tiles(swapped=False))
    refused(
        ROW_SUMS,
        under_tiles(swapped=True),
        "RepeatedReductionError",
        "drive data-parallel and reduction axes, but are nested in another order",
    )


FUSED_SUMS = """
@T.prim_func
def main(A: T.Buffer((10, 7, 5)), D: T.Buffer((10, 7))):
    Z = T.alloc_buffer((10, 7))
    for i, j, k in T.grid(10, 7, 5):
        with T.block("Z"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                Z[vi, vj] = T.float32(0)
            Z[vi, vj] = Z[vi, vj] + A[vi, vj, vk]
    for i, j in T.grid(10, 7):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = Z[vi, vj] * T.float32(2)
"""


def test_a_reduction_whose_loops_and_tiles_have_remainders_covers_its_tile():
    def call(sch):
        i, j, k = sch.get_loops("Z")
        sch.split(k, [None, 2])
        _, lanes = sch.split(sch.fuse(i, j), [None, 4])
        sch.reverse_compute_at("D", lanes)

    apply(FUSED_SUMS, call)


PART_OF_A_COPY = """
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.where(i < 5)
            C[vi] = B[vi]
"""


def test_instances_that_a_predicate_leaves_out_do_not_come_back():
    refused(
        PART_OF_A_COPY,
        lambda s: s.reverse_compute_at("C", s.get_loops("B")[0]),
        "LeftOutInstancesError",
        "may leave out values of its axis vi",
        marked=["block C", "loop i"],
    )


def test_an_axis_that_follows_a_loop_around_both_keeps_to_it():
    before = """\
@T.prim_func
def main(A: T.Buffer((6, 8)), D: T.Buffer((6, 8))):
    E = T.alloc_buffer((8,))
    for i in range(6):
        for j in range(8):
            with T.block("E"):
                vi, vj = T.axis.remap("SS", [i, j])
                E[vj] = A[vi, vj] * T.float32(2)
        for j in range(8):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = E[7 - vj]
"""
    sch = Schedule(parse(before))
    program = sch.mod
    with pytest.raises(ScheduleError, match="its axis vi follows loop `i`") as caught:
        sch.reverse_compute_at(sch.get_block("D"), sch.get_loops(sch.get_block("E"))[1])
    assert caught.value.code == "LostIterationError"
    assert_structural_equal(sch.mod, program)


ONE_ROW = """\
@T.prim_func
def main(A: T.Buffer((8, 16)), D: T.Buffer((1, 16, 1))):
    B = T.alloc_buffer((8, 16))
    for i_0, j_0, i_1, j_1 in T.grid(2, 4, 4, 4):
        with T.block("B"):
            vi = T.axis.spatial(8, i_0 * 4 + i_1)
            vj = T.axis.spatial(16, j_0 * 4 + j_1)
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for x, y, z in T.grid(1, 16, 1):
        with T.block("D"):
            v0, v1, v2 = T.axis.remap("SSS", [x, y, z])
            D[v0, v1, v2] = B[{row}, v1] + T.float32(1)
"""


@pytest.mark.parametrize(
    ("row", "predicate"),
    [("v0", "i_0 <= 0"), ("0", "i_0 <= 0"), ("5", "1 <= i_0")],
)
def test_a_row_that_one_iteration_writes_is_read_in_that_one(row, predicate):
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 16)), D: T.Buffer((1, 16, 1))):
    B = T.alloc_buffer((8, 16))
    for i_0, j_0 in T.grid(2, 4):
        for i_1, j_1 in T.grid(4, 4):
            with T.block("B"):
                vi = T.axis.spatial(8, i_0 * 4 + i_1)
                vj = T.axis.spatial(16, j_0 * 4 + j_1)
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for ax0 in range(4):
            with T.block("D"):
                v0 = T.axis.spatial(1, 0)
                v1 = T.axis.spatial(16, j_0 * 4 + ax0)
                v2 = T.axis.spatial(1, 0)
                T.where({})
                D[v0, v1, v2] = B[{}, v1] + T.float32(1)
"""
    apply(ONE_ROW.format(row=row), at("D", "B", 1), after.format(predicate, row))


def test_rows_that_two_iterations_write_are_not_read_in_one():
    before = """\
@T.prim_func
def main(A: T.Buffer((8, 4)), D: T.Buffer((4,))):
    B = T.alloc_buffer((8, 4))
    E = T.alloc_buffer((8, 4))
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
        with T.block("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            E[vi, vj] = A[vi, vj] * T.float32(3)
    for x in range(4):
        with T.block("D"):
            vx = T.axis.spatial(4, x)
            D[vx] = B[0, vx] + E[{}, vx]
"""
    apply(before.format(0), at("D", "B", 0))
    refused(before.format(1), at("D", "B", 0), "NotRegionCoverError")


# ------------------------------------------------------------------- tiles, quotients, remainders

IN_TILES = """\
@T.prim_func
def main(A: T.Buffer((16, 16)), C: T.Buffer((4, 64))):
    B = T.alloc_buffer((16, 16))
    for i_0, j_0, i_1, j_1 in T.grid(4, 4, 4, 4):
        with T.block("B"):
            vi = T.axis.spatial(16, i_0 * 4 + i_1)
            vj = T.axis.spatial(16, j_0 * 4 + j_1)
            B[vi, vj] = A[vj, vi] * T.float32(2)
    for x, y in T.grid(4, 64):
        with T.block("C"):
            vx, vy = T.axis.remap("SS", [x, y])
            C[vx, vy] = B[vx * 4 + vy // 16, vy % 16]
"""


def test_instances_that_read_a_tile_lie_apart():
    after = """\
@T.prim_func
def main(A: T.Buffer((16, 16)), C: T.Buffer((4, 64))):
    B = T.alloc_buffer((16, 16))
    for i_0, j_0 in T.grid(4, 4):
        for i_1, j_1 in T.grid(4, 4):
            with T.block("B"):
                vi = T.axis.spatial(16, i_0 * 4 + i_1)
                vj = T.axis.spatial(16, j_0 * 4 + j_1)
                B[vi, vj] = A[vj, vi] * T.float32(2)
        for ax0, ax1 in T.grid(4, 4):
            with T.block("C"):
                vx = T.axis.spatial(4, i_0)
                vy = T.axis.spatial(64, j_0 * 4 + ax1 + ax0 * 16)
                C[vx, vy] = B[vx * 4 + vy // 16, vy % 16]
"""
    apply(IN_TILES, at("C", "B", 1), after)


def test_loops_of_extent_1_of_instances_that_lie_apart():
    def a_row_of_a_tile(sch):
        sch.reorder(*[sch.get_loops("B")[k] for k in (0, 2, 1, 3)])
        sch.reverse_compute_at("C", sch.get_loops("B")[2], preserve_unit_loops=True)

    sch = apply(IN_TILES, a_row_of_a_tile)
    assert [int(sch.get(loop).extent) for loop in sch.get_loops("C")] == [4, 4, 4, 1, 4]


def test_a_producer_that_fills_a_part_of_a_row_by_its_quotient_and_remainder():
    before = """\
@T.prim_func
def main(A: T.Buffer((256,)), C: T.Buffer((256,))):
    B = T.alloc_buffer((16, 16))
    for f_0, f_1, f_2 in T.grid(4, 8, 8):
        with T.block("B"):
            vi = T.axis.spatial(16, (f_0 * 64 + f_1 * 8 + f_2) // 16)
            vj = T.axis.spatial(16, (f_0 * 64 + f_1 * 8 + f_2) % 16)
            B[vi, vj] = A[vj * 16 + vi] * T.float32(2)
    for x in range(256):
        with T.block("C"):
            vx = T.axis.spatial(256, x)
            C[vx] = B[vx // 16, vx % 16]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((256,)), C: T.Buffer((256,))):
    B = T.alloc_buffer((16, 16))
    for f_0, f_1 in T.grid(4, 8):
        for f_2 in range(8):
            with T.block("B"):
                vi = T.axis.spatial(16, (f_0 * 64 + f_1 * 8 + f_2) // 16)
                vj = T.axis.spatial(16, (f_0 * 64 + f_1 * 8 + f_2) % 16)
                B[vi, vj] = A[vj * 16 + vi] * T.float32(2)
        for ax0 in range(8):
            with T.block("C"):
                vx = T.axis.spatial(256, f_0 * 64 + f_1 * 8 + ax0)
                C[vx] = B[vx // 16, vx % 16]
"""
    apply(before, at("C", "B", 1), after)


PACKED = """\
@T.prim_func
def main(A: T.Buffer((32, 8)), C: T.Buffer((32, 8))):
    B = T.alloc_buffer((8, 2, 4, 4))
    for i, j, k, l in T.grid(8, 2, 4, 4):
        with T.block("B"):
            va, vb, vc, vd = T.axis.remap("SSSS", [i, j, k, l])
            B[va, vb, vc, vd] = A[va * 4 + vc, vb * 4 + vd] * T.float32(2)
    for x, y in T.grid(32, 8):
        with T.block("C"):
            vx, vy = T.axis.remap("SS", [x, y])
            C[vx, vy] = B[vx // 4, vy // 4, vx % 4, vy % 4]
"""


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 0, 3, 1), (3, 2, 1, 0), (1, 3, 0, 2)])
@pytest.mark.parametrize("depth", range(4))
def test_packed_tiles_are_unpacked_below_any_loop(order, depth):
    def reordered_and_moved(sch):
        sch.reorder(*[sch.get_loops("B")[k] for k in order])
        sch.reverse_compute_at("C", sch.get_loops("B")[depth])

    sch = apply(PACKED, reordered_and_moved)
    runs = [math.prod(int(sch.get(loop).extent) for loop in sch.get_loops(block)) for block in "BC"]
    assert runs[0] == runs[1], "an instance runs once for each element"


def test_tiles_of_a_part_of_a_row_that_quotients_cut_differently_are_refused():
    before = """\
@T.prim_func
def main(A: T.Buffer((4, 6)), C: T.Buffer((24,))):
    B = T.alloc_buffer((4, 6))
    for f_0, f_1 in T.grid(6, 4):
        with T.block("B"):
            vi = T.axis.spatial(4, (f_0 * 4 + f_1) // 6)
            vj = T.axis.spatial(6, (f_0 * 4 + f_1) % 6)
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for x in range(24):
        with T.block("C"):
            vx = T.axis.spatial(24, x)
            C[vx] = B[vx // 6, vx % 6]
"""
    refused(before, at("C", "B", 0), "NotRegionCoverError")
