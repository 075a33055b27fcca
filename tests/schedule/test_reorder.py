"""Reordering loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from schedule import Schedule
from tensorir import assert_structural_equal, parse
from tensorir.interp import interpret
from tests.schedule.programs import CUBE, MATMUL
from tests.schedule.transformation import apply, refused, scheduled

OPAQUE = """\
@T.prim_func
def main(A: T.Buffer((5, 4)), B: T.Buffer((5, 4))):
    for i in range(5):
        with T.block("row"):
            T.reads(A[i, 0:4])
            T.writes(B[i, 0:4])
            for j in range(4):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] + T.float32(1)
"""

TRIANGLE = """\
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))):
    for i in range(8):
        for j in range(i + 1):
            with T.block("B"):
                T.reads(A[i, j])
                T.writes(B[i, j])
                B[i, j] = A[i, j] * T.float32(2)
"""

STAGES = """\
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
    for x in range(4):
        with T.block("D"):
            vx = T.axis.spatial(4, x)
            B[0, vx] = B[0, vx] + T.float32(1)
"""

SQUARES = """\
@T.prim_func
def main(A: T.Buffer((20, 3)), B: T.Buffer((20, 3))):
    for o, i, j in T.grid(3, 4, 3):
        with T.block("B"):
            vi = T.axis.spatial(20, o * o * 4 + i)
            vj = T.axis.spatial(3, j)
            B[vi, vj] = A[vi, vj] * T.float32(2)
"""

OPAQUE_AXIS = """\
@T.prim_func
def main(A: T.Buffer((5, 4)), B: T.Buffer((5, 4))):
    for i, j in T.grid(5, 4):
        with T.block("B"):
            vi = T.axis.spatial(5, i)
            vj = T.axis.opaque(4, j)
            B[vi, vj] = A[vi, vj] * T.float32(2)
"""

REPEATED = """\
@T.prim_func
def main(A: T.Buffer((3, 5)), C: T.Buffer((3,))):
    for i, r, k in T.grid(3, 2, 5):
        with T.block("C"):
            vi, vk = T.axis.spatial(3, i), T.axis.reduce(5, k)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
"""


def reorder(block, *depths):
    def call(sch):
        loops = sch.get_loops(sch.get_block(block))
        sch.reorder(*(loops[depth] for depth in depths))

    return call


# ---------------------------------------------------------------------------------------- the nest


def test_two_loops_take_each_others_places():
    after = """\
@T.prim_func
def main(A: T.Buffer((4, 6, 8)), B: T.Buffer((4, 6, 8))):
    for k, j, i in T.grid(8, 6, 4):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)
"""
    apply(CUBE, reorder("B", 2, 0), after)


def test_loops_outside_of_the_range_stay():
    after = """\
@T.prim_func
def main(A: T.Buffer((4, 6, 8)), B: T.Buffer((4, 6, 8))):
    for i, k, j in T.grid(4, 8, 6):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)
"""
    apply(CUBE, reorder("B", 2, 1), after)


def test_loops_in_order_stay():
    apply(CUBE, reorder("B", 0, 2), CUBE)


@pytest.mark.parametrize("depths", [(), (1,)])
def test_less_than_two_loops_change_nothing_but_are_recorded(depths):
    sch = apply(CUBE, reorder("B", *depths), CUBE)
    names = ["l1", "l2", "l3"]
    given = [names[depth] for depth in depths]
    assert sch.trace.as_json()[0][-1] == ["Reorder", given, [], []]
    assert sch.trace.as_python()[-1] == f"sch.reorder({', '.join(given)})"


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_every_order_computes_the_same(order):
    def call(sch):
        i, j, k = sch.get_loops(sch.get_block("C"))
        loops = [i, j, *sch.split(k, [None, 2])]
        sch.reorder(*(loops[n] for n in order))

    sch = apply(MATMUL, call)
    names = [sch.get(loop).loop_var.name for loop in sch.get_loops(sch.get_block("C"))]
    assert names == [("i", "j", "k_0", "k_1")[n] for n in order]


def test_bindings_and_predicates_stay():
    after = """\
@T.prim_func
def main(A: T.Buffer((3, 5)), B: T.Buffer((5, 4)), C: T.Buffer((3, 4))):
    for k_1, i, k_0, j in T.grid(2, 3, 3, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            vk = T.axis.reduce(5, k_0 * 2 + k_1)
            T.where(k_0 * 2 + k_1 < 5)
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

    def call(sch):
        i, j, k = sch.get_loops(sch.get_block("C"))
        k_0, k_1 = sch.split(k, [None, 2])
        sch.reorder(k_1, i, k_0, j)

    apply(MATMUL, call, after)


def test_kind_and_annotations_move_with_a_loop():
    after = """\
@T.prim_func
def main(A: T.Buffer((4, 6, 8)), B: T.Buffer((4, 6, 8))):
    for k in T.unroll(8):
        for j in T.serial(6, annotations={"pragma": 3}):
            for i in T.parallel(4):
                with T.block("B"):
                    vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                    B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)
"""

    def call(sch):
        i, j, k = sch.get_loops(sch.get_block("B"))
        sch.parallel(i)
        sch.annotate(j, "pragma", 3)
        sch.unroll(k)
        sch.reorder(k, j, i)

    apply(CUBE, call, after)


def test_a_thread_binding_moves_with_a_loop():
    after = """\
@T.prim_func
def main(A: T.Buffer((4, 6, 8)), B: T.Buffer((4, 6, 8))):
    for k, j in T.grid(8, 6):
        for i in T.thread_binding(4, thread="threadIdx.x"):
            with T.block("B"):
                vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)
"""

    def call(sch):
        i, j, k = sch.get_loops(sch.get_block("B"))
        sch.bind(i, "threadIdx.x")
        sch.reorder(k, j, i)

    apply(CUBE, call, after)


def test_several_blocks_below_the_innermost_loop():
    before = """\
@T.prim_func
def main(A: T.Buffer((5, 4)), B: T.Buffer((5, 4)), C: T.Buffer((5, 4))):
    for i, j in T.grid(5, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
"""
    apply(
        before, reorder("C", 1, 0), before.replace("i, j in T.grid(5, 4)", "j, i in T.grid(4, 5)")
    )


def test_below_a_loop_of_symbolic_extent():
    before = """\
@T.prim_func
def main(a: T.handle, b: T.handle, n: T.int32):
    A = T.match_buffer(a, (n, 5, 3))
    B = T.match_buffer(b, (n, 5, 3))
    for o, i, j in T.grid(n, 5, 3):
        with T.block("B"):
            vo, vi, vj = T.axis.remap("SSS", [o, i, j])
            B[vo, vi, vj] = A[vo, vi, vj] * T.float32(2)
"""
    after = before.replace("o, i, j in T.grid(n, 5, 3)", "o, j, i in T.grid(n, 3, 5)")
    sch = scheduled(before, reorder("B", 2, 1), after)
    given = np.random.default_rng(0).random((2, 5, 3), "float32")
    made = np.zeros((2, 5, 3), "float32")
    interpret(sch.mod, given, made, 2)
    np.testing.assert_array_equal(made, given * 2)


def test_a_block_without_axes_needs_no_affine_binding():
    before = """\
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            T.reads(A[i, j])
            T.writes(B[i, j])
            B[i, j] = A[i, j] * T.float32(2)
"""
    apply(before, reorder("B", 1, 0), before.replace("i, j in", "j, i in"))


def test_a_binding_that_is_affine_from_the_outermost_named_loop_on():
    after = SQUARES.replace("o, i, j in T.grid(3, 4, 3)", "o, j, i in T.grid(3, 3, 4)")
    apply(SQUARES, reorder("B", 2, 1), after)


def test_a_range_may_depend_on_a_loop_that_stays_outside():
    before = """\
@T.prim_func
def main(A: T.Buffer((4, 8, 3)), B: T.Buffer((4, 8, 3))):
    for o in range(4):
        for i in range(o + 1):
            for j in range(3):
                with T.block("B"):
                    T.reads(A[o, i, j])
                    T.writes(B[o, i, j])
                    B[o, i, j] = A[o, i, j] * T.float32(2)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((4, 8, 3)), B: T.Buffer((4, 8, 3))):
    for o in range(4):
        for j in range(3):
            for i in range(o + 1):
                with T.block("B"):
                    T.reads(A[o, i, j])
                    T.writes(B[o, i, j])
                    B[o, i, j] = A[o, i, j] * T.float32(2)
"""
    apply(before, reorder("B", 2, 1), after)


# ------------------------------------------------------------------------------- handles and trace


def test_all_handles_stay():
    sch = Schedule(parse(CUBE), debug_mask="all")
    block = sch.get_block("B")
    i, j, k = sch.get_loops(block)
    sch.reorder(k, i)
    assert [sch.get(loop).loop_var.name for loop in (i, j, k)] == ["i", "j", "k"]
    assert [sch.get(loop) for loop in sch.get_loops(block)] == [sch.get(k), sch.get(j), sch.get(i)]
    sch.reorder(i, j, k)
    assert_structural_equal(sch.mod["main"], parse(CUBE))


def test_trace():
    sch = apply(CUBE, reorder("B", 2, 0))
    assert sch.trace.as_python() == [
        'b0 = sch.get_block(name="B", func_name="main")',
        "l1, l2, l3 = sch.get_loops(block=b0)",
        "sch.reorder(l3, l1)",
    ]
    assert sch.trace.as_json() == [
        [
            ["GetBlock", [], ["B", "main"], ["b0"]],
            ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]],
            ["Reorder", ["l3", "l1"], [], []],
        ],
        [],
    ]


# ----------------------------------------------------------------------------------------- refused


def loops_of(*places):
    """Return a call that reorders loops given as (block, depth)."""

    def call(sch):
        sch.reorder(*(sch.get_loops(sch.get_block(block))[depth] for block, depth in places))

    return call


@pytest.mark.parametrize(
    ("before", "call", "code", "words", "marked"),
    [
        (CUBE, reorder("B", 0, 1, 0), "LoopMultiAppearanceError", "multiple times", ["loop i"]),
        (
            STAGES,
            loops_of(("B", 1), ("D", 0)),
            "LoopsNotAChainError",
            "loop `x` and loop `j` are not under the same scope",
            ["loop x", "loop j"],
        ),
        (
            OPAQUE,
            loops_of(("B", 0), ("row", 0)),
            "LoopsNotAChainError",
            "not under the same scope",
            ["loop i", "loop j"],
        ),
        (
            STAGES,
            reorder("B", 1, 0),
            "LoopsNotAChainError",
            "a non-single-branch stmt below loop `i`",
            ["loop i"],
        ),
        (
            OPAQUE_AXIS,
            reorder("B", 1, 0),
            "BlockPropertyError",
            "data-parallel and reduce on axis vj",
            ["block B"],
        ),
        (
            SQUARES,
            reorder("B", 1, 0),
            "NotAffineBindingError",
            'block "B" is required to have a partial affine binding under o',
            ["block B"],
        ),
        (
            TRIANGLE,
            reorder("B", 1, 0),
            "DependentLoopError",
            "the range of loop `j` is dependent on the loop variable i",
            ["loop j"],
        ),
        (
            REPEATED,
            reorder("C", 2, 1),
            "BlockPropertyError",
            "in the new order, the steps of a reduction below loop `k` do not each run once with the "
            "initialising step first, because loop `r` runs the same steps several times",
            ["loop k"],
        ),
    ],
)
def test_refused(before, call, code, words, marked):
    refused(before, call, code, words, marked)


def test_the_block_that_is_not_affine_is_the_one_marked():
    before = """\
@T.prim_func
def main(A: T.Buffer((4, 6)), B: T.Buffer((4, 6)), C: T.Buffer((4, 6))):
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            vj = T.axis.spatial(6, (i + j) % 6)
            C[vi, vj] = A[vi, vj]
"""
    refused(before, reorder("B", 1, 0), "NotAffineBindingError", marked=["block C"])


def test_a_loop_that_repeats_the_whole_reduction_may_move_further_out():
    after = REPEATED.replace("i, r, k in T.grid(3, 2, 5)", "r, i, k in T.grid(2, 3, 5)")
    apply(REPEATED, reorder("C", 1, 0), after)


def test_without_checks_repeated_steps_are_accepted():
    sch = Schedule(parse(REPEATED), enable_check=False)
    reorder("C", 2, 1)(sch)
    after = REPEATED.replace("i, r, k in T.grid(3, 2, 5)", "i, k, r in T.grid(3, 5, 2)")
    assert_structural_equal(sch.mod["main"], parse(after))


def test_loops_of_a_reduction_pass_one_of_both_kinds():
    before = """\
@T.prim_func
def main(A: T.Buffer((4, 6)), C: T.Buffer((4,))):
    for f, g in T.grid(8, 3):
        with T.block("C"):
            vi = T.axis.spatial(4, f // 2)
            vk = T.axis.reduce(6, f % 2 * 3 + g)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
"""
    apply(
        before, reorder("C", 1, 0), before.replace("f, g in T.grid(8, 3)", "g, f in T.grid(3, 8)")
    )


FUSED_TILES = """\
@T.prim_func
def main(A: T.Buffer((4, 6)), C: T.Buffer((4,))):
    for g, f_0, f_1 in T.grid(2, 3, 4):
        with T.block("C"):
            vi = T.axis.spatial(4, (f_0 * 4 + f_1) // 3)
            vk = T.axis.reduce(6, (f_0 * 4 + f_1) % 3 * 2 + g)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
"""


def test_loops_that_count_through_axes_of_both_kinds_keep_their_order():
    after = FUSED_TILES.replace("g, f_0, f_1 in T.grid(2, 3, 4)", "f_0, g, f_1 in T.grid(3, 2, 4)")
    apply(FUSED_TILES, reorder("C", 1, 0), after)
    refused(
        FUSED_TILES,
        reorder("C", 2, 1),
        "BlockPropertyError",
        "`f_1`, `f_0` drive data-parallel and reduction axes, but are nested in another order",
        marked=["loop f_1"],
    )


def test_what_an_axis_is_bound_to_is_followed_through_lets():
    before = FUSED_TILES.replace(
        """\
        with T.block("C"):
            vi = T.axis.spatial(4, (f_0 * 4 + f_1) // 3)
""",
        """\
        row: T.int32 = (f_0 * 4 + f_1) // 3
        with T.block("C"):
            vi = T.axis.spatial(4, row)
""",
    )
    words = "`f_1`, `f_0` drive data-parallel and reduction axes, but are nested in another order"
    refused(before, reorder("C", 2, 1), "BlockPropertyError", words)


def test_a_reduction_that_starts_late_keeps_the_order_of_its_loops():
    before = """\
@T.prim_func
def main(A: T.Buffer((4, 6)), C: T.Buffer((1,))):
    for i, k, l in T.grid(1, 4, 6):
        with T.block("C"):
            vi = T.axis.spatial(1, i)
            vk, vl = T.axis.reduce(4, 3 - k), T.axis.reduce(6, l)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vk, vl]
"""
    words = "because reduction axis vk may not start at 0"
    refused(before, reorder("C", 2, 1), "BlockPropertyError", words)


NESTED = """\
@T.prim_func
def main(A: T.Buffer((4, 6)), C: T.Buffer((4,))):
    for j, k in T.grid(3, 6):
        with T.block("outer"):
            vj, vk = T.axis.remap("SR", [j, k])
            T.reads(A[0:4, vk])
            T.writes(C[0:4])
            for i in range(4):
                with T.block("C"):
                    vi = T.axis.spatial(4, i)
                    vs = T.axis.reduce(6, vk)
                    with T.init():
                        C[vi] = T.float32(0)
                    C[vi] = C[vi] + A[vi, vs]
"""
OPAQUE_NESTED = NESTED.replace(
    """            vj, vk = T.axis.remap("SR", [j, k])
            T.reads(A[0:4, vk])
""",
    "            T.reads(A[0:4, 0:6])\n",
).replace("T.axis.reduce(6, vk)", "T.axis.reduce(6, k)")


@pytest.mark.parametrize("before", [NESTED, OPAQUE_NESTED])
def test_steps_of_a_reduction_inside_a_block_are_not_repeated(before):
    words = "loop `j` runs the same steps several times"
    refused(before, reorder("outer", 1, 0), "BlockPropertyError", words, marked=["loop k"])


@pytest.mark.parametrize("binding", ["l * 8", "l // 2", "l % 3"])
def test_an_axis_that_skips_or_repeats_values_by_itself_may_be_reordered(binding):
    before = f"""\
@T.prim_func
def main(A: T.Buffer((4, 32)), B: T.Buffer((4, 32))):
    for i, l in T.grid(4, 4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            vl = T.axis.spatial(32, {binding})
            B[vi, vl] = A[vi, vl] * T.float32(2)
"""
    apply(before, reorder("B", 1, 0))


@pytest.mark.parametrize("binding", ["l * l", "i * l", "i + l", "l * 2 + i"])
def test_axes_that_do_not_follow_loops_one_by_one_are_refused(binding):
    before = f"""\
@T.prim_func
def main(A: T.Buffer((4, 32)), B: T.Buffer((4, 32))):
    for i, l in T.grid(4, 4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            vl = T.axis.spatial(32, {binding})
            B[vi, vl] = A[vi, vl] * T.float32(2)
"""
    refused(before, reorder("B", 1, 0), "NotAffineBindingError", "affine binding", ["block B"])
