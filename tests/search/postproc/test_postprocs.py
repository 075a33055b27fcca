"""Each postprocessor: a program before and after, and what it rejects."""

from __future__ import annotations

from typing import Any

import pytest

import search as ms
from codegen import Target
from schedule import Schedule, Trace
from search.feature_extractor.machine import Machine
from search.postproc import (
    DisallowDynamicLoop,
    RewriteLayout,
    RewriteParallelVectorizeUnroll,
    RewriteReductionBlock,
)
from search.schedule_rule import ScheduleRule
from search.search_strategy.trace_application import TraceApplication
from tensorir import ForKind, assert_structural_equal, parse, workloads
from tests.recorded import recorded
from tests.search.schedule_rule.programs import program
from tests.search.space_generator.test_design_spaces import OURS

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


# ------------------------------------------------------------------- parallel, vectorize and unroll


ROWS = """
@T.prim_func
def main(A: T.Buffer((64, 8), "float32"), B: T.Buffer((64, 8), "float32")):
    with T.block("root"):
        T.block_attr({"meta_schedule.parallel": 64, "meta_schedule.vectorize": 16})
        for i in range(64):
            with T.block("row"):
                vi = T.axis.spatial(64, i)
                for j in range(8):
                    with T.block("B"):
                        vj = T.axis.spatial(8, j)
                        B[vi, vj] = A[vi, vj] * T.float32(2)
"""


@pytest.mark.parametrize(("cores", "kind"), [(64, ForKind.PARALLEL), (-1, ForKind.SERIAL)])
def test_a_block_around_others_may_run_in_parallel_but_not_in_vectors(
    cores: int, kind: ForKind
) -> None:
    sch = Schedule(parse(ROWS.replace('parallel": 64', f'parallel": {cores}')))
    assert RewriteParallelVectorizeUnroll().apply(sch)
    (loop,) = sch.get_loops(sch.get_block("row"))
    assert sch.get(loop).kind is kind


def on_four_cores() -> RewriteParallelVectorizeUnroll:
    """Return the postprocessor for a machine whose parallel loops take 2,500 cycles."""
    postproc = RewriteParallelVectorizeUnroll()
    target = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512 -num-cores=4"
    postproc._initialize_with_tune_context(ms.TuneContext(program("elementwise"), target=target))
    assert Machine.of(Target(target)).fork_cycles == 2500
    return postproc


def test_what_takes_less_time_than_threads_to_start_stays_on_one_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """600 elements of a small program; a product of 16^3 steps takes 1,000 cycles, of 32^3 8,000."""
    monkeypatch.setattr("search.feature_extractor.machine.known_speed", lambda target: None)
    sch = Schedule(program("elementwise"))
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


# --------------------------------------------------------------------------------------- the search


@pytest.mark.parametrize("text", ["elementwise", "marked matmul"])
def test_what_postprocessors_do_replays(text: str) -> None:
    sch = Schedule(program(text))
    sch.enter_postproc()
    for postproc in (RewriteParallelVectorizeUnroll(), RewriteReductionBlock(), RewriteLayout()):
        assert postproc.apply(sch)
    again = Schedule(program(text))
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)
    untouched = Schedule(program(text))
    sch.trace.apply_to_schedule(untouched, remove_postproc=True)
    assert_structural_equal(untouched.mod["main"], program(text))


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
