"""Staging a buffer that a block updates in place."""

from __future__ import annotations

import pytest

from schedule import Schedule
from tensorir import parse
from tests.schedule.transformation import apply, refused, scheduled

UPDATE = """\
@T.prim_func
def main(A: T.Buffer((7, 4)), C: T.Buffer((7, 4))):
    for i, j in T.grid(7, 4):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(A[vi, vj])
            A[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(7, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]
"""

STAGED = """\
@T.prim_func
def main(A: T.Buffer((7, 4)), C: T.Buffer((7, 4))):
    A_local = T.alloc_buffer((7, 4), scope="local")
    for i, j in T.grid(7, 4):
        for ax0, ax1 in T.grid(1, 1):
            with T.block("A_local"):
                v0 = T.axis.spatial(7, i + ax0)
                v1 = T.axis.spatial(4, j + ax1)
                A_local[v0, v1] = A[v0, v1]
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A_local[vi, vj])
            T.writes(A_local[vi, vj])
            A_local[vi, vj] = A_local[vi, vj] + T.float32(1)
        for ax0, ax1 in T.grid(1, 1):
            with T.block("A_local"):
                v0 = T.axis.spatial(7, i + ax0)
                v1 = T.axis.spatial(4, j + ax1)
                A[v0, v1] = A_local[v0, v1]
    for i, j in T.grid(7, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]
"""

WHOLE = """\
@T.prim_func
def main(A: T.Buffer((8,), "int32")):
    for i in range(1):
        with T.block("A"):
            T.reads(A[0:6])
            T.writes(A[2:8])
            for j in range(6):
                if j % 2 == 0:
                    A[j + 2] = A[j] + 1
"""

EXTERN = """\
@T.prim_func
def main(A: T.Buffer((64,), "int32")):
    for i in range(1):
        with T.block("A"):
            T.reads(A[0:64])
            T.writes(A[0:64])
            T.evaluate(T.call_extern("int32", "f", A.data))
"""


def stage(block, index=0, scope="local"):
    return lambda sch: sch.cache_inplace(block, index, scope)


def test_element_by_element():
    sch = apply(UPDATE, stage("A"), STAGED)
    line = 'b1, b2 = sch.cache_inplace(block=b0, read_buffer_index=0, storage_scope="local")'
    assert sch.trace.as_python()[-1] == line


def test_named_buffer_and_surviving_handles():
    sch = Schedule(parse(UPDATE))
    block = sch.get_block("A")
    loops = sch.get_loops(block)
    first, last = sch.cache_inplace(block, 0, "global")
    assert sch.get(first).writes[0].buffer is sch.get(block).reads[0].buffer
    assert sch.get(last).reads[0].buffer is sch.get(block).writes[0].buffer
    sch.split(loops[1], [2, 2])


def test_what_the_block_leaves_alone_comes_back():
    apply(WHOLE, stage("A"))


def test_pointers_go_to_the_copy():
    sch = scheduled(EXTERN, stage("A"))
    assert 'T.call_extern("int32", "f", A_local.data)' in sch.mod.script()


@pytest.mark.parametrize(
    ("before", "call", "code"),
    [
        (UPDATE, stage("C"), "NotReadWriteError"),
        (UPDATE, stage("A", 0, "nowhere"), "InvalidStorageScopeError"),
        (UPDATE, stage("A", 2), "BufferIndexOutOfRangeError"),
        (WHOLE.replace("A[2:8]", "A[2:9]"), stage("A"), "UnsafeStageError"),
        (
            UPDATE.replace(
                'for i, j in T.grid(7, 4):\n        with T.block("A")',
                'for i, j in T.grid(7, 4):\n        with T.block("B"):\n            vi, vj = T.axis.remap("SS", [i, j])\n            T.where(i < 3)\n            A[vi, vj] = C[vi, vj]\n    for i, j in T.grid(7, 4):\n        with T.block("A")',
            ),
            stage("A"),
            "NotRegionCoverError",
        ),
    ],
)
def test_refused_calls(before, call, code):
    refused(before, call, code)
