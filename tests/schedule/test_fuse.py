"""Fusing loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedule import Schedule
from tensorir import assert_structural_equal, parse
from tensorir.interp import interpret
from tensorir.nodes.ops import const
from tests.schedule.programs import CUBE, MATRIX
from tests.schedule.transformation import apply, refused, scheduled

ROWS = """\
@T.prim_func
def main(A: T.Buffer((10, 4)), B: T.Buffer((10, 4)), C: T.Buffer((10,))):
    for i in range(10):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
        with T.block("C"):
            vi = T.axis.spatial(10, i)
            C[vi] = B[vi, 0]
"""

OPAQUE = """\
@T.prim_func
def main(A: T.Buffer((3, 5, 4)), B: T.Buffer((3, 5, 4))):
    for i, j in T.grid(3, 5):
        with T.block("row"):
            T.reads(A[i, j, 0:4])
            T.writes(B[i, j, 0:4])
            for k in range(4):
                with T.block("B"):
                    vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                    B[vi, vj, vk] = A[vi, vj, vk] + T.float32(1)
"""


def fuse(block, *depths, **options):
    def call(sch):
        loops = sch.get_loops(sch.get_block(block))
        return sch.fuse(*(loops[depth] for depth in depths), **options)

    return call


# ----------------------------------------------------------------------------------- the new loop


def test_three_loops():
    after = """\
@T.prim_func
def main(A: T.Buffer((4, 6, 8)), B: T.Buffer((4, 6, 8))):
    for i_j_k_fused in range(192):
        with T.block("B"):
            vi = T.axis.spatial(4, i_j_k_fused // 48)
            vj = T.axis.spatial(6, i_j_k_fused % 48 // 8)
            vk = T.axis.spatial(8, i_j_k_fused % 8)
            B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)
"""
    sch = apply(CUBE, fuse("B", 0, 1, 2), after)
    (loop,) = sch.get_loops(sch.get_block("B"))
    assert sch.get(loop).loop_var.name == "i_j_k_fused"


def test_the_inner_two_of_three_loops():
    after = """\
@T.prim_func
def main(A: T.Buffer((4, 6, 8)), B: T.Buffer((4, 6, 8))):
    for i, j_k_fused in T.grid(4, 48):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            vj = T.axis.spatial(6, j_k_fused // 8)
            vk = T.axis.spatial(8, j_k_fused % 8)
            B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)
"""
    apply(CUBE, fuse("B", 1, 2), after)


def test_one_loop_is_only_renamed():
    after = CUBE.replace("for i, j, k", "for i, j_fused, k").replace("[i, j, k]", "[i, j_fused, k]")
    sch = apply(CUBE, fuse("B", 1), after)
    names = [sch.get(loop).loop_var.name for loop in sch.get_loops(sch.get_block("B"))]
    assert names == ["i", "j_fused", "k"]


def test_an_axis_of_a_unit_loop_becomes_zero():
    before = CUBE.replace("6", "1")
    after = """\
@T.prim_func
def main(A: T.Buffer((4, 1, 8)), B: T.Buffer((4, 1, 8))):
    for i_j_k_fused in range(32):
        with T.block("B"):
            vi = T.axis.spatial(4, i_j_k_fused // 8)
            vj = T.axis.spatial(1, 0)
            vk = T.axis.spatial(8, i_j_k_fused % 8)
            B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)
"""
    apply(before, fuse("B", 0, 1, 2), after)


def test_an_outermost_unit_loop():
    before = CUBE.replace("4", "1")
    after = """\
@T.prim_func
def main(A: T.Buffer((1, 6, 8)), B: T.Buffer((1, 6, 8))):
    for i_j_k_fused in range(48):
        with T.block("B"):
            vi = T.axis.spatial(1, 0)
            vj = T.axis.spatial(6, i_j_k_fused // 8)
            vk = T.axis.spatial(8, i_j_k_fused % 8)
            B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)
"""
    apply(before, fuse("B", 0, 1, 2), after)


@pytest.mark.parametrize(
    ("options", "binding"),
    [
        ({}, "u * 96 + i_j_fused"),
        ({"preserve_unit_iters": True}, "u * 96 + i_j_fused"),
        ({"preserve_unit_iters": False}, "i_j_fused"),
    ],
)
def test_unit_loops_around_stay_in_bindings_unless_told_otherwise(options, binding):
    before = """\
@T.prim_func
def main(A: T.Buffer((96,)), B: T.Buffer((96,))):
    for u, i, j in T.grid(1, 8, 12):
        with T.block("B"):
            vi = T.axis.spatial(96, u * 96 + i * 12 + j)
            B[vi] = A[vi] * T.float32(2)
"""
    after = f"""\
@T.prim_func
def main(A: T.Buffer((96,)), B: T.Buffer((96,))):
    for u, i_j_fused in T.grid(1, 96):
        with T.block("B"):
            vi = T.axis.spatial(96, {binding})
            B[vi] = A[vi] * T.float32(2)
"""
    apply(before, fuse("B", 1, 2, **options), after)


@pytest.mark.parametrize("kind", ["parallel", "vectorized", "unroll"])
def test_the_new_loop_is_serial(kind):
    before = MATRIX.replace("i, j in T.grid(8, 12)", f"i in T.{kind}(8)").replace(
        "        with", "      for j in range(12):\n        with"
    )
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 12)), B: T.Buffer((8, 12))):
    for f in range(96):
        with T.block("B"):
            vi = T.axis.spatial(8, f // 12)
            vj = T.axis.spatial(12, f % 12)
            B[vi, vj] = A[vi, vj] * T.float32(2)
"""
    apply(before, fuse("B", 0, 1), after)


def test_the_new_loop_has_the_widest_dtype():
    before = """\
@T.prim_func
def main(A: T.Buffer((4, 8)), B: T.Buffer((4, 8))):
    for i in range(4):
        for j in range(T.int64(8)):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                vj = T.axis.spatial(T.int64(8), j)
                B[vi, vj] = A[vi, vj] * T.float32(2)
"""
    sch = apply(before, fuse("B", 0, 1))
    (fused,) = sch.get_loops(sch.get_block("B"))
    assert sch.get(fused).loop_var.dtype == "int64"
    assert_structural_equal(sch.get(fused).extent, const(32, "int64"))
    assert [axis.var.dtype for axis in sch.get(sch.get_block("B")).iter_vars] == ["int32", "int64"]


# ------------------------------------------------------------------------------ after other steps


def test_loops_of_tiles():
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 12)), B: T.Buffer((8, 12))):
    for f, i_1, j_1 in T.grid(8, 4, 3):
        with T.block("B"):
            vi = T.axis.spatial(8, f // 4 * 4 + i_1)
            vj = T.axis.spatial(12, f % 4 * 3 + j_1)
            B[vi, vj] = A[vi, vj] * T.float32(2)
"""

    def call(sch):
        i, j = sch.get_loops(sch.get_block("B"))
        i_0, i_1 = sch.split(i, [2, 4])
        j_0, j_1 = sch.split(j, [4, 3])
        sch.reorder(i_0, j_0, i_1, j_1)
        sch.fuse(i_0, j_0)

    apply(MATRIX, call, after)


def test_what_was_split_is_fused_again():
    def call(sch):
        sch.fuse(*sch.split(sch.get_loops(sch.get_block("B"))[1], [3, 4]))

    apply(MATRIX, call, MATRIX)


def test_neighbours_of_a_split_join_again():
    sch = Schedule(parse(MATRIX))
    block = sch.get_block("B")
    _, j = sch.get_loops(block)
    sch.fuse(*sch.split(j, [2, 3, 2])[1:])
    bindings = sch.get_sref(block).realize.iter_values
    assert [str(value) for value in bindings] == ["i", "j_0 * 6 + j_1_j_2_fused"]


def test_a_predicate_is_substituted():
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 12)), B: T.Buffer((8, 12))):
    for i, f in T.grid(8, 15):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            vj = T.axis.spatial(12, f)
            T.where(f // 5 * 5 + f % 5 < 12)
            B[vi, vj] = A[vi, vj] * T.float32(2)
"""

    def call(sch):
        sch.fuse(*sch.split(sch.get_loops(sch.get_block("B"))[1], [None, 5]))

    apply(MATRIX, call, after)


def test_several_blocks_below():
    before = """\
@T.prim_func
def main(A: T.Buffer((10, 3)), B: T.Buffer((10, 3)), C: T.Buffer((10, 3))):
    for i, j in T.grid(10, 3):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((10, 3)), B: T.Buffer((10, 3)), C: T.Buffer((10, 3))):
    for f in range(30):
        with T.block("B"):
            vi = T.axis.spatial(10, f // 3)
            vj = T.axis.spatial(3, f % 3)
            B[vi, vj] = A[vi, vj] + T.float32(1)
        with T.block("C"):
            vi = T.axis.spatial(10, f // 3)
            vj = T.axis.spatial(3, f % 3)
            C[vi, vj] = B[vi, vj] + T.float32(1)
"""
    apply(before, fuse("C", 0, 1), after)


def test_a_block_without_axes_is_entered():
    after = """\
@T.prim_func
def main(A: T.Buffer((3, 5, 4)), B: T.Buffer((3, 5, 4))):
    for f in range(15):
        with T.block("row"):
            T.reads(A[f // 5, f % 5, 0:4])
            T.writes(B[f // 5, f % 5, 0:4])
            for k in range(4):
                with T.block("B"):
                    vi = T.axis.spatial(3, f // 5)
                    vj = T.axis.spatial(5, f % 5)
                    vk = T.axis.spatial(4, k)
                    B[vi, vj, vk] = A[vi, vj, vk] + T.float32(1)
"""
    apply(OPAQUE, fuse("row", 0, 1), after)


def test_symbolic_extents():
    before = """\
@T.prim_func
def main(a: T.handle, b: T.handle, n: T.int32, m: T.int32):
    A = T.match_buffer(a, (n, m))
    B = T.match_buffer(b, (n, m))
    for i, j in T.grid(n, m):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
"""
    after = """\
@T.prim_func
def main(a: T.handle, b: T.handle, n: T.int32, m: T.int32):
    A = T.match_buffer(a, (n, m))
    B = T.match_buffer(b, (n, m))
    for f in range(n * m):
        with T.block("B"):
            vi = T.axis.spatial(n, f // m)
            vj = T.axis.spatial(m, f % m)
            B[vi, vj] = A[vi, vj] * T.float32(2)
"""
    sch = scheduled(before, fuse("B", 0, 1), after)
    for shape in ((1, 1), (3, 5), (4, 1)):
        given_values = np.random.default_rng(0).random(shape, "float32")
        made = np.zeros(shape, "float32")
        interpret(sch.mod, given_values, made, *shape)
        np.testing.assert_array_equal(made, given_values * 2)


@given(st.lists(st.integers(1, 5), min_size=3, max_size=3), st.booleans())
def test_the_order_of_iterations_is_kept(extents, preserve_unit_iters):
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
    apply(text, fuse("B", 0, 1, 2, preserve_unit_iters=preserve_unit_iters))


# ----------------------------------------------------------------------------- handles and trace


def test_handles():
    sch = Schedule(parse(MATRIX))
    block = sch.get_block("B")
    i, j = sch.get_loops(block)
    fused = sch.fuse(i, j)
    (again,) = sch.get_loops(block)
    assert sch.get(fused) is sch.get(again)
    for old in (i, j):
        with pytest.raises(ValueError, match="fuse replaced it"):
            sch.get(old)


def test_trace():
    sch = apply(MATRIX, fuse("B", 0, 1, preserve_unit_iters=False))
    assert sch.trace.as_python() == [
        'b0 = sch.get_block(name="B", func_name="main")',
        "l1, l2 = sch.get_loops(block=b0)",
        "l3 = sch.fuse(l1, l2, preserve_unit_iters=False)",
    ]
    assert sch.trace.as_json() == [
        [
            ["GetBlock", [], ["B", "main"], ["b0"]],
            ["GetLoops", ["b0"], [], ["l1", "l2"]],
            ["Fuse", ["l1", "l2"], [0], ["l3"]],
        ],
        [],
    ]
    assert apply(MATRIX, fuse("B", 0, 1)).trace.as_json()[0][2][2] == [1]


# ---------------------------------------------------------------------------------------- refused


def changed(change, depth):
    def call(sch):
        i, j, k = sch.get_loops(sch.get_block("B"))
        change(sch, (i, j, k)[depth])
        sch.fuse(i, j, k)

    return call


def annotate(sch, loop):
    sch.annotate(loop, "pragma", 1)


def bind(sch, loop):
    sch.bind(loop, "threadIdx.x")


def across_a_block(sch):
    row, inner = sch.get_block("row"), sch.get_block("B")
    sch.fuse(sch.get_loops(row)[1], sch.get_loops(inner)[0])


SHIFTED = """\
@T.prim_func
def main(A: T.Buffer((8, 12)), B: T.Buffer((8, 12))):
    for i in range(8):
        for j in range(2, 12):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
"""

TRIANGLE = """\
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))):
    for i in range(8):
        for j in range(i + 1):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                vj = T.axis.spatial(8, j)
                B[vi, vj] = A[vi, vj] * T.float32(2)
"""


@pytest.mark.parametrize(
    ("before", "call", "code", "words", "marked"),
    [
        (
            CUBE,
            changed(annotate, 1),
            "HasAnnotationOrThreadBindingError",
            "`j` has one",
            ["loop j"],
        ),
        (CUBE, changed(bind, 2), "HasAnnotationOrThreadBindingError", "`k` has one", ["loop k"]),
        (
            CUBE,
            fuse("B", 0, 2),
            "OuterNotInnerParent",
            "loop `i` is not the parent of loop `k`",
            ["loop i", "loop k"],
        ),
        (
            CUBE,
            fuse("B", 1, 0),
            "OuterNotInnerParent",
            "loop `j` is not the parent of loop `i`",
            ["loop j", "loop i"],
        ),
        (CUBE, fuse("B", 0, 0), "OuterNotInnerParent", "not the parent", ["loop i", "loop i"]),
        (OPAQUE, across_a_block, "OuterNotInnerParent", "not the parent", ["loop j", "loop k"]),
        (
            ROWS,
            fuse("B", 0, 1),
            "NotOnlyChildError",
            "loop `j` is not the only child of loop `i`",
            ["loop i", "loop j"],
        ),
        (SHIFTED, fuse("B", 0, 1), "LoopNotStartWithZeroError", "starts at 2", ["loop j"]),
        (
            TRIANGLE,
            fuse("B", 0, 1),
            "DependentLoopError",
            "the range of loop `j` is dependent on the loop variable i",
            ["loop j"],
        ),
    ],
)
def test_refused(before, call, code, words, marked):
    refused(before, call, code, words, marked)


def test_no_loop_at_all():
    sch = Schedule(parse(CUBE))
    with pytest.raises(ValueError, match="at least one loop"):
        sch.fuse()
    assert sch.trace.insts == []


def test_loops_without_iterations():
    empty = """\
@T.prim_func
def main(A: T.Buffer((4, 8)), B: T.Buffer((4, 8))):
    for i, j in T.grid(0, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
"""
    sch = apply(empty, fuse("B", 0, 1))
    (loop,) = sch.get_loops("B")
    assert sch.get(loop).extent.value == 0
