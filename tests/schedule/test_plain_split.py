"""Splits with a remainder of loops that are plainly counted through, against the general way."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schedule.primitives.split as implementation
from schedule import Schedule
from tensorir import assert_structural_equal, parse

PROGRAM = """\
@T.prim_func
def main(A: T.Buffer((1, {n}, 12)), B: T.Buffer((1, {n}, 12))):
    for i, j, k in T.grid(1, {n}, 12):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)
"""


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(2, 13),
    before=st.sampled_from([1, 2, 3, 4, 6]),
    position=st.integers(0, 3),
    factors=st.lists(st.sampled_from([1, 2, 3, 5, 8]), min_size=1, max_size=2),
    inferred=st.integers(0, 2),
    keep_unit=st.booleans(),
)
def test_same_as_the_general_way(n, before, position, factors, inferred, keep_unit):
    sch = Schedule(parse(PROGRAM.format(n=n)))
    block = sch.get_block("B")
    sch.split(sch.get_loops(block)[2], [None, before], preserve_unit_iters=keep_unit)
    loop = sch.get_loops(block)[position]
    factors.insert(inferred, None)
    general = sch.copy()
    sch.split(loop, factors, preserve_unit_iters=keep_unit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(implementation, "_is_plain", lambda *_: False)
        general.split(loop, factors, preserve_unit_iters=keep_unit)
    assert_structural_equal(sch.mod, general.mod)


def test_plain():
    sch = Schedule(parse(PROGRAM.format(n=13)))
    i, j, _ = (sch.get_sref(loop) for loop in sch.get_loops(sch.get_block("B")))
    assert implementation._is_plain(sch.state, j, [])
    assert not implementation._is_plain(sch.state, i, [])
