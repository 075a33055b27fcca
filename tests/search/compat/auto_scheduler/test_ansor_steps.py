"""Steps as JSON, what they do to a state, and what is said of those that cannot be taken."""

from __future__ import annotations

from typing import Any

import pytest
from ansor_programs import (
    Program,
    conv2d_bias_relu,
    matmul,
    matmul_relu,
    softmax,
    two_matmuls,
)

from search.compat.auto_scheduler import ComputeDAG, StepError
from search.compat.auto_scheduler.steps import take
from search.errors import TuningError
from tensorir import te

# -------------------------------------------------------------------------------------- the graph


def test_a_graph_as_text() -> None:
    dag = conv2d_bias_relu().dag
    assert str(dag).splitlines()[:4] == [
        "X = PLACEHOLDER [1, 4, 14, 14]",
        "pad(b, c, y, z) = T.if_then_else(y >= 1 and y <= 14 and z >= 1 and z <= 14, "
        "X[b, c, y - 1, z - 1], T.float32(0.0))",
        "W = PLACEHOLDER [8, 4, 3, 3]",
        "conv(b, f, y, z) += pad[b, rc, y + ry, z + rx] * W[f, rc, ry, rx]",
    ]
    assert str(softmax().dag).splitlines()[1] == "M(i) max= A[i, k]"


def test_stages_are_counted_in_topological_order() -> None:
    """Of the operations that are ready, the one comes first that was met last from the outputs."""
    names = [op.name for op in conv2d_bias_relu().dag.ops]
    assert names == ["X", "pad", "W", "conv", "bias", "add", "relu"]
    assert [op.name for op in two_matmuls().dag.ops] == ["A", "B", "C", "D", "E"]


def test_operations_are_counted() -> None:
    assert matmul(512, 512, 512).dag.flop_ct == 2 * 512**3
    dag = matmul_relu(8, 4, 16).dag
    assert dag.flop_ct == 2 * 8 * 4 * 16 + 8 * 4
    a = te.placeholder((16,), name="A")
    b = te.compute((16,), lambda i: te.Select(i % 2 == 0, a[i] * 2.0 + 1.0, a[i]), name="B")
    assert ComputeDAG([a, b]).flop_ct == 2 * 16, "index arithmetic does not count"
    c = te.compute((16,), lambda i: a[i] + 1.0, name="C", attrs={"FLOP": 7})
    assert ComputeDAG([a, c]).flop_ct == 7


def test_what_is_no_graph() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4, 4), lambda i, j: a[i] + a[j], name="B", varargs_names=[])
    with pytest.raises(TuningError, match="got str as item 1"):
        ComputeDAG([a, "B"])  # type: ignore[list-item]
    with pytest.raises(TuningError, match="got none"):
        ComputeDAG([])
    r, s = te.reduce_axis((0, 4), name="r"), te.reduce_axis((0, 4), name="r")
    c = te.compute((4,), lambda i: te.sum(b[i, r] * b[i, s], axis=[r, s]), name="C")
    with pytest.raises(TuningError, match="two axes of C are called r"):
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


def test_lengths_are_those_of_the_steps_that_are_followed() -> None:
    split = ["SP", 2, 0, 64, [2, 4, 8], 1]
    program = matmul_relu(64, 48, 16)
    sch = program.check(
        [split, ["SP", 2, 4, 48, [3, 2, 4], 1], ["FSP", 3, 0, 0, 2], ["FSP", 3, 3, 1, 1]]
    )
    loops = sch.get_loops(sch.get_block("D"))
    assert [sch.get(loop).extent.value for loop in loops] == [1, 2, 32, 2, 24]


# ------------------------------------------------------------------------------------------- errors

REFUSED: list[tuple[list[Any], str]] = [
    # What is no step.
    ([], "a step is a list that begins with its code, got []"),
    (["FSPL", 2, 0], "step 0 (FSPL, stage 2): 'FSPL' cannot be taken: there is no such step; "),
    (["SA", 2, 0, 32, 1], "'SA' cannot be taken: it is of GPUs; there are SP, FSP, "),
    (["SP", 2, 0, 64], "SP has 5 fields (stage, iterator, extent, lengths, inner_to_outer), got 3"),
    (["FU", 2, 0], "iterators of FU is a list of integers, got 0"),
    (["FU", True, [0]], "stage of FU is an integer, got True"),
    (["SP", 2, 0, 64, [2.5], 1], "lengths of SP is a list of integers, null where one is open"),
    (["SP", 2, 0, 64, [2], 2], "inner_to_outer of SP is 0 or 1, got 2"),
    (["CHW", 2, None], "scope of CHW is a text, got None"),
    # What is not there.
    (["FU", 7, [0, 1]], "step 0 (FU, stage 7): there is no stage 7; there are 0 A, 1 B, 2 C, 3 D"),
    (["CI", -1], "there is no stage -1"),
    (["CI", 0], "stage 0, A, is an input, which has no loops"),
    (["SP", 2, 3, 64, [2], 1], "C has no loop 3; its loops are 0 i, 1 j, 2 k"),
    (["CA", 2, 3, 2], "D has no loop 2; its loops are 0 i, 1 j"),
    (["FSP", 3, 0, 0, 1], "it follows step 0, which is no SP: not there yet"),
    (["AN", 2, 0, 5], "annotation 5 is not replayed; 0 is for, 1 is unroll, 2 is vectorize"),
    (["PR", 2, 0, "unroll$4"], "the only pragma is auto_unroll_max_step$N with a number N"),
    (["PR", 2, 0, "auto_unroll_max_step$"], "the only pragma is auto_unroll_max_step$N"),
    # What does not fit.
    (["SP", 2, 0, 128, [2], 1], "it splits a loop of 128 iterations, but i of C has 64"),
    (["SP", 2, 0, 64, [0], 1], "a length is 0; lengths are at least 1"),
    (["FU", 2, [0, 2]], "only loops that follow one another can be fused; its loops are 0 i, 1 j"),
    (["FU", 2, []], "it fuses no loops"),
    (["RE", 2, [0, 1]], "the order [0, 1] does not name each of the 3 loops once"),
    (["CA", 3, 2, 0], "stage 2, C, comes before it; a stage is computed in a loop of a later one"),
    (["CI", 2], "step 0 (CI, stage 2): the schedule refuses it"),
    (["RF", 2, 0, 0], "loop i is no loop of the reduction; its loops are 0 i, 1 j, 2 k"),
    (["RF", 2, 2, 3], "position 3 is beyond the 2 dimensions of C"),
    (["CHR", 0, "local", []], "there are no readers"),
    (["CHR", 2, "local", [2]], "stage 2, C, comes before it and cannot read the copy"),
]


@pytest.mark.parametrize(("row", "message"), REFUSED, ids=lambda value: str(value)[:30])
def test_a_step_that_cannot_be_taken(row: list[Any], message: str) -> None:
    dag = matmul_relu(64, 64, 64).dag
    with pytest.raises(StepError) as caught:
        dag.schedule([row])
    assert message in str(caught.value)


AFTER: list[tuple[list[list[Any]], str]] = [
    (
        [["AN", 2, 0, 3], ["FU", 2, [0, 1]]],
        "step 1 (FU, stage 2): loop i of C was marked by step 0; mark it after it is split",
    ),
    ([["AN", 2, 0, 3], ["AN", 2, 0, 2]], "step 0 marked loop i parallel before"),
    (
        [["CA", 2, 3, 0], ["FU", 3, [0, 1]]],
        "C is computed at loop i, which would no longer be there",
    ),
    ([["CA", 2, 3, 0], ["CI", 3]], "C is computed in a loop of D; compute it elsewhere"),
    ([["CI", 3], ["CA", 2, 3, 0]], "stage 3, D, is inlined and has no loops"),
    ([["CI", 3], ["AN", 3, 0, 3]], "step 1 (AN, stage 3): stage 3, D, is inlined and has no loops"),
    ([["CI", 3], ["SP", 3, 0, 64, [4], 1]], "stage 3, D, is inlined and has no loops"),
    ([["FU", 3, [0, 1]], ["CI", 3]], "the loops of D were changed, and would not be there"),
    (
        [["SP", 2, 0, 64, [4], 1], ["CHW", 2, "local"]],
        "the loops of C were changed by step 0; a stage is divided before that",
    ),
    ([["CA", 2, 3, 0], ["CHW", 2, "local"]], "C was moved or marked, or has stages in its loops"),
    (
        [["FU", 2, [0, 1]], ["RF", 2, 1, 0]],
        "the loops over elements of C were changed; divide the reduction first",
    ),
    ([["SP", 2, 0, 64, [4], 1], ["FSP", 3, 0, 0, 2]], "n_split is 2, but step 0 has 1 lengths"),
]


@pytest.mark.parametrize(("rows", "message"), AFTER, ids=lambda value: str(value)[:30])
def test_a_step_that_cannot_be_taken_after_others(rows: list[list[Any]], message: str) -> None:
    dag = matmul_relu(64, 64, 64).dag
    with pytest.raises(StepError) as caught:
        dag.schedule(rows)
    assert message in str(caught.value)


REFUSED_BY_PRIMITIVES: list[tuple[list[list[Any]], str]] = [
    ([["AN", 2, 2, 3]], 'step 0 (AN, stage 2): the schedule refuses it: the "parallel" cannot'),
    ([["CI", 3]], "step 0 (CI, stage 3): the schedule refuses it: "),
    ([["CHR", 0, "local", [3]]], 'names "A", but block "D" touches only'),
    ([["CHW", 2, "nowhere"]], "step 0 (CHW, stage 2): the schedule refuses it: "),
]


@pytest.mark.parametrize(("rows", "message"), REFUSED_BY_PRIMITIVES, ids=lambda v: str(v)[:30])
def test_a_refusal_of_the_schedule_names_the_step(rows: list[list[Any]], message: str) -> None:
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
    with pytest.raises(StepError, match="B gives 2 tensors, which are computed in a nest each"):
        dag.schedule([["FU", 1, [0, 1]]])


def test_a_cache_of_one_of_several_results_is_refused() -> None:
    a, k = te.placeholder((4, 4), name="A"), te.reduce_axis((0, 4), name="k")
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] * y[1]), lambda s, t: (te.const(0, s), te.const(1, t))
    )
    s, p = te.compute((4,), lambda i: both((a[i, k], a[i, k]), axis=k), name="B")
    with pytest.raises(StepError, match=r"step 0 \(CHW, stage 1\): B gives 2 tensors, not one"):
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
