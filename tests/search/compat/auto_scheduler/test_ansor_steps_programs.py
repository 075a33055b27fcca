"""Steps of each kind of sketch, and random ones: the programs, and their results."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import codegen
from search.compat.auto_scheduler import ComputeDAG, StepError
from search.compat.auto_scheduler.stages import State
from search.compat.auto_scheduler.steps import take
from tensorir import te
from tensorir.function import IRModule
from tensorir.nodes.expr import BufferLoad
from tensorir.nodes.stmt import BufferStore, For, ForKind, Stmt
from tests.search.compat.auto_scheduler.ansor_programs import (
    Program,
    conv2d_bias_relu,
    matmul,
    matmul_relu,
    softmax,
    tiled,
    two_matmuls,
)


def nest_of(mod: IRModule) -> str:
    """Return the lines of loops and blocks of a program, without what blocks are made of."""
    lines = mod["main"].script().splitlines()
    return "\n".join(line for line in lines if line.lstrip().startswith(("for ", "with T.block(")))


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


# ------------------------------------------------------------------------------ factored reductions


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
    program.check(steps)


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
    marks = [["AN", conv, 21, 2], ["PR", conv, 0, "auto_unroll_max_step$16"]]
    sch = program.check([*conv_steps(program), *marks, ["CI", program.stage("pad")]])
    assert '"add"' not in nest_of(sch.mod)
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


# -------------------------------------------------------------------------------- unusual operations


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
    assert "T.parallel(1)" in nest_of(program.check([["FU", 1, []], ["AN", 1, 0, 3]]).mod)


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
    data, out = np.ones((10, 8), "float32"), np.zeros((10, 8), "float32")
    codegen.build(dag.schedule(steps).mod, target="llvm")["main"](data, out)
    assert (out == 3).all()


# ------------------------------------------------------------------------------------ random steps

Draw = Callable[[st.SearchStrategy[Any]], Any]

# Lengths divide no extent, and one extent is smaller than most lengths.
MATMUL = matmul_relu(6, 9, 8)
SOFTMAX = softmax(3, 10)


def drawn_step(draw: Draw, state: State) -> list[Any]:
    """Return a step that could be taken, though it may still be refused."""
    computed = [k for k, stage in enumerate(state.stages) if not stage.is_input]
    index = draw(st.sampled_from(computed))
    stage = state.stages[index]
    count = len(stage.loops)
    loop = draw(st.integers(0, count - 1))
    code = draw(st.sampled_from(["SP", "SP", "FSP", "FU", "RE", "AN", "PR", "CA", "CA", *_ONCE]))
    if code == "SP":
        lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=2))
        return [code, index, loop, 0, lengths, draw(st.integers(0, 1))]
    if code == "FSP":
        splits = [k for k, step in enumerate(state.steps) if step[0] == "SP"]
        return [code, index, loop, draw(st.sampled_from(splits or [0])), draw(st.integers(1, 2))]
    if code == "FU":
        return [code, index, list(range(loop, draw(st.integers(loop, count - 1)) + 1))]
    if code == "RE":
        return [code, index, draw(st.permutations(range(count)))]
    if code == "AN":
        return [code, index, loop, draw(st.integers(1, 3))]
    if code == "PR":
        return [code, index, loop, "auto_unroll_max_step$16"]
    if code == "CA":
        target = draw(st.sampled_from(computed))
        return [code, index, target, draw(st.integers(0, len(state.stages[target].loops) - 1))]
    if code == "CHR":
        return [code, draw(st.integers(0, index)), "local", [index]]
    if code == "RF":
        return [code, index, loop, draw(st.integers(-1, 2))]
    return [code, index, "local"] if code == "CHW" else [code, index]


_ONCE = ["CI", "CHR", "CHW", "RF"]


def drawn_steps(draw: Draw, program: Program) -> list[list[Any]]:
    """Return a few steps that can be read."""
    steps: list[list[Any]] = []
    for _ in range(draw(st.integers(1, 12))):
        state = program.dag.state()
        for row in steps:
            take(state, row)
        row = drawn_step(draw, state)
        with suppress(StepError):
            take(state, row)
            steps.append(row)
    return steps


@given(st.data(), st.sampled_from([MATMUL, SOFTMAX]))
@settings(max_examples=25)
def test_random_steps_keep_the_meaning(data: st.DataObject, program: Program) -> None:
    steps = drawn_steps(data.draw, program)
    with suppress(StepError):
        program.check_results(program.dag.schedule(steps))
