"""Reductions along memory are done in the lanes of vectors, and their partial sums as a tree."""

from __future__ import annotations

import pytest

import codegen
import search as ms
from schedule import Schedule
from search.schedule_rule import AddRFactor, RFactorOverLanes, ScheduleRule
from search.search_strategy.trace_application import TraceApplication
from search.space_generator.vector_lanes import Lanes, vector_lanes
from tensorir import workloads
from tests.search.schedule_rule.programs import Reference, program

SSE = "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64 -num-cores=1"  # registers of 4 floats
AVX2 = "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -num-cores=1"  # of 8 floats
AVX512 = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512 -num-cores=1"  # of 16 floats


def linear(rows: int, columns: int, depth: int, dtype: str = "float32") -> str:
    """Return a product with a transposed matrix, plus a bias."""
    return f"""
@T.prim_func
def main(X: T.Buffer(({rows}, {depth}), "{dtype}"), W: T.Buffer(({columns}, {depth}), "{dtype}"), B: T.Buffer(({columns},), "{dtype}"), Z: T.Buffer(({rows}, {columns}), "{dtype}")):
    Y = T.alloc_buffer(({rows}, {columns}), "{dtype}")
    for i, j, k in T.grid({rows}, {columns}, {depth}):
        with T.block("Y"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                Y[vi, vj] = T.cast(0, "{dtype}")
            Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]
    for i, j in T.grid({rows}, {columns}):
        with T.block("Z"):
            vi, vj = T.axis.remap("SS", [i, j])
            Z[vi, vj] = Y[vi, vj] + B[vj]
"""


MATRIX_VECTOR = """
@T.prim_func
def main(A: T.Buffer((6, 32), "float32"), B: T.Buffer((32,), "float32"), C: T.Buffer((6,), "float32")):
    for i, k in T.grid(6, 32):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk] * B[vk]
"""


ROW_SUM = MATRIX_VECTOR.replace(" * B[vk]", "")
ROW_MAX = ROW_SUM.replace("C[vi] + A[vi, vk]", "T.max(C[vi], A[vi, vk])").replace(
    "C[vi] = T.float32(0)", "C[vi] = T.min_value('float32')"
)
TUPLE = """
@T.prim_func
def main(A: T.Buffer((6, 64), "float32"), P: T.Buffer((6,), "{dtype}"), Q: T.Buffer((6,), "float32")):
    for i, k in T.grid(6, 64):
        with T.block("{block}"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                P[vi] = T.cast({first}, "{dtype}")
                Q[vi] = {second}
            p: T.{dtype} = {p}
            q: T.float32 = {q}
            P[vi] = p
            Q[vi] = q
"""
ARGMAX = TUPLE.format(
    dtype="int32", block="at", first=-1, second="T.min_value('float32')",
    p="T.Select(Q[vi] >= A[vi, vk], P[vi], vk)", q="T.max(Q[vi], A[vi, vk])",
)  # fmt: skip
SUM_AND_SQUARES = TUPLE.format(
    dtype="float32", block="sums", first=0, second="T.float32(0)",
    p="P[vi] + A[vi, vk]", q="Q[vi] + A[vi, vk] * A[vi, vk]",
)  # fmt: skip
TWO_REDUCTIONS = """
@T.prim_func
def main(A: T.Buffer((4, 3, 16), "float32"), B: T.Buffer((6, 3, 16), "float32"), C: T.Buffer((4, 6), "float32")):
    for k, i, r, j in T.grid(16, 4, 3, 6):
        with T.block("C"):
            vk, vi, vr, vj = T.axis.remap("RSRS", [k, i, r, j])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vr, vk] * B[vj, vr, vk]
"""


def made(text: str, block: str, target: str = AVX512) -> list[Schedule]:
    """Apply the rule to a block."""
    func = program(text)
    rule = RFactorOverLanes()
    rule._initialize_with_tune_context(ms.TuneContext(func, target=target, rand_state=1))
    sch = Schedule(func, seed=1, debug_mask="all")
    return rule.apply(sch, sch.get_block(block))


def with_decisions(sch: Schedule, text: str, *decisions: list[int]) -> Schedule:
    """Replay a schedule with other tiles."""
    trace = sch.trace
    for inst, decision in zip(list(trace.decisions), decisions, strict=True):
        trace = trace.with_decision(inst, decision, remove_postproc=True)
    again = Schedule(program(text), debug_mask="all")
    trace.apply_to_schedule(again, remove_postproc=True)
    return again


def application(text: str, target: str) -> TraceApplication:
    return TraceApplication(
        ms.TuneContext(
            program(text),
            target=target,
            space_generator="post-order-apply",
            search_strategy="replay-trace",
            rand_state=1,
        )
    )


@pytest.mark.parametrize(
    ("text", "block", "target"),
    [
        (linear(4, 6, 64), "Y", SSE),
        (linear(4, 4, 35), "Y", AVX2),  # lengthened to 40
        (linear(4, 4, 7), "Y", AVX2),  # seven lanes cannot be halved
        (linear(4, 6, 64, "int32"), "Y", AVX512),
        (TWO_REDUCTIONS, "C", SSE),
        (ROW_MAX.replace("6, 32", "6, 127"), "C", AVX512),
        (ARGMAX.replace("6, 64", "6, 37"), "at", AVX2),
        (SUM_AND_SQUARES, "sums", SSE),
    ],
)
def test_programs_of_the_design_compute_the_same(text: str, block: str, target: str) -> None:
    in_lanes, _ = made(text, block, target)
    reference, candidates = Reference(program(text)), application(text, target)
    for _ in range(3):
        sch = candidates.apply(in_lanes.trace, resample=True)
        assert sch is not None
        reference.check(sch.mod, rtol=1e-4, atol=1e-5)


def test_partial_sums_stay_in_registers() -> None:
    text = linear(8, 12, 256)
    in_lanes, _ = made(text, "Y")
    tiles = with_decisions(in_lanes, text, [16, 1], [1, 2, 4], [1, 3, 4])
    sch = application(text, AVX512).apply(tiles.trace)
    assert sch is not None
    partial = codegen.explain(sch.mod, AVX512).accumulators[0]
    assert (partial.buffer, partial.count, partial.lanes) == ("Y_rf", 16, 16)
    assert partial.home == "registers"


def test_partial_results_of_a_tuple_stay_in_registers() -> None:
    in_lanes, _ = made(ARGMAX, "at", AVX2)
    tiles = with_decisions(in_lanes, ARGMAX, [2, 4], [6, 1, 1])
    sch = application(ARGMAX, AVX2).apply(tiles.trace)
    assert sch is not None
    said = str(codegen.explain(sch.mod, AVX2))
    assert "store P " in said
    assert "_rf " not in said[said.index("access  ") :]


@pytest.mark.parametrize(
    ("extent", "register", "padded", "divided"),
    [
        (1024, 16, (16, 1), (16, 1)),
        (1000, 16, (8, 1), (8, 1)),  # not ten lanes, that divide it too
        (1000, 8, (8, 1), (8, 1)),
        (1001, 8, (8, 8), (7, 1)),
        (1001, 16, (16, 16), (13, 1)),  # 63 vectors are nine times seven
        (127, 16, (16, 16), (1, 1)),
        (12, 16, (12, 1), (12, 1)),
        (976, 16, (16, 64), (16, 1)),  # 61 vectors cannot be shared out
        (7, 8, (7, 1), (7, 1)),
        (3, 16, (1, 1), (1, 1)),
    ],
)
def test_the_lanes_along_a_row(
    extent: int, register: int, padded: tuple[int, int], divided: tuple[int, int]
) -> None:
    assert vector_lanes(extent, register, may_pad=True) == Lanes(*padded)
    assert vector_lanes(extent, register, may_pad=False) == Lanes(*divided)


def test_the_design_space_of_a_product_with_a_transposed_matrix() -> None:
    task = ms.TuneContext(
        program(linear(1, 128, 784)),
        target=AVX512,
        space_generator="post-order-apply",
        search_strategy="replay-trace",
    )
    names = [
        {b.block.name_hint for b in s.state.blocks("main")} for s in task.generate_design_space()
    ]
    assert [sorted(found) for found in names] == [
        ["Y", "Y_rf", "Y_rf_1", "Y_rf_2", "Y_rf_3", "Z", "root"],
        *[["Y", "Z", "root"]] * 3,
    ]


def test_partial_results_are_not_factored_again() -> None:
    text = linear(1, 4, 4096)
    task = ms.TuneContext(program(text), target="llvm -num-cores=4", rand_state=1)
    first, second = AddRFactor(16, 64), RFactorOverLanes()
    for rule in (first, second):
        rule._initialize_with_tune_context(task)
    sch = Schedule(program(text), seed=1)
    block = sch.get_block("Y")
    outer, inner, _ = first.apply(sch, block)
    for factored in (outer, inner):
        (same,) = second.apply(factored, block)
        assert same is factored


def test_the_number_of_spaces_of_a_softmax_follows_from_the_rules() -> None:
    """Each of its two reductions: as it is, factored in two ways, or in lanes where they fit."""
    softmax = workloads.create("SFM", m=128, n=17)
    target = "llvm -mcpu=x86-64-v3 -num-cores=4"
    rules = [r for r in ScheduleRule.create("llvm") if not isinstance(r, RFactorOverLanes)]
    assert len(ms.design_spaces(softmax, target)) == 16
    space = ms.space_generator.PostOrderApply(sch_rules=rules)
    assert len(ms.design_spaces(softmax, target, space)) == 9
