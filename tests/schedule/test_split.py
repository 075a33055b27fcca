"""Splitting a loop."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedule import Schedule
from tensorir import parse
from tensorir.interp import interpret
from tests.schedule.programs import SYMBOLIC, VECTOR
from tests.schedule.transformation import apply, refused, scheduled

MATMUL = """\
@T.prim_func
def main(A: T.Buffer((5, 6)), B: T.Buffer((6, 4)), C: T.Buffer((5, 4))):
    for i, j, k in T.grid(5, 4, 6):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def vector(loops, binding, predicate=""):
    """Return VECTOR with other loops, binding and predicate."""
    where = f"            T.where({predicate})\n" if predicate else ""
    text = VECTOR.replace("i in range(128)", loops).replace("(128, i)\n", f"(128, {binding})\n")
    return text.replace("            B[vi]", where + "            B[vi]")


def split(block, depth, factors, **options):
    return lambda sch: sch.split(sch.get_loops(sch.get_block(block))[depth], factors, **options)


# ---------------------------------------------------------------------------------- the new nest


def test_factors_that_divide():
    after = vector("i_0, i_1, i_2 in T.grid(2, 16, 4)", "i_0 * 64 + i_1 * 4 + i_2")
    apply(VECTOR, split("B", 0, [2, 16, 4]), after)


@pytest.mark.parametrize(
    ("factors", "extents"),
    [
        ([None, 16, 4], "2, 16, 4"),
        ([2, None, 4], "2, 16, 4"),
        ([2, 16, None], "2, 16, 4"),
    ],
)
def test_one_factor_may_be_inferred(factors, extents):
    after = vector(f"i_0, i_1, i_2 in T.grid({extents})", "i_0 * 64 + i_1 * 4 + i_2")
    apply(VECTOR, split("B", 0, factors), after)


def test_an_inferred_factor_that_does_not_divide_is_rounded_up():
    after = vector(
        "i_0, i_1, i_2 in T.grid(11, 3, 4)",
        "i_0 * 12 + i_1 * 4 + i_2",
        "(i_0 * 3 + i_1) * 4 + i_2 < 128",
    )
    apply(VECTOR, split("B", 0, [None, 3, 4]), after)


def test_an_inner_factor_can_be_the_rounded_one():
    after = vector("i_0, i_1 in T.grid(3, 43)", "i_0 * 43 + i_1", "i_0 * 43 + i_1 < 128")
    apply(VECTOR, split("B", 0, [3, None]), after)


def test_a_product_beyond_the_extent_needs_a_predicate():
    after = vector("i_0, i_1 in T.grid(10, 13)", "i_0 * 13 + i_1", "i_0 * 13 + i_1 < 128")
    apply(VECTOR, split("B", 0, [10, 13]), after)


def test_a_single_factor_renames_the_loop():
    apply(VECTOR, split("B", 0, [None]), vector("i_0 in range(128)", "i_0"))


def test_a_factor_larger_than_the_extent():
    after = vector("i_0, i_1 in T.grid(1, 200)", "i_0 * 200 + i_1", "i_0 * 200 + i_1 < 128")
    apply(VECTOR, split("B", 0, [None, 200]), after)


@pytest.mark.parametrize(
    ("factors", "loops", "kept", "dropped"),
    [
        (
            [2, 1, 64],
            "i_0, i_1, i_2 in T.grid(2, 1, 64)",
            "i_0 * 64 + i_1 * 64 + i_2",
            "i_0 * 64 + i_2",
        ),
        ([1, 128], "i_0, i_1 in T.grid(1, 128)", "i_0 * 128 + i_1", "i_1"),
        ([128, 1], "i_0, i_1 in T.grid(128, 1)", "i_0 + i_1", "i_0"),
    ],
)
def test_unit_loops_stay_in_bindings_unless_told_otherwise(factors, loops, kept, dropped):
    apply(VECTOR, split("B", 0, factors), vector(loops, kept))
    apply(VECTOR, split("B", 0, factors, preserve_unit_iters=True), vector(loops, kept))
    apply(VECTOR, split("B", 0, factors, preserve_unit_iters=False), vector(loops, dropped))


def test_disable_predication_leaves_the_predicate_out():
    after = vector("i_0, i_1, i_2 in T.grid(11, 3, 4)", "i_0 * 12 + i_1 * 4 + i_2")
    scheduled(VECTOR, split("B", 0, [None, 3, 4], disable_predication=True), after)


def test_sampled_factors():
    def call(sch):
        (loop,) = sch.get_loops(sch.get_block("B"))
        inner = sch.sample_categorical([4, 8], [0.5, 0.5], decision=1)
        sch.split(loop, [None, inner * 2, inner])

    sch = apply(
        VECTOR, call, vector("i_0, i_1, i_2 in T.grid(1, 16, 8)", "i_0 * 128 + i_1 * 8 + i_2")
    )
    assert sch.trace.as_python()[-1] == (
        "l3, l4, l5 = sch.split(loop=l1, factors=[None, v2 * 2, v2], preserve_unit_iters=True, "
        "disable_predication=False)"
    )


def test_a_sampled_tile():
    def call(sch):
        (loop,) = sch.get_loops(sch.get_block("B"))
        sch.split(loop, sch.sample_perfect_tile(loop, 3, decision=[4, 2, 16]))

    apply(VECTOR, call, vector("i_0, i_1, i_2 in T.grid(4, 2, 16)", "i_0 * 32 + i_1 * 16 + i_2"))


@pytest.mark.parametrize("kind", ["parallel", "vectorized", "unroll"])
def test_the_new_loops_are_serial(kind):
    before = vector(f"i in T.{kind}(128)", "i")
    apply(before, split("B", 0, [8, 16]), vector("i_0, i_1 in T.grid(8, 16)", "i_0 * 16 + i_1"))


def test_int64_loops():
    before = VECTOR.replace("range(128)", "range(T.int64(128))").replace(
        "spatial(128, i)", "spatial(T.int64(128), i)"
    )
    after = """\
@T.prim_func
def main(A: T.Buffer((128,)), B: T.Buffer((128,))):
    for i_0, i_1 in T.grid(T.int64(11), T.int64(12)):
        with T.block("B"):
            vi = T.axis.spatial(T.int64(128), i_0 * T.int64(12) + i_1)
            T.where(i_0 * T.int64(12) + i_1 < T.int64(128))
            B[vi] = A[vi] * T.float32(2)
"""
    apply(before, split("B", 0, [None, 12]), after)


@given(st.integers(1, 40), st.lists(st.integers(1, 7), min_size=1, max_size=3), st.integers(0, 3))
def test_every_split_computes_the_same(extent, factors, place):
    text = VECTOR.replace("128", str(extent))
    wanted = [*factors[:place], None, *factors[place:]]
    sch = apply(text, split("B", 0, wanted))
    extents = [int(sch.get(loop).extent) for loop in sch.get_loops(sch.get_block("B"))]
    inferred = -(-extent // math.prod(factors))
    assert extents == [inferred if f is None else f for f in wanted]


# ------------------------------------------------------------------------------- among other loops


def test_a_reduction_loop_between_others():
    after = """\
@T.prim_func
def main(A: T.Buffer((5, 6)), B: T.Buffer((6, 4)), C: T.Buffer((5, 4))):
    for i, j_0, j_1, k_0, k_1 in T.grid(5, 2, 2, 2, 4):
        with T.block("C"):
            vi = T.axis.spatial(5, i)
            vj = T.axis.spatial(4, j_0 * 2 + j_1)
            vk = T.axis.reduce(6, k_0 * 4 + k_1)
            T.where(k_0 * 4 + k_1 < 6)
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

    def call(sch):
        _, j, k = sch.get_loops(sch.get_block("C"))
        sch.split(k, [None, 4])
        sch.split(j, [None, 2])

    apply(MATMUL, call, after)


def test_a_part_is_split_again():
    def call(sch):
        (loop,) = sch.get_loops(sch.get_block("B"))
        outer, _ = sch.split(loop, [16, 8])
        sch.split(outer, [None, 4])

    after = vector("i_0_0, i_0_1, i_1 in T.grid(4, 4, 8)", "i_0_0 * 32 + i_0_1 * 8 + i_1")
    apply(VECTOR, call, after)


def test_an_earlier_predicate_is_kept():
    before = vector("i in range(128)", "i", "i < 100")
    after = vector(
        "i_0, i_1 in T.grid(43, 3)",
        "i_0 * 3 + i_1",
        "i_0 * 3 + i_1 < 100 and i_0 * 3 + i_1 < 128",
    )
    apply(before, split("B", 0, [None, 3]), after)


def test_each_block_below_gets_the_predicate():
    before = """\
@T.prim_func
def main(A: T.Buffer((10, 3)), B: T.Buffer((10, 3)), C: T.Buffer((10,))):
    for i in range(10):
        for j in range(3):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
        with T.block("C"):
            vi = T.axis.spatial(10, i)
            C[vi] = B[vi, 0]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((10, 3)), B: T.Buffer((10, 3)), C: T.Buffer((10,))):
    for i_0, i_1 in T.grid(3, 4):
        for j in range(3):
            with T.block("B"):
                vi = T.axis.spatial(10, i_0 * 4 + i_1)
                vj = T.axis.spatial(3, j)
                T.where(i_0 * 4 + i_1 < 10)
                B[vi, vj] = A[vi, vj] + T.float32(1)
        with T.block("C"):
            vi = T.axis.spatial(10, i_0 * 4 + i_1)
            T.where(i_0 * 4 + i_1 < 10)
            C[vi] = B[vi, 0]
"""
    apply(before, split("C", 0, [None, 4]), after)


def test_a_block_without_axes_is_entered():
    before = """\
@T.prim_func
def main(A: T.Buffer((10, 4)), B: T.Buffer((10, 4))):
    for i in range(10):
        with T.block("row"):
            T.reads(A[i, 0:4])
            T.writes(B[i, 0:4])
            for j in range(4):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] + T.float32(1)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((10, 4)), B: T.Buffer((10, 4))):
    for i_0, i_1, i_2 in T.grid(3, 2, 2):
        with T.block("row"):
            T.where((i_0 * 2 + i_1) * 2 + i_2 < 10)
            T.reads(A[(i_0 * 2 + i_1) * 2 + i_2, 0:4])
            T.writes(B[(i_0 * 2 + i_1) * 2 + i_2, 0:4])
            for j in range(4):
                with T.block("B"):
                    vi = T.axis.spatial(10, i_0 * 4 + i_1 * 2 + i_2)
                    vj = T.axis.spatial(4, j)
                    B[vi, vj] = A[vi, vj] + T.float32(1)
"""
    apply(before, split("row", 0, [None, 2, 2]), after)


def test_a_block_with_axes_is_not_entered():
    before = """\
@T.prim_func
def main(A: T.Buffer((10, 4)), B: T.Buffer((10, 4))):
    for i in range(10):
        with T.block("row"):
            vi_o = T.axis.spatial(10, i)
            T.reads(A[vi_o, 0:4])
            T.writes(B[vi_o, 0:4])
            for j in range(4):
                with T.block("B"):
                    vi = T.axis.spatial(10, vi_o)
                    vj = T.axis.spatial(4, j)
                    B[vi, vj] = A[vi, vj] + T.float32(1)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((10, 4)), B: T.Buffer((10, 4))):
    for i_0, i_1 in T.grid(4, 3):
        with T.block("row"):
            vi_o = T.axis.spatial(10, i_0 * 3 + i_1)
            T.where(i_0 * 3 + i_1 < 10)
            T.reads(A[vi_o, 0:4])
            T.writes(B[vi_o, 0:4])
            for j in range(4):
                with T.block("B"):
                    vi = T.axis.spatial(10, vi_o)
                    vj = T.axis.spatial(4, j)
                    B[vi, vj] = A[vi, vj] + T.float32(1)
"""
    apply(before, split("row", 0, [None, 3]), after)


def test_a_binding_that_is_no_affine_map_is_substituted_as_it_is():
    before = VECTOR.replace("(128, i)", "(128, i * i % 128)")
    after = vector(
        "i_0, i_1, i_2 in T.grid(8, 4, 4)",
        "((i_0 * 4 + i_1) * 4 + i_2) * ((i_0 * 4 + i_1) * 4 + i_2) % 128",
    )
    scheduled(before, split("B", 0, [8, 4, 4]), after)


# ------------------------------------------------------------------------------- symbolic extents


@pytest.mark.parametrize(
    ("factors", "loops", "binding"),
    [
        ([None, 16], "i_0, i_1 in T.grid((n + 15) // 16, 16)", "i_0 * 16 + i_1"),
        ([8, None], "i_0, i_1 in T.grid(8, (n + 7) // 8)", "i_0 * ((n + 7) // 8) + i_1"),
    ],
)
def test_a_symbolic_extent(factors, loops, binding):
    after = f"""\
@T.prim_func
def main(a: T.handle, b: T.handle, n: T.int32):
    A = T.match_buffer(a, (n,))
    B = T.match_buffer(b, (n,))
    for {loops}:
        with T.block("B"):
            vi = T.axis.spatial(n, {binding})
            T.where({binding} < n)
            B[vi] = A[vi] * T.float32(2)
"""
    sch = scheduled(SYMBOLIC, split("B", 0, factors), after)
    for n in (1, 16, 19):
        given_values, made = np.arange(n, dtype="float32"), np.zeros(n, "float32")
        interpret(sch.mod, given_values, made, n)
        np.testing.assert_array_equal(made, given_values * 2)


def test_a_symbolic_extent_with_a_unit_inner_loop_needs_no_predicate():
    after = SYMBOLIC.replace("i in range(n)", "i_0, i_1 in T.grid(n, 1)").replace(
        "(n, i)", "(n, i_0 + i_1)"
    )
    scheduled(SYMBOLIC, split("B", 0, [None, 1]), after)


def test_disable_predication_promises_that_a_symbolic_extent_is_a_multiple():
    after = SYMBOLIC.replace("i in range(n)", "i_0, i_1 in T.grid((n + 3) // 4, 4)").replace(
        "(n, i)", "(n, i_0 * 4 + i_1)"
    )
    sch = scheduled(SYMBOLIC, split("B", 0, [None, 4], disable_predication=True), after)
    given_values, made = np.arange(12, dtype="float32"), np.zeros(12, "float32")
    interpret(sch.mod, given_values, made, 12)
    np.testing.assert_array_equal(made, given_values * 2)


def test_factors_that_provably_cover_a_symbolic_extent():
    before = SYMBOLIC.replace("range(n)", "range(T.min(n, 16))")
    after = before.replace("i in range(T.min(n, 16))", "i_0, i_1 in T.grid(4, 4)").replace(
        "(n, i)\n", "(n, i_0 * 4 + i_1)\n            T.where(i_0 * 4 + i_1 < T.min(n, 16))\n"
    )
    scheduled(before, split("B", 0, [4, 4]), after)


# ----------------------------------------------------------------------------------------- handles


def test_handles():
    sch = Schedule(parse(VECTOR))
    block = sch.get_block("B")
    (loop,) = sch.get_loops(block)
    parts = sch.split(loop, [None, 4])
    assert [sch.get(part).loop_var.name for part in parts] == ["i_0", "i_1"]
    assert [sch.get(again) for again in sch.get_loops(block)] == [sch.get(part) for part in parts]
    with pytest.raises(ValueError, match="split replaced it"):
        sch.get(loop)


def test_trace():
    sch = apply(VECTOR, split("B", 0, [None, 3, 4], preserve_unit_iters=False))
    assert sch.trace.as_python() == [
        'b0 = sch.get_block(name="B", func_name="main")',
        "l1, = sch.get_loops(block=b0)",
        "l2, l3, l4 = sch.split(loop=l1, factors=[None, 3, 4], preserve_unit_iters=False, "
        "disable_predication=False)",
    ]
    assert sch.trace.as_json() == [
        [
            ["GetBlock", [], ["B", "main"], ["b0"]],
            ["GetLoops", ["b0"], [], ["l1"]],
            ["Split", ["l1", "None", 3, 4], [0, 0], ["l2", "l3", "l4"]],
        ],
        [],
    ]


# ----------------------------------------------------------------------------------------- refused


def annotated(sch):
    (loop,) = sch.get_loops(sch.get_block("B"))
    sch.annotate(loop, "pragma", 1)
    sch.split(loop, [4, 32])


def bound(sch):
    (loop,) = sch.get_loops(sch.get_block("B"))
    sch.bind(loop, "threadIdx.x")
    sch.split(loop, [4, 32])


SHIFTED = VECTOR.replace("range(128)", "range(4, 128)")


@pytest.mark.parametrize(
    ("before", "call", "code", "words"),
    [
        (VECTOR, split("B", 0, [None, 2, None]), "NotSingleInferFactorError", "but 2 are"),
        (VECTOR, split("B", 0, [None, 0]), "NonPositiveFactorError", "factor 1 is 0"),
        (VECTOR, split("B", 0, [-1, 128]), "NonPositiveFactorError", "factor 0 is -1"),
        (VECTOR, split("B", 0, [4, 31]), "WrongFactorError", "124, is smaller than the extent 128"),
        (SYMBOLIC, split("B", 0, [4, 4]), "WrongFactorError", "16, is smaller than the extent n"),
        (VECTOR, annotated, "HasAnnotationOrThreadBindingError", "`i` has one"),
        (VECTOR, bound, "HasAnnotationOrThreadBindingError", "`i` has one"),
        (SHIFTED, split("B", 0, [None, 4]), "LoopNotStartWithZeroError", "`i` starts at 4"),
    ],
)
def test_refused(before, call, code, words):
    refused(before, call, code, words, marked=["loop i"])


def test_the_loop_that_is_split_is_the_one_marked():
    refused(MATMUL, split("C", 2, [2, 2]), "WrongFactorError", "extent 6", marked=["loop k"])


def test_factors_are_checked_before_the_loop():
    refused(SHIFTED, split("B", 0, [None, None, 0]), "NotSingleInferFactorError")
    refused(SHIFTED, split("B", 0, [None, 0]), "NonPositiveFactorError")
    refused(SHIFTED, split("B", 0, [2, 2]), "WrongFactorError")


def test_buffers_whose_layout_has_the_loop_follow():
    before = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    for i in range(8):
        with T.block("outer"):
            T.reads(A[i, 0:8])
            T.writes(C[i, 0:8])
            B = T.alloc_buffer((i + 8,))
            for j in range(8):
                B[j] = A[i, j]
            for j in range(8):
                C[i, j] = B[j]
"""
    after = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    for i_0, i_1 in T.grid(2, 4):
        with T.block("outer"):
            T.reads(A[i_0 * 4 + i_1, 0:8])
            T.writes(C[i_0 * 4 + i_1, 0:8])
            B = T.alloc_buffer((i_0 * 4 + i_1 + 8,))
            for j in range(8):
                B[j] = A[i_0 * 4 + i_1, j]
            for j in range(8):
                C[i_0 * 4 + i_1, j] = B[j]
"""
    apply(before, lambda sch: sch.split(sch.get_loops(sch.get_block("outer"))[0], [2, 4]), after)
