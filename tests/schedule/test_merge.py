"""Merging sibling loops."""

from __future__ import annotations

import pytest

from schedule import Schedule
from tensorir import parse
from tests.schedule.transformation import apply, refused, scheduled

BEFORE = """\
@T.prim_func
def main(A: T.Buffer((7, 4)), B: T.Buffer((7, 4)), C: T.Buffer((7, 4))):
    for i, j in T.grid(7, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for x, y in T.grid(7, 4):
        with T.block("C"):
            vx, vy = T.axis.remap("SS", [x, y])
            C[vx, vy] = B[vx, vy] + T.float32(1)
"""

AFTER = """\
@T.prim_func
def main(A: T.Buffer((7, 4)), B: T.Buffer((7, 4)), C: T.Buffer((7, 4))):
    for i_m in range(7):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i_m, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for y in range(4):
            with T.block("C"):
                vx, vy = T.axis.remap("SS", [i_m, y])
                C[vx, vy] = B[vx, vy] + T.float32(1)
"""

BOTH_AFTER = """\
@T.prim_func
def main(A: T.Buffer((7, 4)), B: T.Buffer((7, 4)), C: T.Buffer((7, 4))):
    for i_m, j_m in T.grid(7, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i_m, j_m])
            B[vi, vj] = A[vi, vj] * T.float32(2)
        with T.block("C"):
            vx, vy = T.axis.remap("SS", [i_m, j_m])
            C[vx, vy] = B[vx, vy] + T.float32(1)
"""


def loops(sch, *names):
    return [sch.get_loops(sch.get_block(name)) for name in names]


def merge_at(depth, *names):
    return lambda sch: sch.merge(*(nest[depth] for nest in loops(sch, *names)))


def test_merges_outer_loops():
    sch = apply(BEFORE, merge_at(0, "B", "C"), AFTER)
    assert sch.trace.as_python()[-1] == "l6 = sch.merge(l1, l4)"


def test_merges_whole_nests():
    apply(BEFORE, merge_at(1, "B", "C"), BOTH_AFTER)


def test_result_is_the_innermost_loop_and_inner_handles_survive():
    sch = Schedule(parse(BEFORE))
    first, second = loops(sch, "B", "C")
    merged = sch.merge(first[0], second[0])
    assert sch.get(merged).loop_var.name == "i_m"
    assert sch.get(first[1]).loop_var.name == "j"
    assert sch.get(second[1]).loop_var.name == "y"


def test_three_nests_with_a_statement_between():
    before = """\
@T.prim_func
def main(A: T.Buffer((5,)), B: T.Buffer((5,)), C: T.Buffer((5,)), D: T.Buffer((5,)), E: T.Buffer((3,))):
    for i in range(5):
        with T.block("B"):
            vi = T.axis.spatial(5, i)
            B[vi] = A[vi] + T.float32(1)
    for i in range(5):
        with T.block("C"):
            vi = T.axis.spatial(5, i)
            C[vi] = A[vi] * T.float32(3)
    for e in range(3):
        with T.block("E"):
            ve = T.axis.spatial(3, e)
            E[ve] = A[ve]
    for i in range(5):
        with T.block("D"):
            vi = T.axis.spatial(5, i)
            D[vi] = B[vi] * C[vi]
"""
    sch = apply(before, merge_at(0, "B", "C", "D"))
    assert [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))] == [
        "E",
        "B",
        "C",
        "D",
    ]


def test_nests_below_one_condition():
    before = """\
@T.prim_func
def main(A: T.Buffer((5,)), B: T.Buffer((5,)), C: T.Buffer((5,)), n: T.int32):
    with T.block("root"):
        if n > 0:
            for i in range(5):
                with T.block("B"):
                    vi = T.axis.spatial(5, i)
                    B[vi] = A[vi] + T.float32(1)
            for i in range(5):
                with T.block("C"):
                    vi = T.axis.spatial(5, i)
                    C[vi] = B[vi] * T.float32(3)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((5,)), B: T.Buffer((5,)), C: T.Buffer((5,)), n: T.int32):
    with T.block("root"):
        if n > 0:
            for i_m in range(5):
                with T.block("B"):
                    vi = T.axis.spatial(5, i_m)
                    B[vi] = A[vi] + T.float32(1)
                with T.block("C"):
                    vi = T.axis.spatial(5, i_m)
                    C[vi] = B[vi] * T.float32(3)
"""
    scheduled(before, merge_at(0, "B", "C"), after)


def test_nests_below_two_conditions_are_refused():
    before = """\
@T.prim_func
def main(A: T.Buffer((5,)), B: T.Buffer((5,)), C: T.Buffer((5,)), n: T.int32):
    with T.block("root"):
        if n > 0:
            for i in range(5):
                with T.block("B"):
                    vi = T.axis.spatial(5, i)
                    B[vi] = A[vi] + T.float32(1)
        else:
            for i in range(5):
                with T.block("C"):
                    vi = T.axis.spatial(5, i)
                    C[vi] = A[vi] * T.float32(3)
"""
    refused(before, merge_at(0, "B", "C"), "LoopsNotSiblingsError")


def reading(index):
    return BEFORE.replace("= B[vx, vy]", f"= B[{index}, vy]")


def test_reading_what_an_earlier_iteration_made_is_fine():
    before = reading("vx - 1").replace("[x, y])", "[x, y])\n            T.where(0 < x)")
    apply(before, merge_at(0, "B", "C"))


@pytest.mark.parametrize("index", ["6 - vx", "(vx + 1) % 7"])
def test_reading_what_a_later_iteration_makes_is_refused(index):
    refused(reading(index), merge_at(0, "B", "C"), "DependencyOrderError", "would run before")


def test_consumer_before_producer_is_refused():
    refused(BEFORE, merge_at(0, "C", "B"), "DependencyOrderError")


def test_overwriting_too_early_is_refused():
    before = BEFORE.replace("C[vx, vy] = B[vx, vy] + T.float32(1)", "A[6 - vx, vy] = T.float32(0)")
    refused(before, merge_at(0, "B", "C"), "DependencyOrderError")


def test_unchecked_schedules_take_what_tvm_takes():
    sch = Schedule(parse(BEFORE), enable_check=False)
    second, first = loops(sch, "C", "B")
    sch.merge(second[0], first[0])


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda s, a, b: s.merge(a[0], b[1]), "DifferentDepthError"),
        (lambda s, a, b: s.merge(a[0], a[1]), "LoopsNotSiblingsError"),
        (lambda s, a, b: s.merge(a[0], a[0]), "LoopsNotSiblingsError"),
        (
            lambda s, a, b: (s.annotate(b[0], "x", 1), s.merge(a[0], b[0])),
            "HasAnnotationOrThreadBindingError",
        ),
        (
            lambda s, a, b: s.merge(s.split(a[0], [None, 2])[0], b[0]),
            "DifferentExtentError",
        ),
        (
            lambda s, a, b: s.merge(s.loop_partition(a[0], [3])[0], b[0]),
            "NotInSameScopeError",
        ),
    ],
)
def test_refused_calls(call, code):
    refused(BEFORE, lambda s: call(s, *loops(s, "B", "C")), code)


def test_loop_that_starts_elsewhere_is_refused():
    before = """\
@T.prim_func
def main(A: T.Buffer((7,)), B: T.Buffer((7,)), C: T.Buffer((7,))):
    for i in range(1, 7):
        with T.block("B"):
            vi = T.axis.spatial(7, i)
            B[vi] = A[vi]
    for i in range(1, 7):
        with T.block("C"):
            vi = T.axis.spatial(7, i)
            C[vi] = A[vi]
"""
    refused(before, merge_at(0, "B", "C"), "LoopNotStartWithZeroError")


def test_nest_with_a_second_statement_is_refused():
    before = """\
@T.prim_func
def main(A: T.Buffer((2, 3)), B: T.Buffer((2, 3)), C: T.Buffer((2, 3)), D: T.Buffer((2,))):
    for i in range(2):
        for j in range(3):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        with T.block("D"):
            vi = T.axis.spatial(2, i)
            D[vi] = T.float32(1)
    for i, j in T.grid(2, 3):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]
"""
    refused(before, merge_at(1, "B", "C"), "NotOnlyChildError")


def test_inner_loops_of_a_merged_nest_merge_again():
    def call(sch):
        first, second = loops(sch, "B", "C")
        sch.merge(first[0], second[0])
        sch.merge(first[1], second[1])

    apply(BEFORE, call, BOTH_AFTER)


def test_one_loop_is_no_merge():
    sch = Schedule(parse(BEFORE))
    with pytest.raises(ValueError, match="at least two loops"):
        sch.merge(loops(sch, "B")[0][0])


def test_calls_of_two_nests_keep_their_order():
    calls = """\
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    for i in range(8):
        with T.block("A"):
            v = T.axis.spatial(8, i)
            A[v] = T.call_extern("float32", "draw")
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = T.call_extern("float32", "draw")
"""
    refused(calls, merge_at(0, "A", "B"), "OpaqueCallError", "another order")
    scheduled(calls.replace("call_extern", "call_pure_extern", 1), merge_at(0, "A", "B"))
