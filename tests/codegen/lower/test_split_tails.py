"""Whole tiles run without conditions, tails with constant ones."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from codegen.lower.split_tails import MAX_ADDED
from tensorir import assert_structural_equal, parse
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.rewriting.visit import walk

TARGET = "llvm -mcpu=skylake-avx512 -num-cores=1"


def program(body: str) -> PrimFunc:
    func = parse(
        f"""
@T.prim_func
def main(A: T.Buffer((4096,), "float32"), C: T.Buffer((4096,), "float32"), n: T.int32):
    T.func_attr({{"tir.noalias": True}})
{body}
"""
    )
    assert isinstance(func, PrimFunc)
    return func


def split(before: PrimFunc) -> PrimFunc:
    return codegen.lower(before, TARGET, until="split_tails")


def assert_split(before: str, after: str) -> None:
    assert_structural_equal(split(program(before)), program(after))


def test_the_rows_of_the_last_tile_are_fewer() -> None:
    assert_split(
        """
    for i in range(8):
        for k in range(64):
            for r in T.unroll(4):
                if i * 4 + r < 30:
                    C[i * 4 + r] = C[i * 4 + r] + A[k]
""",
        """
    for i in range(7):
        for k in range(64):
            for r in T.unroll(4):
                C[i * 4 + r] = C[i * 4 + r] + A[k]
    for i in range(7, 8):
        for k in range(64):
            for r in T.unroll(2):
                C[i * 4 + r] = C[i * 4 + r] + A[k]
""",
    )


def test_the_init_belongs_to_its_tile() -> None:
    assert_split(
        """
    for i in range(8):
        for r in T.unroll(4):
            if i * 4 + r < 30:
                C[i * 4 + r] = T.float32(0)
        for k in range(64):
            for r in T.unroll(4):
                if i * 4 + r < 30:
                    C[i * 4 + r] = C[i * 4 + r] + A[k]
""",
        """
    for i in range(7):
        for r in T.unroll(4):
            C[i * 4 + r] = T.float32(0)
        for k in range(64):
            for r in T.unroll(4):
                C[i * 4 + r] = C[i * 4 + r] + A[k]
    for i in range(7, 8):
        for r in T.unroll(2):
            C[i * 4 + r] = T.float32(0)
        for k in range(64):
            for r in T.unroll(2):
                C[i * 4 + r] = C[i * 4 + r] + A[k]
""",
    )


def test_the_last_step_of_a_reduction_is_peeled() -> None:
    assert_split(
        """
    for k in range(32):
        for l in range(4):
            if k * 4 + l < 127:
                C[8] = C[8] + A[k * 4 + l]
""",
        """
    for k in range(31):
        for l in range(4):
            C[8] = C[8] + A[k * 4 + l]
    for k in range(31, 32):
        for l in range(3):
            C[8] = C[8] + A[k * 4 + l]
""",
    )


def test_the_last_vector_has_a_constant_mask() -> None:
    assert_split(
        """
    for i in range(8):
        for j in T.vectorized(16):
            if i * 16 + j < 127:
                C[i * 16 + j] = A[i * 16 + j]
""",
        """
    for i in range(7):
        C[i * 16:i * 16 + 16] = A[i * 16:i * 16 + 16]
    for i in range(7, 8):
        C.vstore(
            [T.Ramp(i * 16, 1, 16)],
            A.vload([T.Ramp(i * 16, 1, 16)], predicate=T.Ramp(0, 1, 16) < T.Broadcast(15, 16)),
            predicate=T.Ramp(0, 1, 16) < T.Broadcast(15, 16),
        )
""",
    )


def test_vectors_of_a_tail_that_are_whole_have_no_mask() -> None:
    before = program(
        """
    for i in range(3):
        for p in T.unroll(3):
            for j in T.vectorized(16):
                if i * 48 + p * 16 + j < 130:
                    C[i * 48 + p * 16 + j] = A[i * 48 + p * 16 + j]
"""
    )
    stores = [n for n in walk(codegen.lower(before, TARGET).body) if isinstance(n, s.BufferStore)]
    assert [store.predicate is None for store in stores] == [True] * 3 + [True] * 2 + [False]


def test_tiles_of_a_fused_loop_are_told_apart_by_a_branch() -> None:
    assert_split(
        """
    for f in range(48):
        for k in range(64):
            for r in T.unroll(4):
                if f // 6 * 4 + r < 30:
                    C[f // 6 * 4 + r] = C[f // 6 * 4 + r] + A[f % 6 * 64 + k]
""",
        """
    for f in range(48):
        if f // 6 < 7:
            for k in range(64):
                for r in T.unroll(4):
                    C[f // 6 * 4 + r] = C[f // 6 * 4 + r] + A[f % 6 * 64 + k]
        else:
            for k in range(64):
                for r in T.unroll(2):
                    C[f // 6 * 4 + r] = C[f // 6 * 4 + r] + A[f % 6 * 64 + k]
""",
    )


def test_a_parallel_loop_stays_one_loop() -> None:
    assert_split(
        """
    for i in T.parallel(8):
        C[i + 1024] = T.float32(1)
        for r in T.unroll(4):
            if i * 4 + r < 30:
                C[i * 4 + r] = A[i]
""",
        """
    for i in T.parallel(8):
        C[i + 1024] = T.float32(1)
        if i < 7:
            for r in T.unroll(4):
                C[i * 4 + r] = A[i]
        else:
            for r in T.unroll(2):
                C[i * 4 + r] = A[i]
""",
    )


def test_tiles_beyond_the_end_run_nothing() -> None:
    """Where outer loops cover more than there is, the last tiles are neither whole nor tails."""
    assert_split(
        """
    for i in range(3):
        for j in range(3):
            for r in T.unroll(4):
                if i * 12 + j * 4 + r < 26:
                    C[i * 12 + j * 4 + r] = A[i]
""",
        """
    for i in range(3):
        for j in range(3):
            if i * 3 + j < 6:
                for r in T.unroll(4):
                    C[i * 12 + j * 4 + r] = A[i]
            else:
                if i * 3 + j < 7:
                    for r in T.unroll(2):
                        C[i * 12 + j * 4 + r] = A[i]
""",
    )


def test_a_size_that_is_known_at_the_call_only() -> None:
    assert_split(
        """
    for i in range(8):
        for k in range(64):
            for r in T.unroll(4):
                if i * 4 + r < n:
                    C[i * 4 + r] = C[i * 4 + r] + A[k]
""",
        """
    for i in range(8):
        if i * 4 + 3 < n:
            for k in range(64):
                for r in T.unroll(4):
                    C[i * 4 + r] = C[i * 4 + r] + A[k]
        else:
            if i * 4 < n:
                for k in range(64):
                    for r in T.unroll(4):
                        if i * 4 + r < n:
                            C[i * 4 + r] = C[i * 4 + r] + A[k]
""",
    )


def test_what_no_loop_changes_is_tested_once() -> None:
    assert_split(
        """
    for k in range(64):
        C[8] = C[8] + A[k]
        if n < 8:
            C[9] = C[9] + A[k]
""",
        """
    if n < 8:
        for k in range(64):
            C[8] = C[8] + A[k]
            C[9] = C[9] + A[k]
    else:
        for k in range(64):
            C[8] = C[8] + A[k]
""",
    )


def test_what_a_let_decides_is_tested_below_it() -> None:
    assert_split(
        """
    with T.allocate([8], "float32", "global") as data:
        B = T.Buffer((8,), data=data)
        B[0] = A[0]
        with T.LetStmt(T.Cast("int32", A[1])) as m:
            for k in range(64):
                B[0] = B[0] + A[k]
                if m < 8:
                    C[9] = C[9] + B[0]
""",
        """
    with T.allocate([8], "float32", "global") as data:
        B = T.Buffer((8,), data=data)
        B[0] = A[0]
        with T.LetStmt(T.Cast("int32", A[1])) as m:
            if m < 8:
                for k in range(64):
                    B[0] = B[0] + A[k]
                    C[9] = C[9] + B[0]
            else:
                for k in range(64):
                    B[0] = B[0] + A[k]
""",
    )


def test_a_let_of_a_loop_is_tested_in_each_iteration() -> None:
    body = """
    for k in range(64):
        with T.LetStmt(T.Cast("int32", A[k])) as m:
            for j in range(64):
                C[j] = C[j] + A[j]
                if m < 8:
                    C[j + 64] = C[j + 64] + A[j]
"""
    lowered = split(program(body))
    loop = lowered.body
    while not isinstance(loop, s.For):
        loop = loop.body  # type: ignore[attr-defined]
    assert isinstance(loop.body, s.LetStmt)


def test_a_tile_may_begin_before_the_first_element() -> None:
    assert_split(
        """
    for i in range(8):
        for r in T.unroll(4):
            if 2 < i * 4 + r:
                C[i * 4 + r] = A[i]
""",
        """
    for i in range(1):
        for r in T.unroll(3, 4):
            C[i * 4 + r] = A[i]
    for i in range(1, 8):
        for r in T.unroll(4):
            C[i * 4 + r] = A[i]
""",
    )


def test_a_loop_of_which_only_some_iterations_do_anything_is_shorter() -> None:
    assert_split(
        """
    for i in T.parallel(8):
        if 1 < i and i < 6:
            C[i] = A[i]
""",
        """
    for i in T.parallel(2, 6):
        C[i] = A[i]
""",
    )


@pytest.mark.parametrize(
    "body",
    [
        """
    for i in range(8):
        for j in range(4):
            C[i] = C[i] + A[j]
""",
        """
    for i in range(8):
        if i < n:
            C[i] = A[i]
        C[i + 8] = A[i]
""",
        """
    for i in range(8):
        if A[i] < T.float32(2):
            C[i] = A[i]
""",
    ],
)
def test_other_programs_stay(body: str) -> None:
    before = codegen.lower(program(body), TARGET, until="mark_unrolled")
    assert_structural_equal(split(program(body)), before)


def count(func: PrimFunc) -> int:
    return sum(isinstance(node, s.BufferStore) for node in walk(func.body))


def test_versions_do_not_grow_without_bound() -> None:
    """Six tails, one inside the other, would be 64 versions."""
    names = "abcdef"
    loops = "".join(f"{'    ' * (k + 1)}for {name} in range(8):\n" for k, name in enumerate(names))
    indent = "    " * 7
    tests = " and ".join(f"{name} * 32 + r < 250" for name in names)
    body = f"{loops}{indent}for r in T.unroll(32):\n{indent}    if {tests}:\n"
    body += f"{indent}        C[({' + '.join(names)}) * 32 + r] = A[r]\n"
    grown = count(codegen.lower(program(body), TARGET))
    assert 4 * 32 < grown <= MAX_ADDED + 32


# ------------------------------------------------------------------------------------- what it does


@pytest.mark.parametrize("n", [-1, 0, 3, 4, 29, 30, 31, 32, 40])
@pytest.mark.parametrize("low", [0, 1, 5])
def test_each_element_is_written_once(n: int, low: int) -> None:
    func = program(
        f"""
    for i in range(3):
        for j in range(3):
            for k in range(2):
                for r in T.unroll(4):
                    if {low} <= i * 12 + j * 4 + r and i * 12 + j * 4 + r < n:
                        C[i * 12 + j * 4 + r] = C[i * 12 + j * 4 + r] + A[k]
"""
    )
    a = np.arange(4096, dtype=np.float32)
    c = np.zeros(4096, np.float32)
    codegen.build(func, "llvm -num-cores=1")["main"](a, c, n)
    expected = np.zeros(4096, np.float32)
    expected[low : max(low, min(n, 36))] = 1
    np.testing.assert_array_equal(c, expected)


def test_an_argument_near_the_largest_integer_does_not_wrap() -> None:
    func = program(
        """
    for i in range(2):
        for k in range(2):
            for r in T.unroll(4):
                if i * 4 + r < n:
                    C[i * 4 + r] = C[i * 4 + r] + A[k]
"""
    )
    run = codegen.build(func, "llvm -num-cores=1")["main"]
    for n, rows in ((2**31 - 1, 8), (-(2**31), 0)):
        c = np.zeros(4096, np.float32)
        run(np.ones(4096, np.float32), c, n)
        assert c.sum() == 2 * rows


def test_versions_have_accumulators_of_their_own() -> None:
    """One for both would be accessed through masks, and stay in memory."""
    before = program(
        """
    for f in range(48):
        R = T.allocate([16], "float32", "local")
        R_1 = T.Buffer((16,), data=R)
        for j in T.vectorized(16):
            if f // 6 * 16 + j < 127:
                R_1[j] = A[f // 6 * 16 + j]
        for k in range(64):
            for j in T.vectorized(16):
                if f // 6 * 16 + j < 127:
                    R_1[j] = R_1[j] + A[f % 6 * 64 + k]
        for j in T.vectorized(16):
            if f // 6 * 16 + j < 127:
                C[f * 16 + j] = R_1[j]
"""
    )
    after = codegen.lower(before, TARGET)
    assert sum(isinstance(node, s.Allocate) for node in walk(after.body)) == 2
    masked = [n for n in walk(after.body) if type(n) is s.BufferStore and n.predicate is not None]
    assert [store.buffer.name for store in masked] == ["C"]


def test_the_lanes_that_read_beyond_a_row() -> None:
    assert_split(
        """
    for k in range(16):
        for v in T.unroll(4):
            for j in T.vectorized(16):
                C[v * 16 + j] = C[v * 16 + j] + T.if_then_else(k * 64 + v * 16 + j < 1000, A[k * 64 + v * 16 + j], T.float32(0))
""",
        """
    for k in range(15):
        for v in T.unroll(4):
            C[v * 16:v * 16 + 16] = C[v * 16:v * 16 + 16] + A[k * 64 + v * 16:k * 64 + v * 16 + 16]
    for k in range(15, 16):
        for v in T.unroll(2):
            C[v * 16:v * 16 + 16] = C[v * 16:v * 16 + 16] + A[k * 64 + v * 16:k * 64 + v * 16 + 16]
        for v in T.unroll(2, 3):
            C[v * 16:v * 16 + 16] = C[v * 16:v * 16 + 16] + T.Select(T.Ramp(0, 1, 16) < T.Broadcast(8, 16), A.vload([T.Ramp(k * 64 + v * 16, 1, 16)], predicate=T.Ramp(0, 1, 16) < T.Broadcast(8, 16)), T.Broadcast(T.float32(0), 16))
        for v in T.unroll(3, 4):
            C[v * 16:v * 16 + 16] = C[v * 16:v * 16 + 16] + T.Broadcast(T.float32(0), 16)
""",
    )
