"""Steps as logs have them, for each kind of sketch: what the programs are, and what they compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ansor_programs import (
    Program,
    conv2d_bias_relu,
    matmul,
    row_min,
    softmax,
    tiled,
    two_matmuls,
)

import codegen
from schedule import Schedule, Trace
from search.auto_scheduler import ComputeDAG, LayoutRewriteOption
from tensorir import assert_structural_equal, te
from tensorir.function import IRModule
from tensorir.nodes.expr import BufferLoad
from tensorir.nodes.stmt import BufferStore, For, ForKind, Stmt
from tensorir.rewriting.visit import Rewriter

LOG_LINE_STEPS: list[list[Any]] = [
    ["SP", 2, 0, 64, [4, 1, 8], 1],
    ["SP", 2, 4, 32, [1, 2, 8], 1],
    ["SP", 2, 8, 96, [4], 1],
    ["RE", 2, [0, 4, 1, 5, 8, 2, 6, 9, 3, 7]],
    ["FU", 2, [0, 1]],
    ["AN", 2, 0, 3],
    ["PR", 2, 0, "auto_unroll_max_step$64"],
    ["AN", 2, 8, 2],
]


def nest_of(mod: IRModule) -> str:
    """Return the lines of loops and blocks of a program, without what blocks are made of."""
    lines = mod["main"].script().splitlines()
    return "\n".join(line for line in lines if line.lstrip().startswith(("for ", "with T.block(")))


def test_a_tiled_matmul_has_the_loops_and_the_marks_of_its_steps() -> None:
    program = matmul(64, 32, 96)
    state = program.dag.state(LOG_LINE_STEPS)
    assert str(state) == (
        "Placeholder: A, B\n"
        "C auto_unroll: 64\n"
        "parallel i.0@j.0@ (0,4)\n"
        "  for i.1 (0,4)\n"
        "    for k.0 (0,24)\n"
        "      for j.2 (0,2)\n"
        "        for k.1 (0,4)\n"
        "          for i.3 (0,8)\n"
        "            vectorize j.3 (0,8)\n"
        "              C = ...\n"
    )
    assert state.to_str(delete_trivial_loop=False) == (
        "Placeholder: A, B\n"
        "C auto_unroll: 64\n"
        "parallel i.0@j.0@ (0,4)\n"
        "  for i.1 (0,4)\n"
        "    for j.1 (0,1)\n"
        "      for k.0 (0,24)\n"
        "        for i.2 (0,1)\n"
        "          for j.2 (0,2)\n"
        "            for k.1 (0,4)\n"
        "              for i.3 (0,8)\n"
        "                vectorize j.3 (0,8)\n"
        "                  C = ...\n"
    )
    sch = program.check(LOG_LINE_STEPS)
    unroll = '{"pragma_auto_unroll_max_step": 64, "pragma_unroll_explicit": 1}'
    expected = f"""
    for i_0_j_0_fused in T.parallel(4, annotations={unroll}):
        for i_1, j_1 in T.grid(4, 1):
            for i_2_init, j_2_init, i_3_init in T.grid(1, 2, 8):
                for j_3_init in T.vectorized(8):
                    with T.block("C_init"):
            for k_0, i_2, j_2, k_1, i_3 in T.grid(24, 1, 2, 4, 8):
                for j_3 in T.vectorized(8):
                    with T.block("C_update"):"""
    assert nest_of(sch.mod) == expected[1:]


def test_the_trace_is_saved_and_loaded(tmp_path: Any) -> None:
    program = matmul(64, 32, 96)
    sch = program.dag.schedule(LOG_LINE_STEPS)
    sch.trace.save(tmp_path / "trace.json")
    again = Schedule(program.dag.func)
    Trace.load(tmp_path / "trace.json").apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)


def test_a_trace_is_a_step_of_its_own() -> None:
    program = matmul(64, 32, 96)
    sch = program.dag.schedule(LOG_LINE_STEPS)
    state = program.dag.state([["TR", sch.trace.as_json()]])
    assert_structural_equal(program.dag.schedule(state).mod, sch.mod)
    assert program.dag.infer_bound(state) == state
    assert program.dag.state([step.as_json() for step in state.transform_steps]) == state
    assert "Scheduled by a trace" in str(state)


FUSED_AT = {
    1: [["FSP", 3, 0, 1, 1], ["FSP", 3, 2, 2, 1], ["RE", 3, [0, 2, 1, 3]], ["CA", 2, 3, 1]],
    2: [["FSP", 3, 0, 1, 2], ["FSP", 3, 3, 2, 2], ["RE", 3, [0, 3, 1, 4, 2, 5]], ["CA", 2, 3, 3]],
}


@pytest.mark.parametrize("level", [1, 2])
def test_a_cache_is_computed_in_the_tile_of_its_copy(level: int) -> None:
    program = matmul()
    tiles = tiled(2, (64, [4, 2, 4]), (64, [2, 2, 8]), (64, [4]))
    marks = [["FU", 3, [0, 1]], ["AN", 3, 0, 3], ["AN", 2, 9, 2]]
    program.check([["CHW", 2, "local"], *tiles, *FUSED_AT[level], *marks])


def test_the_extents_in_a_tile_are_those_that_are_needed_there() -> None:
    program = matmul()
    tiles = tiled(2, (64, [4, 2, 4]), (64, [2, 2, 8]), (64, [4]))
    state = program.dag.state([["CHW", 2, "local"], *tiles, *FUSED_AT[2]])
    assert "for i_c.3 (None)" in str(state)
    assert program.dag.infer_bound(state).to_str(delete_trivial_loop=False) == (
        "Placeholder: A, B\n"
        "for i.0 (0,2)\n"
        "  for j.0 (0,2)\n"
        "    for i.1 (0,4)\n"
        "      for j.1 (0,2)\n"
        "        for i_c.0 (0,1)\n"
        "          for j_c.0 (0,1)\n"
        "            for i_c.1 (0,1)\n"
        "              for j_c.1 (0,1)\n"
        "                for k.0 (0,16)\n"
        "                  for i_c.2 (0,2)\n"
        "                    for j_c.2 (0,2)\n"
        "                      for k.1 (0,4)\n"
        "                        for i_c.3 (0,4)\n"
        "                          for j_c.3 (0,8)\n"
        "                            C.local = ...\n"
        "        for i.2 (0,8)\n"
        "          for j.2 (0,16)\n"
        "            C = ...\n"
    )


def test_lengths_need_not_divide() -> None:
    program = matmul(60, 50, 33)
    tiles = tiled(2, (60, [4, 2, 4]), (50, [2, 2, 8]), (33, [4]))
    program.check([*tiles, ["AN", 2, 0, 3], ["AN", 2, 9, 2]])


def test_the_outer_parts_may_be_what_is_given() -> None:
    program = matmul(12, 10, 8)
    sch = program.check([["SP", 2, 0, 12, [2, 3], 0], ["SP", 2, 3, 10, [4], 0]])
    assert "T.grid(2, 3, 2, 4, 3" in nest_of(sch.mod)


# ------------------------------------------------------------------------------ factored reductions


@pytest.mark.parametrize("part", [2, 3])
@pytest.mark.parametrize("position", [0, 2, -1])
def test_either_part_of_a_reduction_is_factored(part: int, position: int) -> None:
    steps = [["FU", 2, [2]], ["SP", 2, 2, 512, [16], 1], ["RF", 2, part, position]]
    matmul(8, 8, 512).check(steps)


def test_a_factored_reduction_that_is_vectorized_and_computed_at_a_loop() -> None:
    program = matmul(8, 8, 512)
    steps: list[list[Any]] = [
        ["SP", 2, 2, 512, [16], 1],
        ["RF", 2, 3, 2],
        ["RE", 2, [0, 1, 3, 2]],
        ["CA", 2, 3, 1],
        ["AN", 3, 0, 3],
        ["AN", 2, 3, 2],
    ]
    assert str(program.dag.state(steps)) == (
        "Placeholder: A, B\n"
        "parallel ax0 (0,8)\n"
        "  for ax1 (0,8)\n"
        "    for i (None)\n"
        "      for j (None)\n"
        "        for k.0 (None)\n"
        "          vectorize k.1 (None)\n"
        "            C.rf = ...\n"
        "    for k.1_v (0,16)\n"
        "      C.repl = ...\n"
    )
    program.check(steps)


@pytest.mark.parametrize("part", [1, 2])
def test_a_row_minimum_is_factored(part: int) -> None:
    row_min().check([["SP", 1, 1, 1024, [32], 1], ["RF", 1, part, 1], ["AN", 2, 0, 3]])


def test_the_reduction_of_a_convolution_is_fused_and_factored() -> None:
    program = conv2d_bias_relu()
    conv = program.stage("conv")
    program.check([["FU", conv, [4, 5, 6]], ["SP", conv, 4, 36, [9], 1], ["RF", conv, 5, 4]])


# ------------------------------------------------------------------------------------ several stages


@pytest.mark.parametrize("loop", [1, 3, 4])
def test_a_matmul_is_computed_in_a_tile_of_another(loop: int) -> None:
    last = tiled(4, (32, [2, 2, 4]), (32, [2, 2, 4]), (32, [4]))
    first = tiled(2, (32, [2, 2, 4]), (32, [2, 2, 4]), (32, [4]))
    marks = [["AN", 4, 0, 3], ["AN", 4, 9, 2], ["AN", 2, 9, 2]]
    two_matmuls().check([*last, *first, ["CA", 2, 4, loop], *marks])


def test_a_softmax_is_computed_row_by_row() -> None:
    program = softmax()
    steps: list[list[Any]] = [
        ["CA", 3, 4, 0],
        ["CA", 2, 4, 0],
        ["CA", 1, 4, 0],
        ["AN", 4, 0, 3],
        ["PR", 3, 0, "auto_unroll_max_step$16"],
        ["AN", 4, 1, 2],
    ]
    assert str(program.dag.state(steps)) == (
        "Placeholder: A\n"
        "parallel i (0,4)\n"
        "  for i (None)\n"
        "    for k (None)\n"
        "      M = ...\n"
        "  for i (None)\n"
        "    for j (None)\n"
        "      X = ...\n"
        "  S auto_unroll: 16\n"
        "  for i (None)\n"
        "    for k (None)\n"
        "      S = ...\n"
        "  vectorize j (0,64)\n"
        "    N = ...\n"
    )
    program.check(steps)


def test_the_reductions_of_a_softmax_are_factored_and_its_exponentials_inlined() -> None:
    sums = [["SP", 3, 1, 64, [16], 1], ["RF", 3, 2, 1], ["CI", 2]]
    maxima = [["SP", 1, 1, 64, [16], 1], ["RF", 1, 1, 1]]
    softmax().check([*sums, *maxima])


def conv_steps(program: Program) -> list[list[Any]]:
    """Return the steps that inline the sum with the bias and tile the convolution in the last."""
    conv, add, relu = map(program.stage, ("conv", "add", "relu"))
    return [
        ["SP", conv, 0, 1, [1, 1, 1], 1],
        ["SP", conv, 4, 8, [2, 1, 2], 1],
        ["SP", conv, 8, 14, [1, 7, 1], 1],
        ["SP", conv, 12, 14, [2, 1, 7], 1],
        ["SP", conv, 16, 4, [2], 1],
        ["SP", conv, 18, 3, [3], 1],
        ["SP", conv, 20, 3, [1], 1],
        [
            "RE",
            conv,
            [0, 4, 8, 12, 1, 5, 9, 13, 16, 18, 20, 2, 6, 10, 14, 17, 19, 21, 3, 7, 11, 15],
        ],
        ["FSP", relu, 0, 0, 1],
        ["FSP", relu, 2, 1, 1],
        ["FSP", relu, 4, 2, 1],
        ["FSP", relu, 6, 3, 1],
        ["RE", relu, [0, 2, 4, 6, 1, 3, 5, 7]],
        ["CA", conv, relu, 3],
        ["CI", add],
        ["FU", relu, [0, 1, 2, 3]],
        ["AN", relu, 0, 3],
    ]


def test_a_convolution_is_tiled_into_what_reads_it() -> None:
    program = conv2d_bias_relu()
    conv = program.stage("conv")
    sch = program.check(
        [*conv_steps(program), ["AN", conv, 21, 2], ["PR", conv, 0, "auto_unroll_max_step$16"]]
    )
    assert '"add"' not in nest_of(sch.mod)


def test_padding_is_inlined() -> None:
    program = conv2d_bias_relu()
    sch = program.check([*conv_steps(program), ["CI", program.stage("pad")]])
    assert '"pad"' not in nest_of(sch.mod)


@pytest.mark.parametrize(("target", "loop"), [("conv", 8), ("conv", 5), ("relu", 0)])
def test_padding_is_computed_at_a_loop(target: str, loop: int) -> None:
    program = conv2d_bias_relu()
    pad = program.stage("pad")
    place = [["CA", pad, program.stage(target), loop], ["FU", pad, [2, 3]], ["AN", pad, 2, 2]]
    program.check([*conv_steps(program), *place])


def test_a_stage_comes_out_of_a_loop_again() -> None:
    program = softmax()
    sch = program.check([["CA", 1, 4, 0], ["CR", 1], ["AN", 1, 0, 3]])
    assert nest_of(sch.mod).splitlines()[0] == "    for i in T.parallel(4):"


def test_a_weight_is_packed_in_the_order_of_the_loops() -> None:
    a, b = te.placeholder((16, 32), name="A"), te.placeholder((32, 64), name="B")
    k = te.reduce_axis((0, 32), name="k")
    free = {"layout_free_placeholders": [b]}
    c = te.compute((16, 64), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C", attrs=free)
    program = Program(ComputeDAG([a, b, c]), lambda a, b, c: [a @ b])
    steps = tiled(2, (16, [2, 1, 4]), (64, [2, 1, 16]), (32, [8]))
    assert "B_global" not in program.check(steps).mod.script()
    sch = program.dag.schedule(steps, layout_rewrite=LayoutRewriteOption.INSERT_TRANSFORM_STAGE)
    program.check_results(sch)
    assert "B_global = T.alloc_buffer((2, 2, 4, 8, 16))" in sch.mod.script()


# --------------------------------------------------------------------------------------- GPU records


class Unbound(Rewriter):
    """Runs the iterations of bound loops one after another, as one thread that does all of them."""

    def rewrite_For(self, node: For) -> Stmt:
        body = self(node.body)
        if node.kind is not ForKind.THREAD_BINDING:
            return node if body is node.body else node.with_(body=body)
        return node.with_(kind=ForKind.SERIAL, thread_binding=None, body=body)


def test_a_matmul_with_shared_memory_is_bound_to_threads() -> None:
    program = matmul()
    steps: list[list[Any]] = [
        ["CHW", 2, "local"],
        ["SP", 2, 0, 64, [1, 8, 1, 2], 1],
        ["SP", 2, 5, 64, [1, 8, 1, 2], 1],
        ["SP", 2, 10, 64, [4, 2], 1],
        ["RE", 2, [0, 5, 1, 6, 2, 7, 10, 11, 3, 8, 12, 4, 9]],
        ["FSP", 3, 0, 1, 3],
        ["FSP", 3, 4, 2, 3],
        ["RE", 3, [0, 4, 1, 5, 2, 6, 3, 7]],
        ["CA", 2, 3, 5],
        ["CHR", 1, "shared", [2]],
        ["CA", 2, 3, 6],
        ["CHR", 0, "shared", [3]],
        ["CA", 1, 4, 6],
        ["FU", 5, [0, 1]],
        ["AN", 5, 0, 5],
        ["FU", 5, [1, 2]],
        ["AN", 5, 1, 4],
        ["FU", 5, [2, 3]],
        ["AN", 5, 2, 6],
        ["FU", 3, [0, 1]],
        ["SP", 3, 0, 128, [1], 1],
        ["AN", 3, 1, 2],
        ["FFSP", 3, 0, [1, 2], 1, 1],
        ["AN", 3, 1, 6],
        ["SA", 1, 0, 8, 4],
    ]
    state = program.dag.state(steps)
    assert str(state).startswith(
        "Placeholder: A, B\nblockIdx.x i.0@j.0@ (0,16)\n  threadIdx.x i.2@j.2@ (0,64)\n"
    )
    assert "A.shared storage_align: 8, 4\n" in str(state)
    sch = program.dag.schedule(steps)
    nest = nest_of(sch.mod)
    for tag, count in (("blockIdx.x", 1), ("vthread", 1), ("threadIdx.x", 2)):
        assert nest.count(f'thread="{tag}"') == count
    assert "for ax0_ax1_fused_0_1 in T.thread_binding(64" in nest
    assert "buffer_dim_align" in sch.mod.script()
    func = sch.mod["main"]
    on_cpu = Schedule(func.with_(body=Unbound()(func.body)))
    for cache in ("A_shared", "B_shared"):
        on_cpu.set_scope(cache, 0, "global")
    program.check_results(on_cpu)


# -------------------------------------------------------------------------------- unusual operations


def test_several_outputs() -> None:
    a = te.placeholder((6, 8), name="A")
    double = te.compute((6, 8), lambda i, j: a[i, j] * 2.0, name="D")
    less = te.compute((6, 8), lambda i, j: a[i, j] - 1.0, name="L")
    program = Program(ComputeDAG([a, double, less]), lambda a, *_: [a * 2, a - 1])
    order = [op.name for op in program.dag.ops]
    assert order == ["A", "D", "L"]
    program.check([["FU", 1, [0, 1]], ["AN", 1, 0, 3], ["SP", 2, 1, 8, [4], 1], ["AN", 2, 2, 2]])


def test_a_scalar_sum() -> None:
    a, k = te.placeholder((128,), name="A"), te.reduce_axis((0, 128), name="k")
    s = te.compute((), lambda: te.sum(a[k], axis=k), name="S")
    program = Program(ComputeDAG([a, s]), lambda a, s: [np.array(a.sum())])
    program.check([["SP", 1, 0, 128, [16], 1]])
    program.check([["SP", 1, 0, 128, [16], 1], ["RF", 1, 1, 0], ["AN", 1, 0, 2]])


def test_a_scalar_gets_a_loop_of_one_iteration() -> None:
    a = te.placeholder((2,), name="A")
    s = te.compute((), lambda: a[0] + a[1], name="S")
    program = Program(ComputeDAG([a, s]), lambda a, s: [np.array(a[0] + a[1])])
    sch = program.check([["FU", 1, []], ["AN", 1, 0, 3]])
    assert "T.parallel(1)" in nest_of(sch.mod)


def test_a_reduction_with_two_results_is_factored() -> None:
    a, k = te.placeholder((5, 64), name="A"), te.reduce_axis((0, 64), name="k")

    def better(x: Any, y: Any) -> tuple[Any, Any]:
        keep = te.any(x[1] > y[1], te.all(x[1] == y[1], x[0] < y[0]))
        return te.Select(keep, x[0], y[0]), te.Select(keep, x[1], y[1])

    argmax = te.comm_reducer(better, lambda i, v: (te.const(-1, i), te.min_value(v)), name="argmax")
    at, top = te.compute((5,), lambda i: argmax((k, a[i, k]), axis=k), name="best")
    program = Program(ComputeDAG([a, at, top]), lambda a, i, v: [a.argmax(axis=1), a.max(axis=1)])
    program.check([["SP", 1, 1, 64, [8], 1], ["RF", 1, 1, 1], ["AN", 2, 0, 3]])


def test_an_operation_that_is_a_statement_has_a_stage_without_loops() -> None:
    def copied(ins: Any, outs: Any) -> Stmt:
        i = te.var("i")
        body = BufferStore(outs[0], BufferLoad(ins[0], [i]), [i])
        return For(i, te.const(0), te.const(8), ForKind.SERIAL, body)

    a = te.placeholder((8,), name="A")
    b = te.extern((8,), [a], copied, name="B")
    c = te.compute((8,), lambda i: b[i] + 1.0, name="C")
    program = Program(ComputeDAG([a, c]), lambda a, c: [a + 1])
    assert str(program.dag) == (
        "A = PLACEHOLDER [8]\nB = EXTERN(A)\nC(i) = B[i] + T.float32(1.0)\n"
    )
    assert str(program.dag.init_state()) == ("Placeholder: A\nB = ...\nfor i (0,8)\n  C = ...\n")
    program.check([["SP", 2, 0, 8, [4], 1], ["AN", 2, 0, 3], ["AN", 2, 1, 2]])


def test_extents_may_be_open() -> None:
    n = te.size_var("n")
    a = te.placeholder((n, 8), name="A")
    b = te.compute((n, 8), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((n, 8), lambda i, j: b[i, j] + 1.0, name="C")
    dag = ComputeDAG([a, c])
    steps: list[list[Any]] = [
        ["SP", 2, 0, 0, [4], 1],
        ["CA", 1, 2, 0],
        ["SP", 1, 0, 0, [2], 1],
        ["AN", 2, 0, 3],
        ["AN", 2, 2, 2],
    ]
    assert str(dag.infer_bound(dag.state(steps))) == (
        "Placeholder: A\n"
        "parallel i.0 (None)\n"
        "  for i.0 (0,2)\n"
        "    for i.1 (0,2)\n"
        "      for j (0,8)\n"
        "        B = ...\n"
        "  for i.1 (0,4)\n"
        "    vectorize j (0,8)\n"
        "      C = ...\n"
    )
    data, out = np.ones((10, 8), "float32"), np.zeros((10, 8), "float32")
    codegen.build(dag.schedule(steps).mod, target="llvm")["main"](data, out)
    assert (out == 3).all()
