"""Copying a buffer into the index space of a block."""

from __future__ import annotations

import pytest

from schedule import Schedule
from tensorir import parse
from tests.schedule.transformation import apply, refused

CONV = """\
@T.prim_func
def main(A: T.Buffer((9,)), W: T.Buffer((3,)), C: T.Buffer((7,))):
    for i, k in T.grid(7, 3):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi + vk] * W[vk]
"""

READ = """\
@T.prim_func
def main(A: T.Buffer((9,)), W: T.Buffer((3,)), C: T.Buffer((7,))):
    A_reindex = T.alloc_buffer((7, 3))
    for ax0, ax1 in T.grid(7, 3):
        with T.block("A_reindex_reindex"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            A_reindex[v0, v1] = A[v0 + v1]
    for i, k in T.grid(7, 3):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A_reindex[vi, vk], W[vk])
            T.writes(C[vi])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A_reindex[vi, vk] * W[vk]
"""

WRITE = """\
@T.prim_func
def main(A: T.Buffer((9,)), W: T.Buffer((3,)), C: T.Buffer((7,))):
    C_reindex = T.alloc_buffer((7,))
    for i, k in T.grid(7, 3):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi + vk], W[vk])
            T.writes(C_reindex[vi])
            with T.init():
                C_reindex[vi] = T.float32(0)
            C_reindex[vi] = C_reindex[vi] + A[vi + vk] * W[vk]
    for ax0 in range(7):
        with T.block("C_reindex"):
            v0 = T.axis.spatial(7, ax0)
            C[v0] = C_reindex[v0]
"""


def reindex(block, buffer):
    return lambda sch: sch.reindex(block, buffer)


@pytest.mark.parametrize("buffer", [("read", 0), "A", 0])
def test_read(buffer):
    sch = apply(CONV, reindex("C", buffer), READ)
    assert sch.trace.as_python()[-1] == 'b1 = sch.reindex(block=b0, buffer=("read", 0))'


def test_write():
    sch = apply(CONV, reindex("C", "C"), WRITE)
    assert sch.get(sch.get_block("C_reindex")).reads[0].buffer.name == "C_reindex"


def test_result_is_the_copy_and_handles_survive():
    sch = Schedule(parse(CONV))
    block = sch.get_block("C")
    (i, _) = sch.get_loops(block)
    copy = sch.reindex(block, "A")
    assert sch.get(copy).name_hint == "A_reindex_reindex"
    sch.split(i, [None, 2])


def test_axes_that_cancel_out_are_left_out():
    before = """\
@T.prim_func
def main(A: T.Buffer((4,)), C: T.Buffer((1, 8, 4))):
    for n, i, j in T.grid(1, 8, 4):
        with T.block("C"):
            vn, vi, vj = T.axis.remap("SSS", [n, i, j])
            C[vn, vi, vj] = A[vi // 8 * 4 + vj]
"""
    sch = apply(before, reindex("C", "A"))
    assert "A_reindex = T.alloc_buffer((4,))" in sch.mod.script()
    sch = apply(before, reindex("C", "C"))
    assert "C_reindex = T.alloc_buffer((1, 8, 4))" in sch.mod.script()


def test_transposed_write_of_split_loops():
    before = """\
@T.prim_func
def main(A: T.Buffer((11, 5)), C: T.Buffer((5, 11))):
    for i, j in T.grid(11, 5):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[4 - vj, vi] = A[vi, vj]
"""

    def call(sch):
        sch.split(sch.get_loops(sch.get_block("C"))[0], [None, 4])
        sch.reindex("C", "C")

    apply(before, call)


def test_several_reads_of_one_element():
    before = CONV.replace("A[vi + vk] * W[vk]", "A[vi + vk] * A[vi + vk]")
    apply(before, reindex("C", "A"))


NOT_FULL = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.where(i < 5)
            C[vi] = A[vi]
"""


def test_what_is_written_is_copied_as_far_as_the_loops_go():
    after = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    C_reindex = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.where(i < 5)
            C_reindex[vi] = A[vi]
    for ax0 in range(5):
        with T.block("C_reindex"):
            v0 = T.axis.spatial(8, ax0)
            C[v0] = C_reindex[v0]
"""
    apply(NOT_FULL, lambda sch: sch.reindex("C", ("write", 0)), after)


@pytest.mark.parametrize(
    ("where", "store"),
    [
        ("i % 2 == 0", "C[vi] = A[vi]"),
        ("True", "C[vi] = C[vi] + A[vi]"),
        ("True", "if A[vi] > T.float32(1.5):\n                C[vi] = A[vi]"),
    ],
)
def test_what_may_keep_what_it_held_is_filled_first(where, store):
    before = NOT_FULL.replace("i < 5", where).replace("C[vi] = A[vi]", store)
    sch = apply(before, lambda sch: sch.reindex("C", ("write", 0)))
    blocks = [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))]
    assert blocks == ["C_reindex_reindex", "C", "C_reindex"]


def test_what_a_piece_of_a_partitioned_loop_writes():
    def call(sch):
        sch.loop_partition(sch.get_loops(sch.get_block("C"))[1], [2, None])
        sch.reindex("C_j1", ("write", 0))

    before = """\
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((6, 8))):
    for i, j in T.grid(8, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vj, vi] = A[vi, vj]
"""
    script = apply(before, call).mod.script()
    assert "v0 = T.axis.spatial(8, i + ax0)" in script
    assert "v1 = T.axis.spatial((2, 6), 2 + ax1)" in script


@pytest.mark.parametrize(
    ("before", "buffer", "code", "words"),
    [
        (
            CONV.replace("* W[vk]", "* A[vi]"),
            "A",
            "InvalidBufferAccessError",
            "indices differ",
        ),
        (
            CONV.replace("A[vi + vk] * W[vk]", 'T.call_extern("float32", "f", A.data)').replace(
                "with T.init",
                "T.reads(A[vi + vk])\n            T.writes(C[vi])\n            with T.init",
            ),
            "A",
            "InvalidBufferAccessError",
            "opaque",
        ),
        (
            CONV.replace("A[vi + vk] * W[vk]", "W[vk]").replace(
                "with T.init",
                "T.reads(A[vi + vk], W[vk])\n            T.writes(C[vi])\n            with T.init",
            ),
            "A",
            "InvalidBufferAccessError",
            "the block does not access it",
        ),
        (
            CONV.replace(
                "A[vi + vk]", "T.if_then_else(1 <= vi + vk, A[vi + vk - 1], T.float32(0))"
            ),
            "A",
            "UnsafeStageError",
            "would touch",
        ),
        (
            NOT_FULL.replace("            T.where(i < 5)\n", "").replace("C[vi] =", "C[vi // 2] ="),
            "C",
            "UnsafeStageError",
            "one place",
        ),
    ],
)
def test_refused_accesses(before, buffer, code, words):
    refused(before, reindex("C", buffer), code, words)


def test_shared_loops_are_refused():
    before = """\
@T.prim_func
def main(A: T.Buffer((4,)), B: T.Buffer((4,)), C: T.Buffer((4,))):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = A[vi]
"""
    refused(before, reindex("C", "A"), "NotSingleChildChainError", "not alone")


def test_blocks_around_blocks_are_refused():
    before = """\
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))):
    for i in range(8):
        with T.block("outer"):
            vi = T.axis.spatial(8, i)
            for j in range(8):
                with T.block("inner"):
                    vj = T.axis.spatial(8, j)
                    B[vi, vj] = A[vi, vj]
"""
    refused(before, reindex("outer", ("read", 0)), "NotLeafBlockError", "not a leaf")


def test_scope_that_is_no_pipeline_is_refused():
    before = """\
@T.prim_func
def main(A: T.Buffer((4,)), B: T.Buffer((4,))):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
    for i in range(4):
        with T.block("A"):
            vi = T.axis.spatial(4, i)
            A[vi] = T.float32(0)
"""
    refused(before, reindex("B", "A"), "NotStagePipelineError")


def test_unchecked_schedules_take_what_tvm_takes():
    sch = Schedule(parse(NOT_FULL), enable_check=False)
    sch.reindex("C", "C")


@pytest.mark.parametrize(("buffer", "after"), [(("read", 0), READ), (("write", 0), WRITE)])
def test_64_bit_shapes(buffer, after):
    before, after = (
        text.replace("(9,)", "(T.int64(9),)")
        .replace("(3,)", "(T.int64(3),)")
        .replace("(7,)", "(T.int64(7),)")
        .replace("range(7)", "range(T.int64(7))")
        .replace("spatial(7, ", "spatial(T.int64(7), ")
        .replace("(7, 3)", "(T.int64(7), T.int64(3))")
        for text in (CONV, after)
    )
    apply(before, lambda sch: sch.reindex("C", buffer), after)
