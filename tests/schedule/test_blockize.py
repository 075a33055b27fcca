"""blockize of a loop: what the loop runs becomes the body of a block of its own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import Schedule
from tensorir import parse
from tensorir.interp import interpret
from tests.schedule.programs import TILED_STAGES, TILES
from tests.schedule.transformation import apply, refused, scheduled

TILES_AFTER = """\
@T.prim_func
def main(A: T.Buffer((32,)), B: T.Buffer((32,))):
    for i_0 in range(4):
        with T.block("B_o"):
            vi_o = T.axis.spatial(4, i_0)
            T.reads(A[vi_o * 8:vi_o * 8 + 8])
            T.writes(B[vi_o * 8:vi_o * 8 + 8])
            for i_1 in range(8):
                with T.block("B"):
                    vi_i = T.axis.spatial(8, i_1)
                    T.reads(A[vi_o * 8 + vi_i])
                    T.writes(B[vi_o * 8 + vi_i])
                    B[vi_o * 8 + vi_i] = A[vi_o * 8 + vi_i] * T.float32(2)
"""

MATMUL = """\
@T.prim_func
def main(A: T.Buffer((8, 12)), B: T.Buffer((12, 6)), C: T.Buffer((8, 6))):
    for i_0, j_0, k_0, i_1, j_1, k_1 in T.grid(2, 2, 3, 4, 3, 4):
        with T.block("C"):
            vi = T.axis.spatial(8, i_0 * 4 + i_1)
            vj = T.axis.spatial(6, j_0 * 3 + j_1)
            vk = T.axis.reduce(12, k_0 * 4 + k_1)
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def inside(block, depth, **options):
    """Blockize the loop around `block` that has `depth` others around it."""

    def call(sch):
        loops = sch.get_loops(sch.get_block(block))
        return sch.blockize(loops[depth], **options)

    return call


NO_AXES = """\
@T.prim_func
def main(A: T.Buffer((4, 8)), C: T.Buffer((4, 8))):
    for i, j in T.grid(4, 8):
        with T.block("C"):
            T.reads(A[i, j])
            T.writes(C[i, j])
            C[i, j] = A[i, j] * T.float32(2)
"""

NO_AXES_AFTER = """\
@T.prim_func
def main(A: T.Buffer((4, 8)), C: T.Buffer((4, 8))):
    for i in range(4):
        with T.block("C_o"):
            T.reads(A[i, 0:8])
            T.writes(C[i, 0:8])
            for j in range(8):
                with T.block("C"):
                    T.reads(A[i, j])
                    T.writes(C[i, j])
                    C[i, j] = A[i, j] * T.float32(2)
"""

TRIANGLE_OF_VALUES = """\
@T.prim_func
def main(A: T.Buffer((4, 8)), S: T.Buffer((4,), "int32"), C: T.Buffer((4, 8))):
    for i in range(4):
        for j in range(i):
            with T.block("C"):
                T.reads(S[j], A[i, 0:j], A[S[j] % 4, j])
                T.writes(C[i, j])
                C[i, j] = A[S[j] % 4, j]
"""


# ------------------------------------------------------------------------------------------ a loop


def test_the_inner_loop_of_a_tile():
    apply(TILES, inside("B", 1), TILES_AFTER)


def test_regions_of_a_block_without_axes_cover_what_its_loops_touch():
    apply(NO_AXES, inside("C", 1), NO_AXES_AFTER)
    sch = apply(NO_AXES, inside("C", 0))
    assert "T.reads(A[0:4, 0:8])" in sch.mod.script()
    apply(TRIANGLE_OF_VALUES, inside("C", 0))


def test_all_loops_leave_an_outer_block_that_runs_once():
    after = """\
@T.prim_func
def main(A: T.Buffer((32,)), B: T.Buffer((32,))):
    with T.block("B_o"):
        vi_o = T.axis.spatial(1, 0)
        T.reads(A[0:32])
        T.writes(B[0:32])
        for i_0, i_1 in T.grid(4, 8):
            with T.block("B"):
                vi_i = T.axis.spatial(32, i_0 * 8 + i_1)
                T.reads(A[vi_i])
                T.writes(B[vi_i])
                B[vi_i] = A[vi_i] * T.float32(2)
"""
    apply(TILES, inside("B", 0), after)


def test_an_axis_of_outer_loops_alone_has_no_inner_part():
    before = """\
@T.prim_func
def main(A: T.Buffer((4, 8)), B: T.Buffer((8, 4))):
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vj, vi = T.axis.remap("SS", [j, i])
            B[vj, vi] = A[vi, vj] * T.float32(2)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((4, 8)), B: T.Buffer((8, 4))):
    for i in range(4):
        with T.block("B_o"):
            vj_o = T.axis.spatial(1, 0)
            vi_o = T.axis.spatial(4, i)
            T.reads(A[vi_o, 0:8])
            T.writes(B[0:8, vi_o])
            for j in range(8):
                with T.block("B"):
                    vj_i = T.axis.spatial(8, j)
                    T.reads(A[vi_o, vj_i])
                    T.writes(B[vj_i, vi_o])
                    B[vj_i, vi_o] = A[vi_o, vj_i] * T.float32(2)
"""
    apply(before, inside("B", 1), after)


def test_an_axis_of_a_fused_loop_is_taken_apart():
    before = """\
@T.prim_func
def main(A: T.Buffer((4, 8)), B: T.Buffer((4, 8))):
    for f, j_1 in T.grid(16, 2):
        with T.block("B"):
            vi = T.axis.spatial(4, f // 4)
            vj = T.axis.spatial(8, f % 4 * 2 + j_1)
            B[vi, vj] = A[vi, vj] * T.float32(2)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((4, 8)), B: T.Buffer((4, 8))):
    for f in range(16):
        with T.block("B_o"):
            vi_o = T.axis.spatial(4, f // 4)
            vj_o = T.axis.spatial(4, f % 4)
            T.reads(A[vi_o, vj_o * 2:vj_o * 2 + 2])
            T.writes(B[vi_o, vj_o * 2:vj_o * 2 + 2])
            for j_1 in range(2):
                with T.block("B"):
                    vj_i = T.axis.spatial(2, j_1)
                    T.reads(A[vi_o, vj_o * 2 + vj_i])
                    T.writes(B[vi_o, vj_o * 2 + vj_i])
                    B[vi_o, vj_o * 2 + vj_i] = A[vi_o, vj_o * 2 + vj_i] * T.float32(2)
"""
    apply(before, inside("B", 1), after)


def test_an_axis_that_starts_further_on_keeps_its_offset():
    before = """\
@T.prim_func
def main(A: T.Buffer((12,)), B: T.Buffer((14,))):
    for i_0, i_1 in T.grid(3, 4):
        with T.block("B"):
            vi = T.axis.spatial(14, i_0 * 4 + i_1 + 2)
            B[vi] = A[vi - 2] * T.float32(2)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((12,)), B: T.Buffer((14,))):
    for i_0 in range(3):
        with T.block("B_o"):
            vi_o = T.axis.spatial(3, i_0)
            T.reads(A[vi_o * 4:vi_o * 4 + 4])
            T.writes(B[vi_o * 4 + 2:vi_o * 4 + 6])
            for i_1 in range(4):
                with T.block("B"):
                    vi_i = T.axis.spatial(4, i_1)
                    T.reads(A[vi_o * 4 + vi_i])
                    T.writes(B[vi_o * 4 + vi_i + 2])
                    B[vi_o * 4 + vi_i + 2] = A[vi_o * 4 + vi_i] * T.float32(2)
"""
    apply(before, inside("B", 1), after)


def test_regions_with_a_halo_cover_what_all_instances_touch():
    before = """\
@T.prim_func
def main(A: T.Buffer((34,)), B: T.Buffer((32,))):
    for i_0, i_1 in T.grid(4, 8):
        with T.block("B"):
            vi = T.axis.spatial(32, i_0 * 8 + i_1)
            T.reads(A[vi:vi + 3])
            T.writes(B[vi])
            B[vi] = A[vi] + A[vi + 2]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((34,)), B: T.Buffer((32,))):
    for i_0 in range(4):
        with T.block("B_o"):
            vi_o = T.axis.spatial(4, i_0)
            T.reads(A[vi_o * 8:vi_o * 8 + 10])
            T.writes(B[vi_o * 8:vi_o * 8 + 8])
            for i_1 in range(8):
                with T.block("B"):
                    vi_i = T.axis.spatial(8, i_1)
                    T.reads(A[vi_o * 8 + vi_i:vi_o * 8 + vi_i + 3])
                    T.writes(B[vi_o * 8 + vi_i])
                    B[vi_o * 8 + vi_i] = A[vi_o * 8 + vi_i] + A[vi_o * 8 + vi_i + 2]
"""
    apply(before, inside("B", 1), after)


def test_bindings_that_are_no_sums_are_divided_if_each_is_of_one_side():
    before = """\
@T.prim_func
def main(A: T.Buffer((4, 8)), B: T.Buffer((4, 8))):
    for i, j in T.grid(6, 8):
        with T.block("B"):
            vi = T.axis.spatial(4, T.min(i, 3))
            vj = T.axis.spatial(8, j)
            B[vi, vj] = A[vi, vj] * T.float32(2)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((4, 8)), B: T.Buffer((4, 8))):
    for i in range(6):
        with T.block("B_o"):
            vi_o = T.axis.spatial(4, T.min(i, 3))
            vj_o = T.axis.spatial(1, 0)
            T.reads(A[vi_o, 0:8])
            T.writes(B[vi_o, 0:8])
            for j in range(8):
                with T.block("B"):
                    vj_i = T.axis.spatial(8, j)
                    T.reads(A[vi_o, vj_i])
                    T.writes(B[vi_o, vj_i])
                    B[vi_o, vj_i] = A[vi_o, vj_i] * T.float32(2)
"""
    apply(before, inside("B", 1), after)


def test_symbolic_outer_extents():
    before = """\
@T.prim_func
def main(a: T.handle, b: T.handle, n: T.int32):
    A = T.match_buffer(a, (n, 16))
    B = T.match_buffer(b, (n, 16))
    for i, j_0, j_1 in T.grid(n, 4, 4):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            vj = T.axis.spatial(16, j_0 * 4 + j_1)
            B[vi, vj] = A[vi, vj] * T.float32(2)
"""
    after = """\
@T.prim_func
def main(a: T.handle, b: T.handle, n: T.int32):
    A = T.match_buffer(a, (n, 16))
    B = T.match_buffer(b, (n, 16))
    for i, j_0 in T.grid(n, 4):
        with T.block("B_o"):
            vi_o = T.axis.spatial(n, i)
            vj_o = T.axis.spatial(4, j_0)
            T.reads(A[vi_o, vj_o * 4:vj_o * 4 + 4])
            T.writes(B[vi_o, vj_o * 4:vj_o * 4 + 4])
            for j_1 in range(4):
                with T.block("B"):
                    vj_i = T.axis.spatial(4, j_1)
                    T.reads(A[vi_o, vj_o * 4 + vj_i])
                    T.writes(B[vi_o, vj_o * 4 + vj_i])
                    B[vi_o, vj_o * 4 + vj_i] = A[vi_o, vj_o * 4 + vj_i] * T.float32(2)
"""
    sch = scheduled(before, inside("B", 2), after)
    given_values = np.random.default_rng(0).random((3, 16), "float32")
    made = np.zeros((3, 16), "float32")
    interpret(sch.mod, given_values, made, 3)
    np.testing.assert_array_equal(made, given_values * 2)


def test_indices_of_64_bits():
    before = """\
@T.prim_func
def main(A: T.Buffer((T.int64(32),)), B: T.Buffer((T.int64(32),))):
    for i_0 in range(T.int64(4)):
        for i_1 in range(T.int64(8)):
            with T.block("B"):
                vi = T.axis.spatial(T.int64(32), i_0 * T.int64(8) + i_1)
                B[vi] = A[vi] * T.float32(2)
"""
    sch = apply(before, inside("B", 1))
    block = sch.get(sch.get_block("B_o"))
    assert [axis.var.dtype for axis in block.iter_vars] == ["int64"]
    assert [axis.dom.extent.dtype for axis in block.iter_vars] == ["int64"]


# --------------------------------------------------------------------------------------- predicates


def test_a_predicate_on_outer_loops_goes_to_the_outer_block():
    before = """\
@T.prim_func
def main(A: T.Buffer((10, 8)), B: T.Buffer((10, 8))):
    for i_0, i_1, j in T.grid(4, 3, 8):
        with T.block("B"):
            vi = T.axis.spatial(10, i_0 * 3 + i_1)
            vj = T.axis.spatial(8, j)
            T.where(i_0 * 3 + i_1 < 10)
            B[vi, vj] = A[vi, vj] * T.float32(2)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((10, 8)), B: T.Buffer((10, 8))):
    for i_0, i_1 in T.grid(4, 3):
        with T.block("B_o"):
            vi_o = T.axis.spatial(10, i_0 * 3 + i_1)
            vj_o = T.axis.spatial(1, 0)
            T.where(i_0 * 3 + i_1 < 10)
            T.reads(A[vi_o, 0:8])
            T.writes(B[vi_o, 0:8])
            for j in range(8):
                with T.block("B"):
                    vj_i = T.axis.spatial(8, j)
                    T.reads(A[vi_o, vj_i])
                    T.writes(B[vi_o, vj_i])
                    B[vi_o, vj_i] = A[vi_o, vj_i] * T.float32(2)
"""
    apply(before, inside("B", 2), after)


def test_each_conjunct_goes_to_its_side():
    before = """\
@T.prim_func
def main(A: T.Buffer((10, 7)), B: T.Buffer((10, 7))):
    for i_0, i_1, j_0, j_1 in T.grid(4, 3, 2, 4):
        with T.block("B"):
            vi = T.axis.spatial(10, i_0 * 3 + i_1)
            vj = T.axis.spatial(7, j_0 * 4 + j_1)
            T.where(i_0 * 3 + i_1 < 10 and j_0 * 4 + j_1 < 7)
            B[vi, vj] = A[vi, vj] * T.float32(2)
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((10, 7)), B: T.Buffer((10, 7))):
    for i_0, i_1 in T.grid(4, 3):
        with T.block("B_o"):
            vi_o = T.axis.spatial(10, i_0 * 3 + i_1)
            vj_o = T.axis.spatial(1, 0)
            T.where(i_0 * 3 + i_1 < 10)
            T.reads(A[vi_o, 0:7])
            T.writes(B[vi_o, 0:7])
            for j_0, j_1 in T.grid(2, 4):
                with T.block("B"):
                    vj_i = T.axis.spatial(7, j_0 * 4 + j_1)
                    T.where(j_0 * 4 + j_1 < 7)
                    T.reads(A[vi_o, vj_i])
                    T.writes(B[vi_o, vj_i])
                    B[vi_o, vj_i] = A[vi_o, vj_i] * T.float32(2)
"""
    apply(before, inside("B", 2), after)


# ---------------------------------------------------------------------------------------- reductions


def test_a_reduction_with_steps_outside_initialises_in_the_outer_block():
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 12)), B: T.Buffer((12, 6)), C: T.Buffer((8, 6))):
    for i_0, j_0, k_0 in T.grid(2, 2, 3):
        with T.block("C_o"):
            vi_o, vj_o, vk_o = T.axis.remap("SSR", [i_0, j_0, k_0])
            T.reads(
                A[vi_o * 4:vi_o * 4 + 4, vk_o * 4:vk_o * 4 + 4],
                B[vk_o * 4:vk_o * 4 + 4, vj_o * 3:vj_o * 3 + 3],
            )
            T.writes(C[vi_o * 4:vi_o * 4 + 4, vj_o * 3:vj_o * 3 + 3])
            with T.init():
                for i_1, j_1 in T.grid(4, 3):
                    with T.block("C_init"):
                        vi_i_init, vj_i_init = T.axis.remap("SS", [i_1, j_1])
                        T.reads()
                        T.writes(C[vi_o * 4 + vi_i_init, vj_o * 3 + vj_i_init])
                        C[vi_o * 4 + vi_i_init, vj_o * 3 + vj_i_init] = T.float32(0)
            for i_1, j_1, k_1 in T.grid(4, 3, 4):
                with T.block("C"):
                    vi_i, vj_i, vk_i = T.axis.remap("SSR", [i_1, j_1, k_1])
                    T.reads(
                        C[vi_o * 4 + vi_i, vj_o * 3 + vj_i],
                        A[vi_o * 4 + vi_i, vk_o * 4 + vk_i],
                        B[vk_o * 4 + vk_i, vj_o * 3 + vj_i],
                    )
                    T.writes(C[vi_o * 4 + vi_i, vj_o * 3 + vj_i])
                    C[vi_o * 4 + vi_i, vj_o * 3 + vj_i] = (
                        C[vi_o * 4 + vi_i, vj_o * 3 + vj_i]
                        + A[vi_o * 4 + vi_i, vk_o * 4 + vk_i] * B[vk_o * 4 + vk_i, vj_o * 3 + vj_i]
                    )
"""
    apply(MATMUL, inside("C", 3), after)


def test_a_loop_that_only_reduces_leaves_an_init_without_loops():
    before = """\
@T.prim_func
def main(A: T.Buffer((6, 5)), B: T.Buffer((6,))):
    for i, k in T.grid(6, 5):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((6, 5)), B: T.Buffer((6,))):
    for i in range(6):
        with T.block("B_o"):
            vi_o = T.axis.spatial(6, i)
            vk_o = T.axis.reduce(1, 0)
            T.reads(A[vi_o, 0:5])
            T.writes(B[vi_o])
            with T.init():
                with T.block("B_init"):
                    T.reads()
                    T.writes(B[vi_o])
                    B[vi_o] = T.float32(0)
            for k in range(5):
                with T.block("B"):
                    vk_i = T.axis.reduce(5, k)
                    T.reads(B[vi_o], A[vi_o, vk_i])
                    T.writes(B[vi_o])
                    B[vi_o] = B[vi_o] + A[vi_o, vk_i]
"""
    apply(before, inside("B", 1), after)


def test_the_init_is_under_the_predicate_of_spatial_loops():
    before = """\
@T.prim_func
def main(A: T.Buffer((6, 7)), B: T.Buffer((7,))):
    for k, j_0, j_1 in T.grid(6, 2, 4):
        with T.block("B"):
            vj = T.axis.spatial(7, j_0 * 4 + j_1)
            vk = T.axis.reduce(6, k)
            T.where(j_0 * 4 + j_1 < 7)
            with T.init():
                B[vj] = T.float32(0)
            B[vj] = B[vj] + A[vk, vj]
"""
    after = """\
@T.prim_func
def main(A: T.Buffer((6, 7)), B: T.Buffer((7,))):
    for k in range(6):
        with T.block("B_o"):
            vj_o = T.axis.spatial(1, 0)
            vk_o = T.axis.reduce(6, k)
            T.reads(A[vk_o, 0:7])
            T.writes(B[0:7])
            with T.init():
                for j_0, j_1 in T.grid(2, 4):
                    with T.block("B_init"):
                        vj_i_init = T.axis.spatial(7, j_0 * 4 + j_1)
                        T.where(j_0 * 4 + j_1 < 7)
                        T.reads()
                        T.writes(B[vj_i_init])
                        B[vj_i_init] = T.float32(0)
            for j_0, j_1 in T.grid(2, 4):
                with T.block("B"):
                    vj_i = T.axis.spatial(7, j_0 * 4 + j_1)
                    T.where(j_0 * 4 + j_1 < 7)
                    T.reads(B[vj_i], A[vk_o, vj_i])
                    T.writes(B[vj_i])
                    B[vj_i] = B[vj_i] + A[vk_o, vj_i]
"""
    apply(before, inside("B", 1), after)


# ------------------------------------------------------------------------------------ unit extents

UNITS = """\
@T.prim_func
def main(A: T.Buffer((1, 8)), B: T.Buffer((1, 8))):
    for i_0, j_0, i_1, j_1 in T.grid(1, 2, 1, 4):
        with T.block("B"):
            vi = T.axis.spatial(1, i_0 + i_1)
            vj = T.axis.spatial(8, j_0 * 4 + j_1)
            B[vi, vj] = A[vi, vj] * T.float32(2)
"""


def test_axes_of_unit_extent_stay_bound_to_their_loops():
    sch = apply(UNITS, inside("B", 2, preserve_unit_iters=True))
    outer = sch.get_sref(sch.get_block("B_o")).block_realize
    assert [str(value) for value in outer.iter_values] == ["i_0", "j_0"]


def test_axes_of_unit_extent_become_zero_on_demand():
    after = """\
@T.prim_func
def main(A: T.Buffer((1, 8)), B: T.Buffer((1, 8))):
    for i_0, j_0 in T.grid(1, 2):
        with T.block("B_o"):
            vi_o = T.axis.spatial(1, 0)
            vj_o = T.axis.spatial(2, j_0)
            T.reads(A[0, vj_o * 4:vj_o * 4 + 4])
            T.writes(B[0, vj_o * 4:vj_o * 4 + 4])
            for i_1, j_1 in T.grid(1, 4):
                with T.block("B"):
                    vj_i = T.axis.spatial(4, j_1)
                    T.reads(A[0, vj_o * 4 + vj_i])
                    T.writes(B[0, vj_o * 4 + vj_i])
                    B[0, vj_o * 4 + vj_i] = A[0, vj_o * 4 + vj_i] * T.float32(2)
"""
    apply(UNITS, inside("B", 2, preserve_unit_iters=False), after)


# -------------------------------------------------------------------------------- nests and handles


def test_a_block_around_a_block():
    after = """\
@T.prim_func
def main(A: T.Buffer((32,)), B: T.Buffer((32,))):
    with T.block("B_o_o"):
        vi_o_o = T.axis.spatial(1, 0)
        T.reads(A[0:32])
        T.writes(B[0:32])
        for i_0 in range(4):
            with T.block("B_o"):
                vi_o_i = T.axis.spatial(4, i_0)
                T.reads(A[vi_o_i * 8:vi_o_i * 8 + 8])
                T.writes(B[vi_o_i * 8:vi_o_i * 8 + 8])
                for i_1 in range(8):
                    with T.block("B"):
                        vi_i = T.axis.spatial(8, i_1)
                        T.reads(A[vi_o_i * 8 + vi_i])
                        T.writes(B[vi_o_i * 8 + vi_i])
                        B[vi_o_i * 8 + vi_i] = A[vi_o_i * 8 + vi_i] * T.float32(2)
"""

    def call(sch):
        i_0, i_1 = sch.get_loops(sch.get_block("B"))
        sch.blockize(i_1)
        sch.blockize(i_0)

    apply(TILES, call, after)


def test_annotations_stay_on_the_inner_block_and_on_the_loops():
    def call(sch):
        block = sch.get_block("B")
        loop = sch.get_loops(block)[1]
        sch.annotate(block, "kind", "tile")
        sch.annotate(loop, "unroll", 4)
        sch.blockize(loop)

    after = TILES_AFTER.replace(
        "for i_1 in range(8)", 'for i_1 in T.serial(8, annotations={"unroll": 4})'
    ).replace(
        "                    B[vi_o * 8 + vi_i] =",
        '                    T.block_attr({"kind": "tile"})\n                    '
        "B[vi_o * 8 + vi_i] =",
    )
    apply(TILES, call, after)


def test_handles():
    sch = Schedule(parse(MATMUL), debug_mask="all")
    block = sch.get_block("C")
    loops = sch.get_loops(block)
    outer = sch.blockize(loops[3])
    assert sch.get(outer).name_hint == "C_o"
    assert sch.get(block).name_hint == "C"
    names = [sch.get(loop).loop_var.name for loop in loops]
    assert names == ["i_0", "j_0", "k_0", "i_1", "j_1", "k_1"]
    assert [sch.get(a) for a in sch.get_loops(outer)] == [sch.get(a) for a in loops[:3]]
    assert [sch.get(a) for a in sch.get_loops(block)] == [sch.get(a) for a in loops[3:]]
    assert sch.get(sch.get_child_blocks(outer)[0]) is sch.get(block)


def test_the_outer_block_is_scheduled_like_any_other():
    def call(sch):
        outer = sch.blockize(sch.get_loops(sch.get_block("C"))[3])
        i_0, j_0, k_0 = sch.get_loops(outer)
        sch.reorder(j_0, i_0)
        sch.decompose_reduction(outer, k_0)

    sch = apply(MATMUL, call)
    blocks = [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))]
    assert blocks == ["C_o_init", "C_o_update"]


@settings(max_examples=20)
@given(st.booleans(), st.integers(0, 3), st.sampled_from([1, 2, 3, 4, 6, 12]), st.booleans())
def test_tiles_of_reductions_compute_the_same(swap, depth, factor, preserve_unit_iters):
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
        i, k = sch.get_loops(sch.get_block("B"))
        i_0, i_1 = sch.split(i, [None, 4])
        k_0, k_1 = sch.split(k, [None, factor])
        sch.reorder(*((k_0, i_0) if swap else (i_0, k_0)), i_1, k_1)
        loops = sch.get_loops(sch.get_block("B"))
        sch.blockize(loops[depth], preserve_unit_iters=preserve_unit_iters)

    apply(text, call)


# --------------------------------------------------------------------------------------------- trace


def test_trace():
    sch = apply(TILES, inside("B", 1))
    assert sch.trace.as_python() == [
        'b0 = sch.get_block(name="B", func_name="main")',
        "l1, l2 = sch.get_loops(block=b0)",
        "b3 = sch.blockize(target=l2, preserve_unit_iters=True)",
    ]
    assert sch.trace.as_json() == [
        [
            ["GetBlock", [], ["B", "main"], ["b0"]],
            ["GetLoops", ["b0"], [], ["l1", "l2"]],
            ["Blockize", ["l2"], [1], ["b3"]],
        ],
        [],
    ]


# ------------------------------------------------------------------------------------------- refused

SKEWED = """\
@T.prim_func
def main(A: T.Buffer((32,)), B: T.Buffer((11,))):
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi = T.axis.opaque(11, i + j)
            B[vi] = A[vi]
"""

INTERLEAVED = """\
@T.prim_func
def main(A: T.Buffer((32,)), B: T.Buffer((32,))):
    for i_0, i_1, i_2 in T.grid(4, 2, 4):
        with T.block("B"):
            vi = T.axis.spatial(32, i_0 + i_1 * 16 + i_2 * 4)
            B[vi] = A[vi]
"""

CUT = """\
@T.prim_func
def main(A: T.Buffer((30,)), B: T.Buffer((30,))):
    for i_0, i_1 in T.grid(4, 8):
        with T.block("B"):
            vi = T.axis.spatial(30, i_0 * 8 + i_1)
            T.where(i_0 * 8 + i_1 < 30)
            B[vi] = A[vi]
"""

CUT_BUT_SEPARATE = """\
@T.prim_func
def main(A: T.Buffer((4, 8)), B: T.Buffer((4, 8))):
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(j <= i * 2)
            B[vi, vj] = A[vi, vj]
"""

TRIANGLE = """\
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))):
    for i in range(8):
        for j in range(i + 1):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                vj = T.axis.spatial(8, j)
                B[vi, vj] = A[vi, vj]
"""

EXTRA_STATEMENT = """\
@T.prim_func
def main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))):
    for i in range(8):
        for j in range(8):
            T.evaluate(i)
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
"""


def summed(body, loops="i, k in T.grid(6, 5)", kinds='"SR", [i, k]', init="B[vi] = T.float32(0)"):
    return f"""\
@T.prim_func
def main(A: T.Buffer((6, 9)), B: T.Buffer((6,))):
    for {loops}:
        with T.block("B"):
            vi, vk = T.axis.remap({kinds})
            with T.init():
                {init}
            {body}
"""


PLAIN_SUM = "B[vi] = B[vi] + A[vi, vk]"
REPEATED = summed(PLAIN_SUM, "i, r, k in T.grid(6, 2, 5)")
LATE = summed(PLAIN_SUM).replace(
    'vi, vk = T.axis.remap("SR", [i, k])',
    "vi = T.axis.spatial(6, i)\n            vk = T.axis.reduce(9, k + 4)",
)
WITHOUT_THE_FIRST = summed(PLAIN_SUM).replace(
    "            with T.init", "            T.where(k >= 1)\n            with T.init"
)
READS_NEIGHBOUR = summed("B[vi] = B[vi] + A[vi, vk] + B[5 - vi]").replace(
    "            with T.init",
    "            T.reads(A[vi, vk], B[0:6])\n            T.writes(B[vi])\n            with T.init",
)
CONTINUED_IN_ONE_LOOP = """\
@T.prim_func
def main(A: T.Buffer((6, 9)), B: T.Buffer((6,))):
    for i_k in range(54):
        with T.block("B"):
            vi = T.axis.spatial(6, i_k // 9)
            vk = T.axis.reduce(9, i_k % 9)
            with T.init():
                B[vi] = B[vi] * T.float32(0.5)
            B[vi] = B[vi] + A[vi, vk]
"""
LOCAL_INIT = """\
@T.prim_func
def main(A: T.Buffer((6, 9)), B: T.Buffer((6,))):
    for i, k in T.grid(6, 9):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi, vk])
            T.writes(B[vi])
            t = T.alloc_buffer((1,))
            with T.init():
                t[0] = T.float32(0)
                B[vi] = t[0]
            B[vi] = B[vi] + A[vi, vk]
"""


@pytest.mark.parametrize(
    ("before", "call", "code", "words", "marked"),
    [
        (
            TILED_STAGES,
            inside("B", 0),
            "NonSingleChildBlockError",
            "loop `i_0` should have only one child block, but it has 2",
            ["loop i_0"],
        ),
        (
            EXTRA_STATEMENT,
            inside("B", 0),
            "NonSingleChildBlockError",
            'block "B" should be the only statement below loop `j`',
            ["block B", "loop j"],
        ),
        (
            SKEWED,
            inside("B", 1),
            "SubspaceNotDivisibleError",
            "cannot be blockized with the loops ['j'] inside: axis vi is bound to `i + j`",
            ["block B"],
        ),
        (
            INTERLEAVED,
            inside("B", 2),
            "SubspaceNotDivisibleError",
            "axis vi is bound to",
            ["block B"],
        ),
        (
            CUT,
            inside("B", 1),
            "SubspaceNotDivisibleError",
            "its predicate `i_0 * 8 + i_1 < 30` relates outer and inner loops",
            ["block B"],
        ),
        (
            CUT_BUT_SEPARATE,
            inside("B", 1),
            "SubspaceNotDivisibleError",
            "its predicate `j <= i * 2` relates outer and inner loops",
            ["block B"],
        ),
        (
            TRIANGLE,
            inside("B", 1),
            "SubspaceNotDivisibleError",
            "the range of j follows from an outer loop",
            ["block B"],
        ),
        (
            REPEATED,
            inside("B", 1),
            "SubspaceNotDivisibleError",
            "loop `r` runs the same steps several times",
            ["block B"],
        ),
        (
            LATE,
            inside("B", 1),
            "SubspaceNotDivisibleError",
            "reduction axis vk may not start at 0",
            ["block B"],
        ),
        (
            WITHOUT_THE_FIRST,
            inside("B", 0),
            "SubspaceNotDivisibleError",
            "its predicate `k >= 1` may leave out the first step",
            ["block B"],
        ),
        (
            READS_NEIGHBOUR,
            inside("B", 0),
            "SubspaceNotDivisibleError",
            "it reads B[5 - vi] besides the element that it accumulates into",
            ["block B"],
        ),
        (
            CONTINUED_IN_ONE_LOOP,
            inside("B", 0),
            "SubspaceNotDivisibleError",
            "its init changes what it reads, and loop `i_k` also drives vk",
            ["block B"],
        ),
        (
            LOCAL_INIT,
            inside("B", 1),
            "SubspaceNotDivisibleError",
            "its init stores to a buffer of the block itself",
            ["block B"],
        ),
    ],
)
def test_refused(before, call, code, words, marked):
    refused(before, call, code, words, marked)


def test_what_is_no_loop_and_no_list_of_blocks():
    sch = Schedule(parse(TILES))
    block = sch.get_block("B")
    with pytest.raises(TypeError, match="`target` takes a LoopRV or a list of BlockRVs"):
        sch.blockize(block)
    with pytest.raises(TypeError, match=r"`target\[1\]` takes a BlockRV"):
        sch.blockize([block, sch.get_loops(block)[0]])
