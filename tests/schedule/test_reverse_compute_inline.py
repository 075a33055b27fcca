"""reverse_compute_inline: a producer stores what its consumer made of its values."""

from __future__ import annotations

import pytest

from schedule import Schedule
from tensorir import assert_structural_equal, parse

# ----------------------------------------------------------------------- consumers of a part only


CONDITION = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer(({extent},))):
    B = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            T.reads(A[vi])
            T.writes(B[vi])
            if {condition}:
                B[vi] = A[vi] + T.float32(1)
    for x in range({extent}):
        with T.block("C"):
            vx = T.axis.spatial({extent}, x)
            C[vx] = B[vx]
"""


def inlined_without_checks(before):
    """Return the program with C inlined, though it reads what B may leave unwritten."""
    sch = Schedule(parse(before), debug_mask="all", enable_check=False)
    sch.reverse_compute_inline("C")
    return sch.mod["main"]


def test_a_condition_in_the_body_of_the_producer_stays():
    after = """\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((16,))):
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            T.reads(A[vi])
            T.writes(C[vi])
            if A[vi] > T.float32(0):
                C[vi] = A[vi] + T.float32(1)
"""
    before = CONDITION.format(extent=16, condition="A[vi] > T.float32(0)")
    assert_structural_equal(inlined_without_checks(before), parse(after))


@pytest.mark.parametrize(
    ("condition", "predicate"), [("vi < 10", "i < 10"), ("3 <= vi", "i < 10 and 3 <= i")]
)
def test_a_condition_and_a_part_join_in_the_predicate(condition, predicate):
    after = f"""\
@T.prim_func
def main(A: T.Buffer((16,)), C: T.Buffer((10,))):
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            T.where({predicate})
            T.reads(A[vi])
            T.writes(C[vi])
            C[vi] = A[vi] + T.float32(1)
"""
    before = CONDITION.format(extent=10, condition=condition)
    assert_structural_equal(inlined_without_checks(before), parse(after))
