"""Mutators change one decision, and what they make can be replayed."""

from math import prod

import pytest

import search as ms
from schedule import Schedule, Trace
from schedule.random_state import RandomState
from search.errors import TuningError
from search.mutator import (
    MutateComputeLocation,
    MutateParallel,
    MutateThreadBinding,
    MutateTileSize,
    MutateUnroll,
    Mutator,
)
from search.search_strategy.trace_application import TraceApplication
from tensorir import parse, workloads
from tensorir.function import IRModule, PrimFunc
from tests.search.programs import Matmul

PADDED_SUM = """
@T.prim_func
def main(A: T.Buffer((30, 8), "float32"), B: T.Buffer((8, 16), "float32"), C: T.Buffer((32, 16), "float32")):
    P = T.alloc_buffer((32, 8))
    for i, k in T.grid(32, 8):
        with T.block("P"):
            vi, vk = T.axis.remap("SS", [i, k])
            P[vi, vk] = T.if_then_else(1 <= vi and vi < 31, A[vi - 1, vk], T.float32(0))
    for i, j, k in T.grid(32, 16, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + P[vi, vk] * B[vk, vj]
"""


def task(mod: IRModule) -> ms.TuneContext:
    return ms.TuneContext(
        mod,
        target="llvm -num-cores=4",
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        rand_state=3,
    )


def padded_sum() -> IRModule:
    func = parse(PADDED_SUM)
    assert isinstance(func, PrimFunc)
    return IRModule({"main": func})


def differences(before: Trace, after: Trace) -> list[tuple[str, object, object]]:
    return [
        (inst.kind.name, before.decisions[inst], after.decisions[inst])
        for inst in before.insts
        if inst in before.decisions and before.decisions[inst] != after.decisions[inst]
    ]


@pytest.mark.parametrize(
    ("mutator", "kind"),
    [
        (MutateTileSize(), "SamplePerfectTile"),
        (MutateUnroll(), "SampleCategorical"),
        (MutateComputeLocation(), "SampleComputeLocation"),
    ],
    ids=str,
)
def test_one_decision_changes(mutator: Mutator, kind: str) -> None:
    context = task(padded_sum())
    mutator._initialize_with_tune_context(context)
    trace = context.generate_design_space()[0].trace
    rng = RandomState(5)
    results = [mutator.apply(trace, rng) for _ in range(20)]
    for mutated in results:
        assert mutated is not None
        ((changed, before, after),) = differences(trace, mutated)
        assert changed == kind
        if kind == "SamplePerfectTile":
            assert isinstance(before, (list, tuple))
            assert isinstance(after, tuple)
            assert prod(before) == prod(after)
            assert after[-1] <= 64
        sch = Schedule(padded_sum())
        mutated.apply_to_schedule(sch, remove_postproc=True)
    assert len({str(mutated.as_json()) for mutated in results if mutated is not None}) > 1


def test_another_number_of_threads() -> None:
    mod = IRModule.from_expr(workloads.create("SFM", m=64, n=64))
    context = ms.TuneContext(mod, target="cuda", space_generator="post-order-apply", rand_state=1)
    mutator = MutateThreadBinding()
    mutator._initialize_with_tune_context(context)
    for space in context.generate_design_space():
        mutated = mutator.apply(space.trace, RandomState(5))
        assert mutated is not None
        ((kind, before, after),) = differences(space.trace, mutated)
        assert kind == "SampleCategorical"
        assert before != after
        (changed,) = set(mutated.as_python()) - set(space.trace.as_python())
        assert "candidates=[0, 16" not in changed, "the limit of unrolling stays"


NEST = """
@T.prim_func
def main(A: T.Buffer((4, 8, 32, 4), "float32"), B: T.Buffer((4, 8, 32, 4), "float32")):
    for i, j, k, l in T.grid(4, 8, 32, 4):
        with T.block("B"):
            vi, vj, vk, vl = T.axis.remap("SSSS", [i, j, k, l])
            B[vi, vj, vk, vl] = A[vi, vj, vk, vl] + T.float32(1)
"""


def test_a_sampled_number_of_iterations_gets_another_choice() -> None:
    def mark(sch: Schedule) -> None:
        number = sch.sample_categorical([4, 64], [0.5, 0.5], decision=0)
        sch.annotate(sch.get_block("root"), "meta_schedule.parallel", number)

    func = parse(NEST)
    assert isinstance(func, PrimFunc)
    context = ms.TuneContext(func, target="llvm -num-cores=512", space_generator=mark)
    mutator = MutateParallel(max_jobs_per_core=8)
    mutator._initialize_with_tune_context(context)
    (space,) = context.generate_design_space()
    mutated = mutator.apply(space.trace, RandomState(1))
    assert mutated is not None
    assert differences(space.trace, mutated) == [("SampleCategorical", 0, 1)]


def one_tile(extent: int, limit: int, decision: list[int]) -> Trace:
    func = parse(NEST.replace("32, 4)", f"{extent}, 4)"))
    assert isinstance(func, PrimFunc)
    sch = Schedule(func)
    loop = sch.get_loops(sch.get_block("B"))[2]
    sch.sample_perfect_tile(loop, n=len(decision), max_innermost_factor=limit, decision=decision)
    return sch.trace


def test_nothing_to_change() -> None:
    trace = Schedule(Matmul).trace
    for mutator in (MutateTileSize(), MutateUnroll()):
        assert mutator.apply(trace, RandomState(1)) is None
    assert MutateTileSize().apply(one_tile(1, 8, [1, 1]), RandomState(1)) is None
    assert MutateTileSize().apply(one_tile(7, 4, [7, 1]), RandomState(1)) is None


def test_stored_traces_are_mutated_once_the_program_is_known() -> None:
    """A trace from a file has its alternatives once it is applied."""
    context = task(padded_sum())
    trace = Trace.from_json(context.generate_design_space()[0].trace.as_json())
    for mutator, kind in [
        (MutateTileSize(), "SamplePerfectTile"),
        (MutateComputeLocation(), "SampleComputeLocation"),
    ]:
        with pytest.raises(TuningError, match="cannot change a trace that was not applied"):
            mutator.apply(trace, RandomState(1))
        mutator._initialize_with_tune_context(context)
        mutated = mutator.apply(trace, RandomState(1))
        assert mutated is not None
        before, after = trace.as_json(), mutated.as_json()
        assert before[0] == after[0]
        changed = [k for (k, old), (_, new) in zip(before[1], after[1], strict=True) if old != new]
        assert [trace.insts[k].kind.name for k in changed] == [kind]


class SetNumber(Mutator):
    """Puts another number into an annotation of a trace, without knobs."""

    def __init__(self, key: str) -> None:
        self.key = key

    def apply(self, trace: Trace, rand_state: RandomState) -> Trace | None:
        rows, decisions = trace.as_json()
        for row in rows:
            if row[0] == "Annotate" and row[2] == [self.key]:
                row[1][1] = 32
        return Trace.from_json([rows, decisions])


def test_a_mutator_of_traces_gives_points_too() -> None:
    (space, *_) = ms.design_spaces(Matmul, "llvm -num-cores=4")
    rng = RandomState(1)
    point = SetNumber("meta_schedule.parallel").neighbour(space, space.decisions, rng)
    assert point == (*space.decisions[:-1], 32)
    outside = SetNumber("meta_schedule.vectorize").neighbour(space, space.decisions, rng)
    assert outside is None, "no knob of the space"


def test_mutants_of_mutants_survive_postprocessing() -> None:
    """A chain of mutations stays within what the postprocessors accept."""
    context = task(padded_sum())
    application = TraceApplication(context)
    assert context.space_generator is not None
    rng = RandomState(4)
    for space in context.generate_design_space():
        sch = application.apply(space.trace, resample=True)
        assert sch is not None
        for mutator in context.space_generator.mutator_probs:
            mutated = mutator.apply(sch.trace, rng)
            if mutated is not None:
                sch = application.apply(mutated)
                assert sch is not None
