"""Inits that read what the block accumulates into: what was there before is a part of the result."""

from __future__ import annotations

import pytest

from tensorir import parse
from tests.schedule.transformation import apply, refused, scheduled

SCALED = """\
@T.prim_func
def main(A: T.Buffer((4, 6)), C: T.Buffer((4,))):
    for i, k in T.grid(4, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = {init}
            C[vi] = C[vi] + A[vi, vk]
"""
INITS = [
    "C[vi] * T.float32(0.5)",
    "T.if_then_else(C[vi] > T.float32(0), C[vi], T.float32(0))",
]


def loop(sch, depth):
    return sch.get_loops("C")[depth]


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize(
    "call",
    [
        lambda sch: sch.cache_write("C", 0, "local"),
        lambda sch: sch.write_at(loop(sch, 0), "C", 0, "local"),
        lambda sch: sch.write_at(loop(sch, 1), "C", 0, "local"),
        lambda sch: sch.reindex("C", ("write", 0)),
        lambda sch: sch.reindex_cache_write("C", 0, "local", lambda i, k: (i,)),
        lambda sch: sch.cache_inplace("C", 0, "local"),
        lambda sch: sch.pad_einsum("C", [3, 1]),
        lambda sch: sch.decompose_reduction("C", loop(sch, 0)),
        lambda sch: sch.decompose_reduction("C", loop(sch, 1)),
        lambda sch: sch.blockize(loop(sch, 0)),
        lambda sch: sch.reorder(loop(sch, 1), loop(sch, 0)),
        lambda sch: sch.parallel(loop(sch, 0)),
    ],
)
def test_what_was_there_before_is_kept(call, init):
    apply(SCALED.format(init=init), call)


def test_a_copy_is_filled_first():
    after = """\
@T.prim_func
def main(A: T.Buffer((4, 6)), C: T.Buffer((4,))):
    C_local = T.alloc_buffer((4,), scope="local")
    for ax0 in range(4):
        with T.block("C_local"):
            v0 = T.axis.spatial(4, ax0)
            C_local[v0] = C[v0]
    for i, k in T.grid(4, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C_local[vi] = C_local[vi] * T.float32(0.5)
            C_local[vi] = C_local[vi] + A[vi, vk]
    for ax0 in range(4):
        with T.block("C_local"):
            v0 = T.axis.spatial(4, ax0)
            C[v0] = C_local[v0]
"""
    apply(SCALED.format(init=INITS[0]), lambda sch: sch.cache_write("C", 0, "local"), after)


def test_what_an_init_reads_is_declared():
    before = parse(SCALED.format(init="C[vi] * T.float32(2)"))
    block = before.body.block.body.body.body.block
    assert [str(r) for r in block.reads] == ["C[vi]", "A[vi, vk]"]


def test_the_init_that_is_split_off_declares_what_it_reads():
    sch = scheduled(
        SCALED.format(init="A[vi, 0]"), lambda sch: sch.decompose_reduction("C", loop(sch, 1))
    )
    assert [str(r) for r in sch.get(sch.get_block("C_init")).reads] == ["A[vi, 0]"]


def test_what_is_not_declared_is_not_filled():
    before = SCALED.format(init=INITS[0]).replace(
        "            with T.init", "            T.reads(A[vi, vk])\n            with T.init"
    )
    call = lambda sch: sch.cache_write("C", 0, "local")  # noqa: E731
    refused(before, call, "UnsafeStageError", "without declaring that")


def test_an_init_that_reads_another_element_does_not_move():
    before = SCALED.format(init="C[3 - vi]")
    call = lambda sch: sch.decompose_reduction("C", loop(sch, 0))  # noqa: E731
    refused(before, call, "DependentAxisError", "touch the same element")


def test_an_init_is_not_repeated_by_a_fused_loop():
    before = scheduled(SCALED.format(init=INITS[0]), lambda sch: sch.fuse(*sch.get_loops("C")))
    call = lambda sch: sch.decompose_reduction("C", loop(sch, 0))  # noqa: E731
    refused(before.mod["main"].script(), call, "LoopPositionError", "would run once for each step")
    plain = scheduled(SCALED.format(init="A[vi, 0]"), lambda sch: sch.fuse(*sch.get_loops("C")))
    apply(plain.mod["main"].script(), call)


def test_a_reduction_that_continues_is_not_repeated():
    before = """\
@T.prim_func
def main(A: T.Buffer((4, 6)), C: T.Buffer((4,))):
    B = T.alloc_buffer((4, 6))
    for i, k in T.grid(4, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SS", [i, k])
            B[vi, vk] = A[vi, vk]
    for i, k in T.grid(4, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = C[vi] * T.float32(0.5)
            C[vi] = C[vi] + B[vi, vk]
"""
    call = lambda sch: sch.reverse_compute_at("C", sch.get_loops("B")[0])  # noqa: E731
    refused(before, call, "RepeatedReductionError", "starts from the earlier contents of C")
