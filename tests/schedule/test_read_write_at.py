"""Copying the part of a buffer that a loop's body touches."""

from __future__ import annotations

import pytest

from schedule import Schedule
from tensorir import parse
from tests.schedule.transformation import apply, refused

MATMUL = """\
@T.prim_func
def main(A: T.Buffer((5, 6)), B: T.Buffer((6, 7)), C: T.Buffer((5, 7))):
    for i, j, k in T.grid(5, 7, 6):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

READ = """\
@T.prim_func
def main(A: T.Buffer((5, 6)), B: T.Buffer((6, 7)), C: T.Buffer((5, 7))):
    A_local = T.alloc_buffer((5, 6), scope="local")
    for i in range(5):
        with T.block("A_local"):
            v0 = T.axis.spatial(5, i)
            T.reads(A[v0, 0:6])
            T.writes(A_local[v0, 0:6])
            T.block_attr({"auto_copy": True})
            for ax0, ax1 in T.grid(1, 6):
                A_local[v0 + ax0, ax1] = A[v0 + ax0, ax1]
        for j, k in T.grid(7, 6):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(A_local[vi, vk], B[vk, vj])
                T.writes(C[vi, vj])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A_local[vi, vk] * B[vk, vj]
"""

WRITE = """\
@T.prim_func
def main(A: T.Buffer((5, 6)), B: T.Buffer((6, 7)), C: T.Buffer((5, 7))):
    C_local = T.alloc_buffer((5, 7), scope="local")
    for i in range(5):
        for j, k in T.grid(7, 6):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(A[vi, vk], B[vk, vj])
                T.writes(C_local[vi, vj])
                with T.init():
                    C_local[vi, vj] = T.float32(0)
                C_local[vi, vj] = C_local[vi, vj] + A[vi, vk] * B[vk, vj]
        with T.block("C_local"):
            v0 = T.axis.spatial(5, i)
            T.reads(C_local[v0, 0:7])
            T.writes(C[v0, 0:7])
            T.block_attr({"auto_copy": True})
            for ax0, ax1 in T.grid(1, 7):
                C[v0 + ax0, ax1] = C_local[v0 + ax0, ax1]
"""

STAGES = """\
@T.prim_func
def main(A: T.Buffer((6, 4)), C: T.Buffer((6, 4))):
    B = T.alloc_buffer((6, 4))
    for i in range(6):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, 3 - vj] + T.float32(1)
"""


def read(block, depth, index, scope="local"):
    return lambda sch: sch.read_at(sch.get_loops(sch.get_block(block))[depth], block, index, scope)


def write(block, depth, index, scope="local"):
    return lambda sch: sch.write_at(sch.get_loops(sch.get_block(block))[depth], block, index, scope)


def test_read():
    sch = apply(MATMUL, read("C", 0, 0), READ)
    assert sch.trace.as_python()[-1] == (
        'b5 = sch.read_at(loop=l1, block=b4, read_buffer_index=0, storage_scope="local")'
    )


def test_write():
    sch = apply(MATMUL, write("C", 0, 0), WRITE)
    assert sch.trace.as_python()[-1] == (
        'b5 = sch.write_at(loop=l1, block=b4, write_buffer_index=0, storage_scope="local")'
    )


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("call", [read, write])
def test_any_loop(call, depth):
    apply(MATMUL, call("C", depth, 0))


@pytest.mark.parametrize("depth", [0, 1])
def test_tiles(depth):
    def call(sch):
        block = sch.get_block("C")
        i, j, k = sch.get_loops(block)
        outer, inner = sch.split(k, [None, 3])
        sch.reorder(outer, i, j, inner)
        sch.read_at(sch.get_loops(block)[depth], block, "B", "global")

    apply(MATMUL, call)


def test_read_after_the_buffer_is_written_in_the_loop():
    sch = apply(STAGES, read("C", 0, 0, "global"))
    names = [
        sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_loops(sch.get_block("C"))[0])
    ]
    assert names == ["B", "B_global", "C"]


def test_write_before_it_is_read_elsewhere():
    before = STAGES.replace(
        '        for j in range(4):\n            with T.block("C")',
        '    for i in range(6):\n        for j in range(4):\n            with T.block("C")',
    )
    apply(before, write("B", 0, 0, "global"))


def test_result_is_the_copy_and_handles_survive():
    sch = Schedule(parse(MATMUL))
    block = sch.get_block("C")
    i, j, _ = sch.get_loops(block)
    copy = sch.read_at(i, block, 0, "local")
    assert sch.get(copy).name_hint == "A_local"
    sch.split(j, [None, 2])
    sch.unroll(i)


def split_unevenly(sch):
    block = sch.get_block("C")
    sch.split(sch.get_loops(block)[1], [None, 4])
    return sch.get_loops(block)


def test_below_a_condition_the_copies_stand_where_the_blocks_do():
    before = """\
@T.prim_func
def main(A: T.Buffer((6,)), B: T.Buffer((6,)), C: T.Buffer((6,))):
    for i in range(6):
        if i % 2 == 0:
            with T.block("B"):
                vi = T.axis.spatial(6, i)
                B[vi] = A[vi]
            with T.block("C"):
                vi = T.axis.spatial(6, i)
                C[vi] = B[vi]
"""
    sch = apply(before, read("C", 0, 0))
    below = sch.get_child_blocks(sch.get_loops(sch.get_block("C"))[0])
    assert [sch.get(b).name_hint for b in below] == ["B", "B_local", "C"]


UPDATE = MATMUL.replace(
    "            with T.init():\n                C[vi, vj] = T.float32(0)\n", ""
)


def test_what_is_read_and_written_is_filled_first():
    after = """\
@T.prim_func
def main(A: T.Buffer((5, 6)), B: T.Buffer((6, 7)), C: T.Buffer((5, 7))):
    C_global = T.alloc_buffer((5, 7))
    for i in range(5):
        with T.block("C_global"):
            v0 = T.axis.spatial(5, i)
            T.reads(C[v0, 0:7])
            T.writes(C_global[v0, 0:7])
            T.block_attr({"auto_copy": True})
            for ax0, ax1 in T.grid(1, 7):
                C_global[v0 + ax0, ax1] = C[v0 + ax0, ax1]
        for j, k in T.grid(7, 6):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C_global[vi, vj] = C_global[vi, vj] + A[vi, vk] * B[vk, vj]
        with T.block("C_global"):
            v0 = T.axis.spatial(5, i)
            T.reads(C_global[v0, 0:7])
            T.writes(C[v0, 0:7])
            T.block_attr({"auto_copy": True})
            for ax0, ax1 in T.grid(1, 7):
                C[v0 + ax0, ax1] = C_global[v0 + ax0, ax1]
"""
    apply(UPDATE, write("C", 0, 0, "global"), after)


def test_the_last_tile_is_copied_as_far_as_it_is_written():
    def call(sch):
        sch.write_at(split_unevenly(sch)[1], "C", 0, "local")

    sch = apply(MATMUL, call)
    below = sch.get_child_blocks(sch.get_loops(sch.get_block("C"))[1])
    assert [sch.get(b).name_hint for b in below] == ["C", "C_local"]


@pytest.mark.parametrize("condition", ["vj % 2 == 0", "A[vi, 0] > T.float32(0)"])
def test_what_may_be_left_out_is_filled_first(condition):
    before = f"""\
@T.prim_func
def main(A: T.Buffer((5, 7)), C: T.Buffer((5, 7))):
    for i, j in T.grid(5, 7):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            if {condition}:
                C[vi, vj] = A[vi, vj]
"""
    sch = apply(before, write("C", 0, 0, "local"))
    below = sch.get_child_blocks(sch.get_loops(sch.get_block("C"))[0])
    assert [sch.get(b).name_hint for b in below] == ["C_local", "C", "C_local"]


def test_an_update_of_what_was_stored_in_the_same_iteration_needs_no_filling():
    before = """\
@T.prim_func
def main(A: T.Buffer((6, 5)), C: T.Buffer((6,))):
    for i in range(6):
        with T.block("zero"):
            vi = T.axis.spatial(6, i)
            C[vi] = T.float32(0)
        for k in range(5):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                C[vi] = C[vi] + A[vi, vk]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((6, 5)), C: T.Buffer((6,))):
    C_local = T.alloc_buffer((6,), scope="local")
    for i in range(6):
        with T.block("zero"):
            vi = T.axis.spatial(6, i)
            C_local[vi] = T.float32(0)
        for k in range(5):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                C_local[vi] = C_local[vi] + A[vi, vk]
        with T.block("C_local"):
            v0 = T.axis.spatial(6, i)
            T.reads(C_local[v0])
            T.writes(C[v0])
            T.block_attr({"auto_copy": True})
            for ax0 in range(1):
                C[v0 + ax0] = C_local[v0 + ax0]
"""
    apply(before, write("C", 0, 0, "local"), after)


@pytest.mark.parametrize(
    ("before", "call", "code"),
    [
        (MATMUL, read("C", 0, 5), "BufferIndexOutOfRangeError"),
        (MATMUL, read("C", 0, 0, "nowhere"), "InvalidStorageScopeError"),
        (
            STAGES,
            lambda s: s.read_at(s.get_loops(s.get_block("B"))[1], "C", 0, "local"),
            "LoopPositionError",
        ),
        (STAGES, write("B", 0, 0), "ReadAfterWriteError"),
        (
            UPDATE,
            read("C", 0, 0),
            "WriteAfterReadError",
        ),
        (
            MATMUL.replace("A[vi, vk]", "T.if_then_else(1 <= vk, A[vi, vk - 1], T.float32(0))"),
            read("C", 0, 0),
            "UnsafeStageError",
        ),
    ],
)
def test_refused_calls(before, call, code):
    refused(before, call, code)


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
    refused(before, read("B", 0, 0), "NotStagePipelineError")
