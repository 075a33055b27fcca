"""Staging what a block touches in a buffer of another layout."""

from __future__ import annotations

import pytest

from schedule import Schedule
from tensorir import parse
from tests.schedule.transformation import apply, refused

BEFORE = """\
@T.prim_func
def main(A: T.Buffer((7, 4)), C: T.Buffer((7, 4))):
    B = T.alloc_buffer((7, 4))
    for i, j in T.grid(7, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(7, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
"""

READ = """\
@T.prim_func
def main(A: T.Buffer((7, 4)), C: T.Buffer((7, 4))):
    B = T.alloc_buffer((7, 4))
    A_local = T.alloc_buffer((4, 7), scope="local")
    for i, j in T.grid(7, 4):
        with T.block("A_local"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(A_local[vj, vi])
            A_local[vj, vi] = A[vi, vj]
    for i, j in T.grid(7, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A_local[vj, vi])
            T.writes(B[vi, vj])
            B[vi, vj] = A_local[vj, vi] * T.float32(2)
    for i, j in T.grid(7, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
"""

WRITE = """\
@T.prim_func
def main(A: T.Buffer((7, 4)), C: T.Buffer((7, 4))):
    B = T.alloc_buffer((7, 4))
    B_global = T.alloc_buffer((28,))
    for i, j in T.grid(7, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B_global[vi * 4 + vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(7, 4):
        with T.block("B_global"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = B_global[vi * 4 + vj]
    for i, j in T.grid(7, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
"""

MATMUL = """\
@T.prim_func
def main(A: T.Buffer((4, 6)), B: T.Buffer((6, 7)), C: T.Buffer((4, 7))):
    for i, j, k in T.grid(4, 7, 6):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def swap(i, j):
    return (j, i)


def read(block, index, index_map, scope="global"):
    return lambda sch: sch.reindex_cache_read(block, index, scope, index_map)


def write(block, index, index_map, scope="global"):
    return lambda sch: sch.reindex_cache_write(block, index, scope, index_map)


def test_read_of_a_parameter():
    sch = apply(BEFORE, read("B", 0, swap, "local"), READ)
    assert sch.trace.as_python()[-1] == (
        'b1 = sch.reindex_cache_read(block=b0, read_buffer_index=0, storage_scope="local", '
        "index_map=lambda i, j: (j, i,))"
    )


def test_write_of_an_intermediate_buffer():
    apply(BEFORE, write("B", 0, lambda i, j: (i * 4 + j,)), WRITE)


def test_read_of_an_intermediate_buffer_follows_its_writer():
    def call(sch):
        b, c = sch.get_block("B"), sch.get_block("C")
        sch.compute_at(b, sch.get_loops(c)[0])
        read("C", 0, swap)(sch)

    sch = apply(BEFORE, call)
    assert [sch.get(x).loop_var.name for x in sch.get_loops(sch.get_block("B_global"))] == [
        "i",
        "j",
    ]


@pytest.mark.parametrize(
    "index_map",
    [
        lambda i, j, k: (k, i),
        lambda i, j, k: (i // 2, k, i % 2),
        lambda i, j, k: (i * 6 + k,),
        lambda i, j, k: (3 - i, k),
        lambda i, j, k: (i + 2, k),
    ],
)
def test_axes_and_loops_that_are_not_used_are_left_out(index_map):
    sch = apply(MATMUL, read("C", 0, index_map))
    copy = sch.get_block("A_global")
    assert [axis.var.name for axis in sch.get(copy).iter_vars] == ["vi", "vk"]
    assert [sch.get(x).loop_var.name for x in sch.get_loops(copy)] == ["i", "k"]


def test_write_of_a_reduction():
    apply(MATMUL, write("C", 0, lambda i, j, k: (j, i)))


def test_predicates_are_copied():
    def call(sch):
        sch.split(sch.get_loops(sch.get_block("B"))[0], [None, 3])
        read("B", 0, swap)(sch)
        write("B", 0, swap)(sch)

    apply(BEFORE, call)


def test_handles_survive():
    sch = Schedule(parse(MATMUL))
    block = sch.get_block("C")
    loops = sch.get_loops(block)
    copy = sch.reindex_cache_read(block, 0, "global", lambda i, j, k: (k, i))
    assert sch.get(copy).name_hint == "A_global"
    sch.reorder(loops[2], loops[0])


GUARDED = BEFORE.replace(
    "A[vi, vj] * T.float32(2)", "T.if_then_else(1 <= vi, A[vi - 1, vj], T.float32(0))"
)


@pytest.mark.parametrize(
    "store",
    [
        "B[vi, vj] = B[vi, vj] + A[vi, vj]",
        "if A[vi, vj] > T.float32(1):\n                B[vi, vj] = A[vi, vj]",
    ],
)
def test_what_may_keep_what_it_held_is_filled_first(store):
    before = f"""\
@T.prim_func
def main(A: T.Buffer((7, 4)), B: T.Buffer((7, 4))):
    for i, j in T.grid(7, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            {store}
"""
    sch = apply(before, write("B", 0, swap))
    blocks = [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))]
    assert blocks == ["B_global", "B", "B_global"]


def test_a_block_that_reads_other_elements_than_it_writes():
    before = BEFORE.replace("B[vi, vj] = A", "B[vi, vj] = B[vi, vj] * B[0, 0] + A")
    refused(before, write("B", 0, swap), "UnsafeStageError", "reads other elements")


@pytest.mark.parametrize(
    ("before", "call", "code"),
    [
        (BEFORE, read("B", 0, swap, "nowhere"), "InvalidStorageScopeError"),
        (BEFORE, read("B", 3, swap), "BufferIndexOutOfRangeError"),
        (BEFORE, read("B", 0, lambda i, j: (i,)), "ReindexCacheReadWriteNotMatchError"),
        (MATMUL, read("C", 0, lambda i, j, k: (i, j)), "ReindexCacheReadWriteNotMatchError"),
        (BEFORE, read("B", 0, lambda i: (i, i)), "IndexMapNotApplicableToBlockIterError"),
        (BEFORE, read("B", 0, lambda i, j: (i - 1, j)), "NegativeIndexError"),
        (BEFORE, read("B", 0, lambda i, j: (i // 2, j)), "UnsafeStageError"),
        (BEFORE, read("B", 0, lambda i, j: (i + j,)), "UnsafeStageError"),
        (GUARDED, read("B", 0, swap), "UnsafeStageError"),
        (
            BEFORE.replace("B[vi, vj] + T", "A[vi, vj] + T").replace("C[vi, vj] =", "B[vi, vj] ="),
            write("B", 0, swap),
            "NotSingleWriteBlock",
        ),
    ],
)
def test_refused_calls(before, call, code):
    refused(before, call, code)


def test_elements_that_memory_decides_are_refused():
    before = """\
@T.prim_func
def main(A: T.Buffer((7,)), B: T.Buffer((7,)), N: T.Buffer((7,), "int32")):
    for i in range(7):
        with T.block("B"):
            vi = T.axis.opaque(7, i)
            B[T.max(T.min(N[vi], 6), 0)] = A[vi]
            N[vi] = 3
"""
    words = "the elements that it touches depend on values in memory"
    refused(before, write("B", 0, lambda i: (i,)), "UnsafeStageError", words, ["block B"])


def test_more_than_one_element_an_instance_is_refused():
    before = """\
@T.prim_func
def main(A: T.Buffer((4, 6)), C: T.Buffer((4,))):
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi, 0:6])
            T.writes(C[vi])
            C[vi] = T.float32(0)
            for k in range(6):
                C[vi] = C[vi] + A[vi, k]
"""
    refused(before, read("C", 0, lambda i: (i,)), "NotSinglePointAccess", "not a single point")


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
    refused(before, read("B", 0, lambda i: (i,)), "NotStagePipelineError")
