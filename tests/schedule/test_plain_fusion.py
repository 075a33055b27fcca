"""Loops whose blocks plainly count through them are fused as the general way would."""

from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import Schedule
from schedule.analysis.plain_fusion import PlainFusion
from tensorir import assert_structural_equal, parse

PROGRAM = """\
@T.prim_func
def main(A: T.Buffer(({n}, {m}, 6)), B: T.Buffer(({n}, {m}, 6))):
    C = T.alloc_buffer(({n}, {m}, 6))
    for i, j, k in T.grid({n}, {m}, 6):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            C[vi, vj, vk] = A[vi, vj, vk] + T.float32(1)
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            B[vi, vj, vk] = C[vi, vj, vk] * T.float32(2)
"""


def test_neighbours_join_again():
    sch = Schedule(parse(PROGRAM.format(n=4, m=12)))
    block = sch.get_block("B")
    _, j, _ = sch.get_loops(block)
    sch.fuse(*sch.split(j, [2, 3, 2])[1:])
    bindings = sch.get_sref(block).realize.iter_values
    assert [str(value) for value in bindings] == ["i", "j_0 * 6 + j_1_j_2_fused", "k"]


@settings(max_examples=60, deadline=None)
@given(
    n=st.sampled_from([1, 4, 5]),
    m=st.sampled_from([1, 8, 12]),
    inner=st.lists(st.sampled_from([1, 2, 3, 4]), min_size=3, max_size=3),
    order=st.permutations(range(6)),
    ends=st.lists(st.integers(0, 6), min_size=2, max_size=2, unique=True),
    keep_unit=st.booleans(),
)
def test_same_as_the_general_way(n, m, inner, order, ends, keep_unit):
    sch = Schedule(parse(PROGRAM.format(n=n, m=m)))
    loops = sch.get_loops(sch.get_block("B"))
    halves = [
        half
        for loop, factor in zip(loops, inner, strict=True)
        for half in sch.split(loop, [None, factor], preserve_unit_iters=keep_unit)
    ]
    sch.reorder(*(halves[k] for k in order))
    loops = sch.get_loops(sch.get_block("B"))[min(ends) : max(ends)]
    general = sch.copy()
    sch.fuse(*loops, preserve_unit_iters=keep_unit)
    plain_way = PlainFusion.body
    PlainFusion.body = lambda *_: None
    try:
        general.fuse(*loops, preserve_unit_iters=keep_unit)
    finally:
        PlainFusion.body = plain_way
    assert_structural_equal(sch.mod, general.mod)
