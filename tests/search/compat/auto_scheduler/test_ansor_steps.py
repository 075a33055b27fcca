"""Steps as JSON, their effect on a state, and the errors of steps that cannot be applied."""

from __future__ import annotations

from typing import Any

import pytest

from search.compat.auto_scheduler import ComputeDAG, StepError
from search.compat.auto_scheduler.steps import take
from search.errors import TuningError
from tensorir import te
from tests.search.compat.auto_scheduler.ansor_programs import (
    Program,
    conv2d_bias_relu,
    matmul,
    matmul_relu,
    two_matmuls,
)

# -------------------------------------------------------------------------------------- the graph


def test_stages_are_counted_in_topological_order() -> None:
    """Among ready operations, the one visited last from the outputs comes first."""
    names = [op.name for op in conv2d_bias_relu().dag.ops]
    assert names == ["X", "pad", "W", "conv", "bias", "add", "relu"]
    assert [op.name for op in two_matmuls().dag.ops] == ["A", "B", "C", "D", "E"]


def test_operations_are_counted() -> None:
    assert matmul(512, 512, 512).dag.flop_ct == 2 * 512**3
    dag = matmul_relu(8, 4, 16).dag
    assert dag.flop_ct == 2 * 8 * 4 * 16 + 8 * 4
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] * 2.0, name="B", attrs={"FLOP": 100})
    c = te.compute((4,), lambda i: b[i] + 1.0, name="C")
    assert ComputeDAG([a, c]).flop_ct == 100 + 4, "an attribute overrides the count"


def test_values_that_are_not_a_graph_are_rejected() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4, 4), lambda i, j: a[i] + a[j], name="B", varargs_names=[])
    for tensors in ([a, "B"], []):
        with pytest.raises(TuningError, match="a ComputeDAG is made of te tensors, got"):
            ComputeDAG(tensors)  # type: ignore[arg-type]
    r, s = te.reduce_axis((0, 4), name="r"), te.reduce_axis((0, 4), name="r")
    c = te.compute((4,), lambda i: te.sum(b[i, r] * b[i, s], axis=[r, s]), name="C")
    with pytest.raises(TuningError, match="C has two axes called r"):
        ComputeDAG([a, c]).state()


# ------------------------------------------------------------------------------------------- loops


def loops_after(program: Program, steps: list[list[Any]], stage: int) -> list[str]:
    """Return the loops of a stage after steps."""
    state = program.dag.state()
    for row in steps:
        take(state, row)
    return state.stages[stage].loops


def test_loops_have_names_that_say_what_they_were() -> None:
    steps: list[list[Any]] = [["SP", 2, 0, 64, [4, None], 1], ["FU", 2, [2, 3]]]
    assert loops_after(matmul(), steps, 2) == ["i.0", "i.1", "i.2@j@", "k"]


def test_lengths_that_are_open_are_no_program() -> None:
    with pytest.raises(StepError, match=r"step 0 \(SP, stage 2\): its lengths are open"):
        matmul().dag.schedule([["SP", 2, 0, 64, [None, None], 1], ["FSP", 2, 3, 0, 1]])


def test_what_is_attached_follows_its_loop() -> None:
    """A stage that is computed at a loop is so at its innermost part, wherever that comes to be."""
    steps: list[list[Any]] = [
        ["CA", 2, 4, 0],
        ["SP", 4, 0, 32, [4], 1],
        ["RE", 4, [2, 0, 1, 3]],
        ["FU", 4, [1, 2]],
        ["CHR", 1, "local", [2]],
    ]
    assert loops_after(two_matmuls(), steps, 5) == ["j", "i.0@i.1@", "r"]
    nest = two_matmuls().check(steps).mod.script()
    assert nest.index('"C_update"') > nest.index("i_0_i_1_fused"), "C is computed below it"


# ------------------------------------------------------------------------------------------- errors

SPLIT: list[Any] = ["SP", 2, 0, 64, [4], 1]

REFUSED: list[tuple[list[Any], str]] = [
    # Malformed steps.
    ([[]], "a step is a list that starts with its code, got []"),
    ([["SA", 2, 0, 32, 1]], "step 0 (SA, stage 2): unknown step 'SA'; expected one of SP, FSP, "),
    ([["SP", 2, 0, 64]], "SP has 5 fields (stage, iterator, extent, lengths, inner_to_outer), got"),
    ([["FU", 2, 0]], "iterators of FU is a list of integers, got 0"),
    ([["FU", True, [0]]], "stage of FU is an integer, got True"),
    ([["SP", 2, 0, 64, [2.5], 1]], "lengths of SP is a list of integers, null where one is open"),
    ([["SP", 2, 0, 64, [2], 2]], "inner_to_outer of SP is 0 or 1, got 2"),
    ([["CHW", 2, None]], "scope of CHW is a text, got None"),
    # Unknown stages, loops and words.
    ([["FU", 7, [0]]], "step 0 (FU, stage 7): unknown stage 7; the stages are 0 A, 1 B, 2 C, 3 D"),
    ([["CI", -1]], "unknown stage -1"),
    ([["CI", 0]], "stage 0, A, is an input without loops"),
    ([["CA", 2, 3, 2]], "unknown loop 2 of D; its loops are 0 i, 1 j"),
    ([["FSP", 3, 0, 0, 1]], "step 0, which it follows, is not an earlier SP with 1 lengths"),
    ([SPLIT, ["FSP", 3, 0, 0, 2]], "step 0, which it follows, is not an earlier SP with 2 lengths"),
    ([["AN", 2, 0, 5]], "annotation 5 cannot be replayed; 0 is for, 1 is unroll, 2 is vectorize"),
    ([["PR", 2, 0, "unroll$4"]], "the only pragma is auto_unroll_max_step$N with a number N"),
    # Steps that do not fit the program.
    ([["SP", 2, 0, 128, [2], 1]], "it splits a loop of 128 iterations, but i of C has 64"),
    ([["SP", 2, 0, 64, [0], 1]], "lengths are at least 1, got [0]"),
    ([["FU", 2, [0, 2]]], "only adjacent loops can be fused; its loops are 0 i, 1 j, 2 k"),
    ([["FU", 2, []]], "only adjacent loops can be fused"),
    ([["RE", 2, [0, 1]]], "the order [0, 1] does not name each of the 3 loops once"),
    ([["CA", 3, 2, 0]], "stage 2, C, comes before it; a stage is computed in a loop of a later"),
    ([["RF", 2, 0, 0]], "it factors a loop of the reduction, after the 2 original loops"),
    ([["CHR", 2, "local", [2]]], "readers are one or more later stages, got [2]"),
    # Steps that do not fit the steps before.
    (
        [["AN", 2, 0, 3], ["FU", 2, [0, 1]]],
        "step 1 (FU, stage 2): loop i of C was marked by step 0; split and fuse a loop before",
    ),
    ([["CA", 2, 3, 0], ["FU", 3, [0, 1]]], "C is computed at loop i, which the fusion would rem"),
    ([["CA", 2, 3, 0], ["CI", 3]], "C is computed in a loop of D; compute it elsewhere"),
    ([["CI", 3], ["CA", 2, 3, 0]], "stage 3, D, is inlined and has lost its loops"),
    ([["FU", 3, [0, 1]], ["CI", 3]], "the loops of D were changed; inline a stage before that"),
    ([SPLIT, ["CHW", 2, "local"]], "only a stage with its original loops gets a cache; its loops"),
    ([["CA", 2, 3, 0], ["CHW", 2, "local"]], "C was moved or marked, or has stages in its loops"),
    # Refusals of primitives.
    ([["AN", 2, 2, 3]], 'step 0 (AN, stage 2): the schedule refuses it: the "parallel" cannot'),
    ([["CI", 3]], "step 0 (CI, stage 3): the schedule refuses it: "),
    ([["CHR", 0, "local", [3]]], 'names "A", but block "D" touches only'),
    ([["CHW", 2, "nowhere"]], "step 0 (CHW, stage 2): the schedule refuses it: "),
]


@pytest.mark.parametrize(("rows", "message"), REFUSED, ids=lambda value: str(value)[:30])
def test_a_step_that_cannot_be_applied(rows: list[list[Any]], message: str) -> None:
    with pytest.raises(StepError) as caught:
        matmul_relu(64, 64, 64).dag.schedule(rows)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_steps_on_one_of_several_nests_of_an_operation_are_refused() -> None:
    a = te.placeholder((4, 4), name="A")
    b, c = te.compute((4, 4), lambda i, j: (a[i, j] + 1.0, a[i, j] * 2.0), name="B")
    dag = ComputeDAG([a, b, c])
    assert "B.v1(i, j) = A[i, j] * T.float32(2.0)" in str(dag)
    dag.schedule([])
    with pytest.raises(StepError, match="B computes 2 tensors in separate nests"):
        dag.schedule([["FU", 1, [0, 1]]])


def test_a_cache_of_one_of_several_results_is_refused() -> None:
    a, k = te.placeholder((4, 4), name="A"), te.reduce_axis((0, 4), name="k")
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] * y[1]), lambda s, t: (te.const(0, s), te.const(1, t))
    )
    s, p = te.compute((4,), lambda i: both((a[i, k], a[i, k]), axis=k), name="B")
    with pytest.raises(StepError, match=r"step 0 \(CHW, stage 1\): B computes 2 tensors; a cache"):
        ComputeDAG([a, s, p]).schedule([["CHW", 1, "local"]])


def test_a_mark_stays_with_its_loop() -> None:
    steps: list[list[Any]] = [
        ["PR", 2, 1, "auto_unroll_max_step$16"],
        ["AN", 2, 1, 1],
        ["SP", 2, 0, 64, [4], 1],
        ["RE", 2, [2, 0, 1, 3]],
        ["CA", 2, 3, 0],
    ]
    text = matmul_relu(64, 64, 64).dag.schedule(steps).mod.script()
    assert "for ax1 in T.unroll(64, annotations=" in text


def test_the_annotation_that_says_nothing_leaves_a_loop_free() -> None:
    assert loops_after(matmul(), [["AN", 2, 0, 0], ["FU", 2, [0, 1]]], 2) == ["i@j@", "k"]


def test_steps_on_a_reduction_over_a_triangle_are_refused() -> None:
    a = te.placeholder((4, 4), name="A")
    r = te.reduce_axis((0, 4), name="r")
    s = te.reduce_axis((0, r.var + 1), name="s")
    b = te.compute((4,), lambda i: te.sum(a[i, s], axis=[r, s]), name="B")
    dag = ComputeDAG([a, b])
    dag.schedule([])
    with pytest.raises(StepError, match="because the range of one depends on another"):
        dag.schedule([["AN", 1, 0, 3]])
