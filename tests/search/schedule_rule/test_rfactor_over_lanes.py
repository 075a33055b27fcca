"""Reductions along memory are done in the lanes of vectors, and their partial sums as a tree."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
import search as ms
from schedule import Schedule
from search.schedule_rule import AddRFactor, RFactorOverLanes, ScheduleRule
from search.search_strategy.trace_application import TraceApplication
from search.space_generator.vector_lanes import Lanes, vector_lanes
from tensorir import assert_structural_equal, parse, simplify, workloads
from tensorir.function import PrimFunc
from tensorir.interp import interpret, random_arguments

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
IN_LANES = """
@T.prim_func
def main(A: T.Buffer((6, 32), "float32"), B: T.Buffer((32,), "float32"), C: T.Buffer((6,), "float32")):
    C_rf = T.alloc_buffer((6, 8))
    C_rf_1 = T.alloc_buffer((6, 2))
    for i_0, i_1 in T.grid(1, 2):
        for k_0, vector, i_2 in T.grid(4, 2, 3):
            for lane in T.vectorized(4):
                with T.block("C_rf"):
                    vlane = T.axis.spatial(8, vector * 4 + lane)
                    vi = T.axis.spatial(6, i_1 * 3 + i_2)
                    vk = T.axis.reduce(4, k_0)
                    T.block_attr({"meta_schedule.tiling_structure": "SSRS"})
                    with T.init():
                        C_rf[vi, vlane] = T.float32(0)
                    C_rf[vi, vlane] = C_rf[vi, vlane] + A[vi, vk * 8 + vlane] * B[vk * 8 + vlane]
        for i_2 in range(3):
            for pair in T.unroll(4):
                for half in T.vectorized(2):
                    with T.block("C_rf_1"):
                        vhalf, vpair = T.axis.remap("SR", [half, pair])
                        vi = T.axis.spatial(6, i_1 * 3 + i_2)
                        T.block_attr({"meta_schedule.tiling_structure": "SSRS"})
                        with T.init():
                            C_rf_1[vi, vhalf] = T.float32(0)
                        C_rf_1[vi, vhalf] = C_rf_1[vi, vhalf] + C_rf[vi, vpair * 2 + vhalf]
            for half in T.unroll(2):
                with T.block("C"):
                    vhalf = T.axis.reduce(2, half)
                    vi = T.axis.spatial(6, i_0 * 6 + i_1 * 3 + i_2)
                    T.block_attr({"meta_schedule.tiling_structure": "SSRS"})
                    with T.init():
                        C[vi] = T.float32(0)
                    C[vi] = C[vi] + C_rf_1[vi, vhalf]
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
COLUMN_SUM = ROW_SUM.replace("A: T.Buffer((6, 32)", "A: T.Buffer((32, 6)").replace(
    "A[vi, vk]", "A[vk, vi]"
)
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


def program(text: str) -> PrimFunc:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


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


def test_a_matrix_vector_product_in_lanes() -> None:
    in_lanes, plain = made(MATRIX_VECTOR, "C", SSE)
    assert_structural_equal(plain.mod["main"], program(MATRIX_VECTOR))
    sch = with_decisions(in_lanes, MATRIX_VECTOR, [4, 2], [1, 2, 3])
    assert_structural_equal(simplify(sch.mod["main"]), simplify(program(IN_LANES)))


@pytest.mark.parametrize(
    ("text", "block", "target"),
    [
        (MATRIX_VECTOR, "C", AVX512),
        (linear(1, 12, 48), "Y", AVX512),
        (linear(4, 6, 64), "Y", SSE),
        (linear(4, 4, 35), "Y", AVX2),  # lengthened to 40
        (linear(4, 4, 7), "Y", AVX2),  # seven lanes cannot be halved
        (linear(4, 6, 64, "int32"), "Y", AVX512),
        (TWO_REDUCTIONS, "C", SSE),
        (ROW_SUM, "C", AVX512),
        (ROW_SUM.replace("6, 32", "6, 127"), "C", AVX512),
        (ROW_MAX.replace("6, 32", "6, 127"), "C", AVX512),
        (ARGMAX, "at", AVX2),
        (ARGMAX.replace("6, 64", "6, 37"), "at", AVX2),
        (SUM_AND_SQUARES.replace("6, 64", "6, 37"), "sums", SSE),
        (SUM_AND_SQUARES, "sums", SSE),
    ],
)
def test_programs_of_the_design_compute_the_same(text: str, block: str, target: str) -> None:
    in_lanes, _ = made(text, block, target)
    expected = random_arguments(program(text), 0)
    interpret(program(text), *expected)
    candidates = application(text, target)
    for _ in range(6):
        sch = candidates.apply(in_lanes.trace, resample=True)
        assert sch is not None
        actual = random_arguments(program(text), 0)
        interpret(sch.mod, *actual)
        for got, wanted in zip(actual, expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


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


def test_a_row_that_no_vector_divides_is_lengthened() -> None:
    text = ROW_MAX.replace("6, 32", "6, 127")
    in_lanes, _ = made(text, "C", AVX512)
    sch = with_decisions(in_lanes, text, [2, 4], [1, 2, 3])
    steps, vector, _, lane = (sch.get(loop).extent for loop in sch.get_loops("C_rf")[2:])
    assert (int(steps), int(vector), int(lane)) == (2, 4, 16)
    value = sch.get(sch.get_block("C_rf")).body.value.b
    assert str(value) == (
        "T.if_then_else(vk_0_0 * 64 + vk_0_1_k_1_fused < 127, "
        'A[vi, vk_0_0 * 64 + vk_0_1_k_1_fused], T.float32("-inf"))'
    )


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


def test_an_elementwise_consumer_is_computed_with_each_result() -> None:
    in_lanes, _ = made(linear(4, 6, 64), "Y")
    y, z = (in_lanes.get_loops(in_lanes.get_block(name)) for name in "YZ")
    assert [in_lanes.get_sref(a) for a in y[:6]] == [in_lanes.get_sref(b) for b in z[:6]]


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


MATMUL = linear(8, 16, 32).replace("W[vj, vk]", "W[vk % 16, vj]")  # contiguous along a spatial axis


@pytest.mark.parametrize(
    ("text", "block"),
    [
        (MATMUL, "Y"),
        (COLUMN_SUM, "C"),
        (linear(2, 8, 3), "Y"),  # too short for a vector
        (MATRIX_VECTOR.replace("A[vi, vk]", "A[vi, 31 - vk]"), "C"),  # backwards
        (MATRIX_VECTOR.replace("C[vi] + A", "C[vi] - A"), "C"),  # partial sums of what?
        (linear(2, 8, 32), "Z"),
    ],
)
def test_what_stays(text: str, block: str) -> None:
    (sch,) = made(text, block)
    assert_structural_equal(sch.mod["main"], program(text))


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


@pytest.mark.parametrize(
    ("columns", "with_lanes", "without"),
    [(256, 16, 9), (17, 16, 9)],
    ids=["even", "odd"],
)
def test_the_number_of_spaces_of_a_softmax_follows_from_the_rules(
    columns: int, with_lanes: int, without: int
) -> None:
    """Each of its two reductions: as it is, factored in two ways, or in lanes where they fit."""
    softmax = workloads.create("SFM", m=128, n=columns)
    target = "llvm -mcpu=x86-64-v3 -num-cores=4"
    rules = [r for r in ScheduleRule.create("llvm") if not isinstance(r, RFactorOverLanes)]
    assert len(ms.design_spaces(softmax, target)) == with_lanes
    space = ms.space_generator.PostOrderApply(sch_rules=rules)
    assert len(ms.design_spaces(softmax, target, space)) == without
