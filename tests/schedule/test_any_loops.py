"""Whatever the extents and factors, changes of loops keep the results."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.cases import program
from tests.schedule.programs import VECTOR
from tests.schedule.transformation import apply

SYMBOLIC_CUBE = program("CUBE_2", "dynamic_shapes")


@settings(max_examples=30)
@given(st.integers(1, 40), st.lists(st.integers(1, 7), min_size=1, max_size=3), st.integers(0, 3))
def test_split(extent, factors, place):
    wanted = [*factors[:place], None, *factors[place:]]
    text = VECTOR.replace("128", str(extent))
    sch = apply(text, lambda sch: sch.split(sch.get_loops("B")[0], wanted))
    extents = [int(sch.get(loop).extent) for loop in sch.get_loops("B")]
    inferred = -(-extent // math.prod(factors))
    assert extents == [inferred if f is None else f for f in wanted]


@settings(max_examples=20)
@given(st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5)), st.booleans())
def test_fuse_keeps_the_order_of_iterations(extents, preserve_unit_iters):
    a, b, c = extents
    text = f"""\
@T.prim_func
def main(A: T.Buffer(({a}, {b}, {c})), B: T.Buffer((1,))):
    for i, j, k in T.grid({a}, {b}, {c}):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("RRR", [i, j, k])
            with T.init():
                B[0] = T.float32(0)
            B[0] = B[0] * T.float32(0.5) + A[vi, vj, vk]
"""
    apply(
        text,
        lambda sch: sch.fuse(*sch.get_loops("B"), preserve_unit_iters=preserve_unit_iters),
    )


@settings(max_examples=20)
@given(st.booleans(), st.integers(0, 3), st.sampled_from([1, 2, 3, 4, 6, 12]), st.booleans())
def test_blockize_of_tiles_of_a_reduction(swap, depth, factor, preserve_unit_iters):
    text = """\
@T.prim_func
def main(A: T.Buffer((8, 12)), B: T.Buffer((8,))):
    for i, k in T.grid(8, 12):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(1)
            B[vi] = B[vi] + A[vi, vk]
"""

    def call(sch):
        i, k = sch.get_loops("B")
        i_0, i_1 = sch.split(i, [None, 4])
        k_0, k_1 = sch.split(k, [None, factor])
        sch.reorder(*((k_0, i_0) if swap else (i_0, k_0)), i_1, k_1)
        sch.blockize(sch.get_loops("B")[depth], preserve_unit_iters=preserve_unit_iters)

    apply(text, call)


@settings(max_examples=20)
@given(
    st.integers(0, 4), st.integers(1, 6), st.integers(0, 4), st.integers(1, 5), st.integers(0, 2)
)
def test_decompose_padding(before, inside, behind, factor, depth):
    whole = before + inside + behind
    if whole == inside:
        behind, whole = 1, whole + 1
    text = f"""\
@T.prim_func
def main(A: T.Buffer(({inside}, 3)), P: T.Buffer(({whole}, 3))):
    for i, j in T.grid({whole}, 3):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = T.if_then_else(
                {before} <= vi and vi < {before + inside}, A[vi - {before}, vj], T.float32(7)
            )
"""

    def call(sch):
        sch.split(sch.get_loops("P")[0], [None, factor])
        loop = sch.get_loops("P")[depth]
        assert sch.can_decompose_padding("P", loop)
        sch.decompose_padding("P", loop)

    apply(text, call)


@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["split", "fuse", "swap"]),
            st.integers(0, 5),
            st.sampled_from([2, 4, 16]),
        ),
        max_size=4,
    )
)
def test_the_outermost_of_tiled_and_fused_loops_of_any_size_can_be_parallel(steps):
    def call(sch):
        for step, place, factor in steps:
            loops = sch.get_loops("B")
            k = place % len(loops)
            if step == "split":
                sch.split(loops[k], [None, factor])
            elif step == "fuse":
                sch.fuse(*loops[k : k + 2])
            elif k + 1 < len(loops):
                sch.reorder(loops[k + 1], loops[k])
        sch.parallel(sch.get_loops("B")[0])

    apply(SYMBOLIC_CUBE, call)
