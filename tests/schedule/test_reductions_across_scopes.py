"""Reductions that a block in the middle of their loops divides, and buffers that live in it."""

from __future__ import annotations

import pytest

from tests.schedule.transformation import apply, refused

SUM = """\
@T.prim_func
def main(A: T.Buffer((4, 3, 5)), C: T.Buffer((4,))):
    for i, k, r in T.grid(4, 3, 5):
        with T.block("C"):
            vi, vk, vr = T.axis.remap("SRR", [i, k, r])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk, vr]
"""

OUTER_BLOCK = """\
@T.prim_func
def main(A: T.Buffer((4, 3, 5)), C: T.Buffer((4,))):
    for i, k in T.grid(4, 3):
        with T.block("outer"):
            T.reads()
            T.writes()
            for r in range(5):
                with T.block("C"):
                    vi, vk, vr = T.axis.remap("SRR", [i, k, r])
                    with T.init():
                        C[vi] = T.float32(0)
                    C[vi] = C[vi] + A[vi, vk, vr]
"""

CACHED = """\
@T.prim_func
def main(A: T.Buffer((4, 3, 5)), C: T.Buffer((4,))):
    for i, k in T.grid(4, 3):
        with T.block("outer"):
            T.reads()
            T.writes()
            C_local = T.alloc_buffer((4,), scope="local")
            for ax0 in range(1):
                with T.block("C_local"):
                    v0 = T.axis.spatial(4, i + ax0)
                    C_local[v0] = C[v0]
            for r in range(5):
                with T.block("C"):
                    vi, vk, vr = T.axis.remap("SRR", [i, k, r])
                    with T.init():
                        C_local[vi] = T.float32(0)
                    C_local[vi] = C_local[vi] + A[vi, vk, vr]
            for ax0 in range(1):
                with T.block("C_local"):
                    v0 = T.axis.spatial(4, i + ax0)
                    C[v0] = C_local[v0]
"""

STAGES = {
    "cache_write": lambda sch, block: sch.cache_write(block, 0, "local"),
    "reindex": lambda sch, block: sch.reindex(block, ("write", 0)),
    "write_at": lambda sch, block: sch.write_at(sch.get_loops(block)[0], block, 0, "local"),
}


def test_a_copy_that_an_outer_loop_makes_anew_is_filled():
    apply(OUTER_BLOCK, lambda sch: sch.cache_write("C", 0, "local"), CACHED)


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_copies_hold_what_earlier_iterations_around_the_block_accumulated(stage):
    apply(OUTER_BLOCK, lambda sch: stage(sch, "C"))

    def in_a_piece(sch):
        sch.loop_partition(sch.get_loops("C")[2], [2, None])
        stage(sch, "C_r0")

    apply(SUM, in_a_piece)


def test_a_copy_beside_whole_reductions_is_not_filled():
    for text in (
        OUTER_BLOCK.replace("i, k in T.grid(4, 3)", "i, k in T.grid(4, 1)"),
        OUTER_BLOCK.replace("for i, k in T.grid(4, 3)", "for i in range(4)").replace(
            "for r in range(5)", "for k, r in T.grid(3, 5)"
        ),
    ):
        sch = apply(text, lambda sch: sch.cache_write("C", 0, "local"))
        assert sch.mod.script().count('T.block("C_local")') == 1


def test_partial_results_that_an_outer_loop_makes_anew_are_refused():
    def call(sch):
        sch.rfactor(sch.get_loops("C")[0], 0)

    reason = "reduction axis vk may not start at 0"
    refused(OUTER_BLOCK, call, "LoopPropertyError", reason, ["block C", "loop r"])
    apply(OUTER_BLOCK.replace("i, k in T.grid(4, 3)", "i, k in T.grid(4, 1)"), call)


def test_partial_results_of_a_piece_of_a_reduction_are_refused():
    def call(sch):
        sch.loop_partition(sch.get_loops("C")[2], [2, None])
        sch.rfactor(sch.get_loops("C_r0")[0], 0)

    refused(SUM, call, "LoopPropertyError", "may not start at 0")
