"""Mutators change one decision, and what they make can be replayed."""

from math import prod

import pytest

import search as ms
from schedule import Schedule, Trace
from schedule.random_state import RandomState
from search.mutator import (
    MutateComputeLocation,
    MutateParallel,
    MutateTileSize,
    MutateUnroll,
    Mutator,
)
from tensorir import parse
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
            assert isinstance(after, list)
            assert prod(before) == prod(after)
            assert after[-1] <= 64
        sch = Schedule(padded_sum())
        mutated.apply_to_schedule(sch, remove_postproc=True)
    assert len({str(mutated.as_json()) for mutated in results if mutated is not None}) > 1


def test_another_number_of_parallel_iterations() -> None:
    context = task(Matmul)
    mutator = MutateParallel(max_jobs_per_core=16)
    mutator._initialize_with_tune_context(context)
    trace = context.generate_design_space()[2].trace
    rng = RandomState(5)
    values = set()
    for _ in range(20):
        mutated = mutator.apply(trace, rng)
        if mutated is not None:
            (line,) = [x for x in mutated.as_python() if "meta_schedule.parallel" in x]
            values.add(int(line.split("ann_val=")[1].rstrip(")")))
    assert values
    assert 64 not in values, "the present value"
    assert max(values) <= 64


def test_nothing_to_change() -> None:
    trace = Schedule(Matmul).trace
    for mutator in (MutateTileSize(), MutateUnroll()):
        assert mutator.apply(trace, RandomState(1)) is None
