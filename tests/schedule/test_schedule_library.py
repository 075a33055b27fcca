"""The library of schedules, checked by the interpreter or as machine code."""

from __future__ import annotations

import numpy as np
import pytest

from schedule import Schedule, ScheduleError, Trace
from schedule.library import (
    add_rows,
    fuse_elementwise,
    microkernel,
    register_tile,
    split_k,
    stage_operands,
    stream_rows,
    tile_for_cache,
    unroll_rows,
)
from tensorir import assert_structural_equal, parse
from tensorir.function import IRModule
from tensorir.interp import interpret

RNG = np.random.default_rng(0)


def matmul(m: int, n: int, k: int) -> IRModule:
    return parse(f"""
@T.prim_func
def main(A: T.Buffer(({m}, {k})), B: T.Buffer(({k}, {n})), C: T.Buffer(({m}, {n}))):
    for i, j, k in T.grid({m}, {n}, {k}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
""")


def random(*shape: int) -> np.ndarray:
    return RNG.integers(-4, 5, shape).astype("float32")


@pytest.mark.parametrize("sizes", [(12, 32, 16), (13, 19, 7), (5, 8, 40)])
def test_a_product_in_three_steps(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    mod = matmul(m, n, k)
    sch = Schedule(mod, debug_mask="all")
    block = sch.get_block("C")
    stage_operands(sch, block, panel=8, lanes=4)
    tile_for_cache(sch, block, [6, 8, 8])
    microkernel(sch, block, rows=3, columns=8, lanes=4)
    a, b, c = random(m, k), random(k, n), np.zeros((m, n), "float32")
    interpret(sch.mod["main"], a, b, c)
    np.testing.assert_array_equal(c, a @ b)
    again = Schedule(mod)
    Trace.from_json(sch.trace.as_json()).apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)


def test_a_tile_of_registers() -> None:
    sch = Schedule(matmul(12, 32, 16))
    register_tile(sch, sch.get_block("C"), rows=6, columns=16, lanes=8)
    nest = [line.strip() for line in sch.mod.script().splitlines() if " for " in line]
    assert nest == [
        "for i_0, j_0, k in T.grid(2, 2, 16):",
        "for j_1_0 in T.unroll(2):",
        "for i_1 in T.unroll(6):",
        "for j_1_1 in T.vectorized(8):",
    ]


def test_element_wise_blocks_become_one_pass() -> None:
    mod = parse("""
@T.prim_func
def main(A: T.Buffer((5, 70)), B: T.Buffer((5, 70))):
    C = T.alloc_buffer((5, 70))
    D = T.alloc_buffer((5, 70))
    for i, j in T.grid(5, 70):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(5, 70):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] + T.float32(1)
    for i, j in T.grid(5, 70):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = D[vi, vj] * D[vi, vj]
""")
    sch = Schedule(mod, debug_mask="all")
    assert fuse_elementwise(sch) == 2
    stream_rows(sch, sch.get_block("B"), lanes=8, unroll=2)
    a, b = random(5, 70), np.zeros((5, 70), "float32")
    interpret(sch.mod["main"], a, b)
    np.testing.assert_array_equal(b, (a * 2 + 1) ** 2)
    assert [line.strip() for line in sch.trace.script().splitlines() if "with" in line] == [
        'with sch.composite(name="fuse_elementwise", arguments=""):',
        'with sch.composite(name="stream_rows", arguments="block=block B, lanes=8, unroll=2"):',
    ]


def test_a_block_that_is_no_product_is_refused() -> None:
    mod = parse("""
@T.prim_func
def main(A: T.Buffer((4,)), B: T.Buffer((4,))):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
""")
    sch = Schedule(mod)
    with pytest.raises(ScheduleError, match='block "B" does not sum products'):
        microkernel(sch, sch.get_block("B"), 4, 16)
    assert sch.mod is mod or len(sch.trace.insts) == 1


@pytest.mark.parametrize("length", [64, 61])
def test_a_dot_product_of_any_length(length: int) -> None:
    mod = parse(f"""
@T.prim_func
def main(A: T.Buffer((3, {length})), x: T.Buffer(({length},)), y: T.Buffer((3,))):
    for i, k in T.grid(3, {length}):
        with T.block("y"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                y[vi] = T.float32(0)
            y[vi] = y[vi] + A[vi, vk] * x[vk]
""")
    sch = Schedule(mod, debug_mask="all")
    split_k(sch, sch.get_block("y"), parts=2, lanes=8)
    a, x, y = random(3, length), random(length), np.zeros(3, "float32")
    interpret(sch.mod["main"], a, x, y)
    np.testing.assert_array_equal(y, a @ x)
    assert "T.unroll(2)" in sch.mod.script()


def test_several_rows_at_a_time() -> None:
    mod = parse("""
@T.prim_func
def main(A: T.Buffer((11, 21)), x: T.Buffer((21,)), y: T.Buffer((11,))):
    for i, k in T.grid(11, 21):
        with T.block("y"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                y[vi] = T.float32(0)
            y[vi] = y[vi] + A[vi, vk] * x[vk]
""")
    sch = Schedule(mod, debug_mask="all")
    sums, _ = split_k(sch, sch.get_block("y"), parts=2, lanes=4, rows=4)
    assert [sch.get(loop).loop_var.name for loop in sch.get_loops(sums)] == [
        "i_0", "k_0", "i_1", "k_1_0", "k_1_1",
    ]  # fmt: skip
    a, x, y = random(11, 21), random(21), random(11)
    interpret(sch.mod["main"], a, x, y)
    np.testing.assert_array_equal(y, a @ x)


def test_rows_are_added_to_the_result() -> None:
    mod = parse("""
@T.prim_func
def main(A: T.Buffer((11, 21)), x: T.Buffer((11,)), y: T.Buffer((21,))):
    for j, k in T.grid(21, 11):
        with T.block("y"):
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                y[vj] = T.float32(0)
            y[vj] = y[vj] + A[vk, vj] * x[vk]
""")
    sch = Schedule(mod, debug_mask="all")
    block = sch.get_block("y")
    assert sch.get(add_rows(sch, block, rows=4, parts=2, lanes=4)).name_hint == "y_init"
    loops = [sch.get(loop).loop_var.name for loop in sch.get_loops(block)]
    assert loops == ["k_0", "j_0", "j_1", "k_1", "j_2"]
    a, x, y = random(11, 21), random(11), random(21)
    interpret(sch.mod["main"], a, x, y)
    np.testing.assert_array_equal(y, x @ a)


def test_rows_of_a_block_that_updates_two_vectors() -> None:
    mod = parse("""
@T.prim_func
def main(A: T.Buffer((10, 24)), x: T.Buffer((24,)), w: T.Buffer((24,)), z: T.Buffer((10, 8))):
    for i, j, l in T.grid(10, 3, 8):
        with T.block("both"):
            vi, vj, vl = T.axis.remap("RRS", [i, j, l])
            w[vj * 8 + vl] = w[vj * 8 + vl] + A[vi, vj * 8 + vl] * x[vi]
            z[vi, vl] = z[vi, vl] + A[vi, vj * 8 + vl] * x[vj * 8 + vl]
""")
    sch = Schedule(mod, debug_mask="all")
    unroll_rows(sch, sch.get_block("both"), rows=4)
    a, x, w, z = random(10, 24), random(24), random(24), random(10, 8)
    expected = w + x[:10] @ a, z + (a * x).reshape(10, 3, 8).sum(1)
    interpret(sch.mod["main"], a, x, w, z)
    np.testing.assert_array_equal(w, expected[0])
    np.testing.assert_array_equal(z, expected[1])
