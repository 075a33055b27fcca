"""Axes of blocks are what they say, or what relies on them is refused."""

from __future__ import annotations

import pytest

from schedule import Schedule
from schedule.analysis.axis_independence import conflict_in
from schedule.analysis.step_order import steps_commute
from tensorir import parse, workloads
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import walk
from tests.recorded import recorded
from tests.schedule.transformation import apply, refused, scheduled

ONE_AXIS = """\
@T.prim_func
def main(A: T.Buffer((64,)), C: T.Buffer((64,)), D: T.Buffer((16, 16)), I: T.Buffer((16,), "int32")):
    for i in range(16):
        with T.block("B"):
            v = T.axis.{kind}(16, i)
            {body}
"""
PROMISED = 'T.block_attr({"schedule.any_order": True})\n            '


def program(body, kind="spatial"):
    return ONE_AXIS.format(kind=kind, body=body)


def block_of(text, name="B"):
    return next(n for n in walk(parse(text).body) if isinstance(n, Block) and n.name_hint == name)


# ----------------------------------------------------------------------------- what can be shown


@pytest.mark.parametrize(
    "body",
    [
        "C[v] = A[v]",
        "C[15 - v] = A[v]",
        "C[v * 2] = C[v * 2 + 1]",
        "C[v] = C[v] + A[v]",
        "C[v] = C[v + 16]",
        "D[v // 4, v % 4] = A[v]",
        "D[v, v] = A[v]",
        "D[v // 5, v % 5] = A[v]",
        "D[v % 9 // 3 + v // 9 * 3, v % 9 % 3] = A[v]",
        "D[v, I[v]] = A[v]",
        "C[v * 5 % 16] = A[v]",
        "for k in range(4):\n                C[v * 4 + k] = A[v]",
        "for k in range(4):\n                C[k * 16 + v] = A[v]",
        "C[v] = A[v]\n            C[v + 16] = A[v]",
    ],
)
def test_instances_that_touch_different_elements(body):
    assert conflict_in(block_of(program(body))) is None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("A[v + 1] = A[v] + 1.0", "touch the same element: A[1] for v = 0 and v = 1"),
        ("C[v % 3] = A[v]", "touch the same element: C[0] for v = 0 and v = 3"),
        ("C[v // 2] = A[v]", "touch the same element: C[0] for v = 0 and v = 1"),
        ("C[0] = A[v]", "touch the same element: C[0] for v = 0 and v = 1"),
        ("D[v // 3, v % 2] = A[v]", "touch the same element: D[0, 0] for v = 0 and v = 2"),
        ("C[v * 2] = C[v * 3]", "touch the same element: C[6] for v = 3 and v = 2"),
        ("C[v] = A[v]\n            C[v + 15] = A[v]", "C[15] for v = 15 and v = 0"),
        ("C[I[v]] = A[v]", "may touch the same element, as it writes C[I_1[v]]"),
        ("if v == 0:\n                C[0] = A[v]", "may touch the same element"),
        ("for k in range(5):\n                C[v * 4 + k] = A[v]", "may touch the same element"),
    ],
)
def test_instances_that_may_touch_the_same_element(body, words):
    found = conflict_in(block_of(program(body)))
    assert found is not None
    assert words in found.text
    assert conflict_in(block_of(program(PROMISED + body))) is None


@pytest.mark.parametrize(
    ("update", "commutes"),
    [
        ("C[0] + A[v]", True),
        ("C[0] - A[v] * 2.0", True),
        ("A[v] - C[0]", False),
        ("C[0] * 0.5 + A[v]", False),
        ("T.max(C[0], A[v])", True),
        ("T.max(C[0], C[0] + A[v])", False),
        ("T.if_then_else(A[v] > 0.0, C[0] + A[v], C[0])", True),
        ("T.if_then_else(C[0] > 0.0, C[0] + A[v], C[0])", False),
        ("T.Select(C[0] > A[v], C[0], A[v])", True),
        ("C[1] + A[v]", False),
        ("A[v]", False),
    ],
)
def test_updates_whose_steps_may_change_their_order(update, commutes):
    body = f"C[0] = {update}"
    assert steps_commute(block_of(program(body, "reduce"))) == commutes
    assert steps_commute(block_of(program(PROMISED + body, "reduce")))


def test_axes_of_operators_and_recorded_programs_are_what_they_say():
    programs = [workloads.create(name) for name in workloads.WORKLOADS]
    programs += [parse(text) for text in {entry["before"] for entry in recorded("spaces")}]
    blocks = [n for p in programs for n in walk(p.body) if isinstance(n, Block)]
    assert len(blocks) > 90
    for block in blocks:
        assert conflict_in(block) is None
        assert steps_commute(block)


# ----------------------------------------------------------------------------- what relies on it

SHIFT = program("A[v + 1] = A[v] + 1.0")
WRAP = program("C[v % 3] = A[v]")
SCATTER = program("C[I[v]] = A[v]")


def turned(sch: Schedule):
    outer, inner = sch.split(sch.get_loops("B")[0], [4, 4])
    sch.reorder(inner, outer)


@pytest.mark.parametrize("before", [SHIFT, WRAP, SCATTER])
@pytest.mark.parametrize(
    "call",
    [turned, lambda sch: sch.transform_block_layout("B", lambda v: (v % 4, v // 4))],
)
def test_an_axis_that_lies_does_not_change_its_order(before, call):
    refused(before, call, "DependentAxisError", "schedule.any_order")


@pytest.mark.parametrize("before", [WRAP, SCATTER])
@pytest.mark.parametrize("kind", ["parallel", "vectorize", "bind"])
def test_iterations_of_an_axis_that_lies_do_not_run_at_once(before, kind):
    thread = ["threadIdx.x"] if kind == "bind" else []
    call = lambda sch: getattr(sch, kind)(sch.get_loops("B")[0], *thread)  # noqa: E731
    refused(before, call, "DependentAxisError", "schedule.any_order")


def test_a_promise_is_believed():
    scatter = SCATTER.replace("C[I[v]]", PROMISED + "C[I[v]]")
    scheduled(scatter, turned)
    scheduled(scatter, lambda sch: sch.parallel(sch.get_loops("B")[0]))


def test_loops_that_keep_the_order_are_accepted():
    for before in (SHIFT, WRAP):
        apply(before, lambda sch: sch.split(sch.get_loops("B")[0], [4, 4]))
        apply(before, lambda sch: sch.unroll(sch.get_loops("B")[0]))


ROWS = """\
@T.prim_func
def main(A: T.Buffer((8, 8)), C: T.Buffer((8, 8))):
    for i, j in T.grid(7, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi + 1, vj] = C[vi, vj] + A[vi, vj]
"""


def test_a_loop_of_an_axis_that_is_independent_moves_past_one_that_is_not():
    apply(ROWS, lambda sch: sch.reorder(*reversed(sch.get_loops("B"))))


def test_an_axis_that_says_that_it_is_ordered_is_refused_as_such():
    before = program("A[v + 1] = A[v] + 1.0", "scan")
    refused(before, turned, "BlockPropertyError", "other than data-parallel and reduce")


RECURRENCE = """\
@T.prim_func
def main(A: T.Buffer((4, 16)), C: T.Buffer((4,))):
    for i, k in T.grid(4, 16):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] * T.float32(0.5) + A[vi, vk]
"""


def test_steps_of_a_recurrence_keep_their_order():
    def swapped(sch):
        outer, inner = sch.split(sch.get_loops("B")[1], [4, 4])
        sch.reorder(inner, outer)

    refused(RECURRENCE, swapped, "OrderedReductionError", "the order of its steps matters")
    apply(RECURRENCE, lambda sch: sch.reorder(*reversed(sch.get_loops("B"))))
    scheduled(RECURRENCE.replace(" * T.float32(0.5)", ""), swapped)


STAGES = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((3,))):
    B = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            v = T.axis.spatial(16, i)
            B[v] = A[v] + T.float32(1)
    for i in range(16):
        with T.block("C"):
            v = T.axis.spatial(16, i)
            C[v % 3] = B[v]
"""


@pytest.mark.parametrize(
    "call",
    [
        lambda sch: sch.reverse_compute_at("C", sch.get_loops("B")[0]),
        lambda sch: sch.reverse_compute_inline("C"),
    ],
)
def test_a_stage_whose_axis_lies_does_not_move(call):
    refused(STAGES, call, "DependentAxisError", "C[0] for v = 0 and v = 3")


def test_an_init_does_not_move_before_updates_of_other_instances():
    before = """\
@T.prim_func
def main(A: T.Buffer((6, 4)), C: T.Buffer((3,))):
    for i, k in T.grid(6, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi % 3] = T.float32(0)
            C[vi % 3] = C[vi % 3] + A[vi, vk]
"""
    first = lambda sch: sch.get_loops("B")[0]  # noqa: E731
    for call in (
        lambda sch: sch.decompose_reduction("B", first(sch)),
        lambda sch: sch.blockize(first(sch)),
        lambda sch: sch.rfactor(sch.get_loops("B")[1], 0),
    ):
        refused(before, call, "DependentAxisError")
