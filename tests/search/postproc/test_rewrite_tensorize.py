"""Blocks that were tiled for an intrinsic become that intrinsic."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import search as ms
from schedule import Schedule
from search.postproc import Postproc, RewriteTensorize
from search.search_strategy.trace_application import TraceApplication
from tensorir import assert_structural_equal
from tensorir.interp import interpret, random_arguments
from tests.search.int8_programs import DENSE, program

# What MultiLevelTilingWithIntrin("dot_16x4_vnni", "SR") and RewriteReductionBlock make of DENSE.
BEFORE = """
@T.prim_func
def main(A: T.Buffer((4, 8), "uint8"), B: T.Buffer((2, 2, 16, 4), "int8"), C: T.Buffer((4, 32), "int32")):
    T.func_attr({"tir.noalias": True})
    for i, j_0 in T.grid(4, 2):
        with T.block("C_o_init"):
            vi_o, vj_o = T.axis.remap("SS", [i, j_0])
            T.reads()
            T.writes(C[vi_o, vj_o * 16:vj_o * 16 + 16])
            T.block_attr({"meta_schedule.auto_tensorize": ""})
            for j_1 in range(16):
                with T.block("C_init"):
                    vj_i_init = T.axis.spatial(16, j_1)
                    T.reads()
                    T.writes(C[vi_o, vj_o * 16 + vj_i_init])
                    C[vi_o, vj_o * 16 + vj_i_init] = 0
        for k_0 in range(2):
            with T.block("C_o_update"):
                vi_o, vj_o, vk_o = T.axis.remap("SSR", [i, j_0, k_0])
                T.reads(C[vi_o, vj_o * 16:vj_o * 16 + 16], A[vi_o, vk_o * 4:vk_o * 4 + 4], B[vj_o, vk_o, 0:16, 0:4])
                T.writes(C[vi_o, vj_o * 16:vj_o * 16 + 16])
                T.block_attr({"meta_schedule.auto_tensorize": "dot_16x4_vnni"})
                for j_1, k_1 in T.grid(16, 4):
                    with T.block("C"):
                        vj_i, vk_i = T.axis.remap("SR", [j_1, k_1])
                        T.reads(C[vi_o, vj_o * 16 + vj_i], A[vi_o, vk_o * 4 + vk_i], B[vj_o, vk_o, vj_i, vk_i])
                        T.writes(C[vi_o, vj_o * 16 + vj_i])
                        T.block_attr({"meta_schedule.tiling_structure": "SR"})
                        C[vi_o, vj_o * 16 + vj_i] = C[vi_o, vj_o * 16 + vj_i] + T.Cast("int32", A[vi_o, vk_o * 4 + vk_i]) * T.Cast("int32", B[vj_o, vk_o, vj_i, vk_i])
"""


def processed(postproc: Postproc, before: str) -> Schedule:
    """Run a postprocessor, and check that the program computes the same afterwards."""
    func = program(before)
    sch = Schedule(func, debug_mask="all")
    assert postproc.apply(sch)
    expected = random_arguments(func, 0)
    actual = [a.copy() for a in expected]
    interpret(func, *expected)
    interpret(sch.mod, *actual)
    for got, wanted in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
    return sch


def test_what_it_does_is_recorded_and_replays() -> None:
    sch = Schedule(program(BEFORE))
    sch.enter_postproc()
    assert RewriteTensorize(vectorize_init_loop=True).apply(sch)
    assert [inst.kind.name for inst in sch.trace.insts] == [
        "EnterPostproc",
        *("GetBlock", "Unannotate", "GetChildBlocks", "GetLoops", "Vectorize"),
        *("GetBlock", "Unannotate", "Tensorize"),
    ]
    again = Schedule(program(BEFORE))
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)


def test_a_block_that_does_not_match_is_logged_and_stays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = BEFORE.replace('"dot_16x4_vnni"', '"amx_16x16x64_u8i8i32"')
    logger = logging.getLogger("tensorir.search")
    propagate, logger.propagate = logger.propagate, True
    try:
        sch = processed(RewriteTensorize(), other)
    finally:
        logger.propagate = propagate
    unmarked = '                T.block_attr({"meta_schedule.auto_tensorize": "dot_16x4_vnni"})\n'
    assert_structural_equal(sch.mod["main"], program(BEFORE.replace(unmarked, "")))
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("Block C_o_update is not replaced by amx_16x16x64_u8i8i32: ")
    assert "\n" not in message, "the reason alone, without the programs"


def test_an_unknown_intrinsic_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("tensorir.search")
    propagate, logger.propagate = logger.propagate, True
    try:
        processed(RewriteTensorize(), BEFORE.replace('"dot_16x4_vnni"', '"dot_5x5"'))
    finally:
        logger.propagate = propagate
    assert "dot_5x5" in caplog.text


def test_candidates_of_the_preset_have_the_intrinsic_and_a_vector_init() -> None:
    task = ms.TuneContext(
        program(DENSE),
        target="llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake -num-cores=4",
        space_generator="vnni",
        search_strategy="replay-trace",
        rand_state=1,
    )
    application = TraceApplication(task)
    for space in task.generate_design_space():
        sch = application.apply(space.trace)
        assert sch is not None
        text = sch.mod.script()
        assert "llvm.x86.avx512.vpdpbusd.512" in text
        assert "T.vectorized(16)" in text[: text.index("C_init")]
        assert "auto_tensorize" not in text
