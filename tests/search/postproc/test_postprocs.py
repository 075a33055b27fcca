"""Each postprocessor: a program before and after, and what it rejects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import search as ms
from codegen import Target
from schedule import Schedule, Trace
from search.feature_extractor.machine import Machine
from search.postproc import (
    DisallowDynamicLoop,
    Postproc,
    RewriteLayout,
    RewriteParallelVectorizeUnroll,
    RewriteReductionBlock,
)
from search.schedule_rule import ScheduleRule
from search.search_strategy.trace_application import TraceApplication
from tensorir import assert_structural_equal, parse, workloads
from tensorir.interp import interpret, random_arguments
from tests.recorded import recorded
from tests.search.space_generator.test_design_spaces import OURS


def processed(postproc: Postproc, before: str, after: str) -> Schedule:
    """Run a postprocessor, compare the program with `after`, and check that it computes the same."""
    func = parse(before)
    sch = Schedule(func, debug_mask="all")
    assert postproc.apply(sch)
    assert_structural_equal(sch.mod["main"], parse(after))
    expected = random_arguments(func, 0)
    actual = [a.copy() for a in expected]
    interpret(func, *expected)
    interpret(sch.mod, *actual)
    for got, wanted in zip(actual, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)
    return sch


# ------------------------------------------------------------------------------------ dynamic loops

DYNAMIC = """
@T.prim_func
def main(a: T.handle, n: T.int32):
    A = T.match_buffer(a, (n,), "float32")
    for i in range(n):
        with T.block("A"):
            vi = T.axis.spatial(n, i)
            A[vi] = T.float32(1)
"""


def test_loops_of_unknown_length_are_rejected() -> None:
    dynamic = Schedule(parse(DYNAMIC))
    assert not DisallowDynamicLoop().apply(dynamic)
    assert DisallowDynamicLoop().reason(dynamic) == (
        "the extent of loop i is not constant: n; fix the sizes with PrimFunc.specialize"
    )
    constant = (
        DYNAMIC.replace("(n,)", "(8,)").replace("n, i", "8, i").replace("range(n)", "range(8)")
    )
    assert DisallowDynamicLoop().apply(Schedule(parse(constant)))


TRIANGLE = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32")):
    for i in range(8):
        for j in range(i):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = T.float32(1)
"""


@pytest.mark.parametrize(("keeps", "accepted"), [(False, False), (True, True)])
def test_loops_of_the_program_whose_length_depends_on_others_stay_on_request(
    keeps: bool, accepted: bool
) -> None:
    postprocs = [DisallowDynamicLoop(keep_program_loops=keeps)]
    generator = ms.space_generator.ScheduleFn(lambda sch: None, postprocs=postprocs)
    context = ms.TuneContext(parse(TRIANGLE), target="llvm -num-cores=1", space_generator=generator)
    assert context.mod is not None
    assert context.space_generator is not None
    assert context.space_generator.postprocs[0].apply(Schedule(context.mod)) is accepted


def test_a_program_without_blocks_passes() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    for i in range(8):
        A[i] = T.float32(1)
"""
    for postproc in (
        DisallowDynamicLoop(),
        RewriteParallelVectorizeUnroll(),
        RewriteReductionBlock(),
        RewriteLayout(),
    ):
        processed(postproc, text, text)


# ------------------------------------------------------------------- parallel, vectorize and unroll

ELEMENTWISE = """
@T.prim_func
def main(A: T.Buffer((12, 50), "float32"), B: T.Buffer((12, 50), "float32")):
    with T.block("root"):
        T.block_attr({"meta_schedule.parallel": 8, "meta_schedule.vectorize": 64, "meta_schedule.unroll_explicit": 16})
        for i, j in T.grid(12, 50):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
"""


def test_loops_without_gaps_are_flattened() -> None:
    """All loops step through memory as one: 600 elements in vectors of 64, the last one short."""
    after = """
@T.prim_func
def main(A: T.Buffer((12, 50), "float32"), B: T.Buffer((12, 50), "float32")):
    for f_0 in T.parallel(10):
        for f_1 in T.vectorized(64):
            with T.block("B"):
                vi = T.axis.spatial(12, (f_0 * 64 + f_1) // 50)
                vj = T.axis.spatial(50, (f_0 * 64 + f_1) % 50)
                T.where(f_0 * 64 + f_1 < 600)
                B[vi, vj] = A[vi, vj] + T.float32(1)
"""
    processed(RewriteParallelVectorizeUnroll(one_core=0), ELEMENTWISE, after)


def test_a_gap_in_memory_ends_the_vector() -> None:
    transposed = ELEMENTWISE.replace("A: T.Buffer((12, 50)", "A: T.Buffer((50, 12)").replace(
        "A[vi, vj]", "A[vj, vi]"
    )
    after = """
@T.prim_func
def main(A: T.Buffer((50, 12), "float32"), B: T.Buffer((12, 50), "float32")):
    for i_fused in T.parallel(12):
        for j_fused in T.vectorized(50):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i_fused, j_fused])
                B[vi, vj] = A[vj, vi] + T.float32(1)
"""
    processed(RewriteParallelVectorizeUnroll(one_core=0), transposed, after)


TILED = """
@T.prim_func
def main(A: T.Buffer((32, 16), "float32"), B: T.Buffer((16, 32), "float32"), C: T.Buffer((32, 32), "float32")):
    with T.block("root"):
        T.block_attr({"meta_schedule.parallel": 8, "meta_schedule.vectorize": 16, "meta_schedule.unroll_implicit": 64})
        for i0, j0, i1, k, j1 in T.grid(4, 4, 8, 16, 8):
            with T.block("C"):
                vi = T.axis.spatial(32, i0 * 8 + i1)
                vj = T.axis.spatial(32, j0 * 8 + j1)
                vk = T.axis.reduce(16, k)
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

TILED_AFTER = """
@T.prim_func
def main(A: T.Buffer((32, 16), "float32"), B: T.Buffer((16, 32), "float32"), C: T.Buffer((32, 32), "float32")):
    for f in T.parallel(16, annotations={"pragma_auto_unroll_max_step": 64, "pragma_unroll_explicit": 0}):
        for i1, k in T.grid(8, 16):
            for j1 in T.vectorized(8):
                with T.block("C"):
                    vi = T.axis.spatial(32, f // 4 * 8 + i1)
                    vj = T.axis.spatial(32, f % 4 * 8 + j1)
                    vk = T.axis.reduce(16, k)
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def test_outer_loops_run_in_parallel_and_the_inner_one_as_a_vector() -> None:
    """The loop that reaches the limit of 8 is included, the reduction stays serial."""
    processed(RewriteParallelVectorizeUnroll(), TILED, TILED_AFTER)


def test_a_limit_of_zero_does_not_unroll() -> None:
    before = TILED.replace('unroll_implicit": 64', 'unroll_implicit": 0')
    after = TILED_AFTER.replace(
        ', annotations={"pragma_auto_unroll_max_step": 64, "pragma_unroll_explicit": 0}', ""
    )
    processed(RewriteParallelVectorizeUnroll(one_core=0), before, after)


def test_what_nobody_asks_for_is_not_done() -> None:
    plain = TILED.replace(
        '"meta_schedule.parallel": 8, "meta_schedule.vectorize": 16, "meta_schedule.unroll_implicit": 64',
        '"other": 1',
    )
    sch = processed(RewriteParallelVectorizeUnroll(), plain, plain)
    assert not sch.trace.insts
    before = TILED.replace('"meta_schedule.parallel": 8, ', "").replace(
        ', "meta_schedule.unroll_implicit": 64', ""
    )
    func = parse(before)
    sch = Schedule(func)
    RewriteParallelVectorizeUnroll().apply(sch)
    called = [inst.kind.name for inst in sch.trace.insts]
    assert called == ["GetBlock", "Unannotate", "GetChildBlocks", "GetLoops", "Fuse", "Vectorize"]


def on_four_cores() -> RewriteParallelVectorizeUnroll:
    """Return the postprocessor for a machine whose parallel loops take 2,500 cycles."""
    postproc = RewriteParallelVectorizeUnroll()
    target = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512 -num-cores=4"
    postproc._initialize_with_tune_context(ms.TuneContext(parse(ELEMENTWISE), target=target))
    assert Machine.of(Target(target)).fork_cycles == 2500
    return postproc


def test_what_takes_less_time_than_threads_to_start_stays_on_one_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """600 elements of a small program; a product of 16^3 steps takes 1,000 cycles, of 32^3 8,000."""
    monkeypatch.setattr("search.feature_extractor.machine.known_speed", lambda target: None)
    sch = Schedule(parse(ELEMENTWISE))
    on_four_cores().apply(sch)
    assert "T.parallel" not in sch.mod.script()
    assert "T.vectorized" in sch.mod.script()
    for n, is_parallel in ((16, False), (32, True)):
        sch = Schedule(workloads.create("GMM", n=n, m=n, k=n))
        sch.annotate(sch.get_block("root"), "meta_schedule.parallel", 64)
        on_four_cores().apply(sch)
        assert ("T.parallel" in sch.mod.script()) is is_parallel


def test_no_parallel_iterations_are_none_at_all() -> None:
    for jobs, is_parallel in ((0, False), (1, True), (64, True)):
        sch = Schedule(workloads.create("GMM", n=128, m=128, k=128))
        sch.annotate(sch.get_block("root"), "meta_schedule.parallel", jobs)
        RewriteParallelVectorizeUnroll().apply(sch)
        assert ("T.parallel" in sch.mod.script()) is is_parallel


def test_a_marked_loop_is_left_alone() -> None:
    """The second block below a parallel loop finds the pragma of the first there."""
    before = """
@T.prim_func
def main(A: T.Buffer((4, 8, 8), "float32"), B: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
    with T.block("root"):
        T.block_attr({"meta_schedule.parallel": 4, "meta_schedule.vectorize": 16, "meta_schedule.unroll_explicit": 16})
        for i in range(4):
            for j, k in T.grid(8, 8):
                with T.block("B"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        B[vi, vj] = T.float32(0)
                    B[vi, vj] = B[vi, vj] + A[vi, vj, vk]
            for j in range(8):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] * T.float32(2)
"""
    after = """
@T.prim_func
def main(A: T.Buffer((4, 8, 8), "float32"), B: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
    for i in T.parallel(4, annotations={"pragma_auto_unroll_max_step": 16, "pragma_unroll_explicit": 1}):
        for j, k in T.grid(8, 8):
            with T.block("B"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    B[vi, vj] = T.float32(0)
                B[vi, vj] = B[vi, vj] + A[vi, vj, vk]
        for j in T.vectorized(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] * T.float32(2)
"""
    processed(RewriteParallelVectorizeUnroll(one_core=0), before, after)


# --------------------------------------------------------------------------------------- reductions


def test_the_init_goes_before_the_first_reduction_loop() -> None:
    after = """
@T.prim_func
def main(A: T.Buffer((32, 16), "float32"), B: T.Buffer((16, 32), "float32"), C: T.Buffer((32, 32), "float32")):
    for f in T.parallel(16, annotations={"pragma_auto_unroll_max_step": 64, "pragma_unroll_explicit": 0}):
        for i1 in range(8):
            for j1_init in T.vectorized(8):
                with T.block("C_init"):
                    vi = T.axis.spatial(32, f // 4 * 8 + i1)
                    vj = T.axis.spatial(32, f % 4 * 8 + j1_init)
                    C[vi, vj] = T.float32(0)
            for k in range(16):
                for j1 in T.vectorized(8):
                    with T.block("C_update"):
                        vi = T.axis.spatial(32, f // 4 * 8 + i1)
                        vj = T.axis.spatial(32, f % 4 * 8 + j1)
                        vk = T.axis.reduce(16, k)
                        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
    processed(RewriteReductionBlock(), TILED_AFTER, after)


def test_each_part_keeps_the_intrinsic_meant_for_it() -> None:
    marked = TILED_AFTER.replace(
        "                    with T.init",
        '                    T.block_attr({"meta_schedule.auto_tensorize": "dot", "meta_schedule.auto_tensorize_init": "zero"})\n'
        "                    with T.init",
    )
    sch = Schedule(parse(marked), debug_mask="all")
    assert RewriteReductionBlock().apply(sch)
    init, update = (sch.get(sch.get_block(name)).annotations for name in ("C_init", "C_update"))
    assert dict(init) == {"meta_schedule.auto_tensorize": "zero"}
    assert dict(update) == {"meta_schedule.auto_tensorize": "dot"}


def test_a_reduction_without_a_loop_over_it_keeps_its_init() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            vk = T.axis.reduce(1, 0)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi]
"""
    processed(RewriteReductionBlock(), text, text)


# --------------------------------------------------------------------------------------- the search


class Never(Postproc):
    def apply(self, sch: Schedule) -> bool:
        return False


def test_rejections_are_counted_by_postprocessor() -> None:
    task = ms.TuneContext(
        parse(TILED),
        target="llvm -num-cores=4",
        space_generator=ms.space_generator.PostOrderApply(
            sch_rules=[], postprocs=[DisallowDynamicLoop(), Never()], mutator_probs={}
        ),
        search_strategy="replay-trace",
        rand_state=1,
    )
    application = TraceApplication(task)
    (space,) = task.generate_design_space()
    assert application.apply(space.trace) is None
    assert application.summary().splitlines() == [
        "Postproc #0 [DisallowDynamicLoop()]: 0 failure(s)",
        "Postproc #1 [Never()]: 1 failure(s)",
    ]


@pytest.mark.parametrize("text", [ELEMENTWISE, TILED], ids=["elementwise", "tiled"])
def test_what_postprocessors_do_replays(text: str) -> None:
    sch = Schedule(parse(text))
    sch.enter_postproc()
    for postproc in (RewriteParallelVectorizeUnroll(), RewriteReductionBlock(), RewriteLayout()):
        assert postproc.apply(sch)
    again = Schedule(parse(text))
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)
    untouched = Schedule(parse(text))
    sch.trace.apply_to_schedule(untouched, remove_postproc=True)
    assert_structural_equal(untouched.mod["main"], parse(text))


def refused_rows() -> list[Any]:
    return [row for row in recorded("spaces") if not row["ok"]]


@pytest.mark.parametrize("row", refused_rows(), ids=lambda row: f"{row['workload']}-{row['space']}")
def test_what_the_reference_refuses_is_refused(row: Any) -> None:
    task = ms.TuneContext(
        parse(row["before"]),
        target="llvm -num-cores=4",
        space_generator=ms.space_generator.PostOrderApply(
            sch_rules=[r for r in ScheduleRule.create("llvm", steps=64) if not isinstance(r, OURS)]
        ),
        search_strategy="replay-trace",
        rand_state=1,
    )
    trace = Trace.from_json(row["trace"])
    spaces = [s.trace.simplified(True).as_json()[0] for s in task.generate_design_space()]
    assert trace.simplified(True).as_json()[0] in spaces
    application = TraceApplication(task)
    assert application.apply(trace) is None
    assert application.failures == {"DisallowDynamicLoop()": 1}
