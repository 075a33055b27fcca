"""Accumulators in registers, and their masks."""

from __future__ import annotations

import re

import numpy as np
import pytest

import codegen
from schedule import Schedule
from tensorir import assert_structural_equal, parse
from tensorir.function import IRModule, PrimFunc
from tensorir.interp import interpret

# ------------ What a loop updates lives in registers, also at the tails of tiles that do not divide

TARGET = "llvm -num-cores=1"


def inner_blocks(module: codegen.Module) -> list[str]:
    """Return the loops of one basic block, in the optimised code, that multiply."""
    text = module.inspect_llvm()
    body = text[text.index("i32 @tensorir.kernel.main(") :]
    blocks = re.split(r"\n(?=\S+:)", body[: body.index("\n}")])
    return [b for b in blocks if "fmul" in b and f"%{b[: b.index(':')]}" in b.splitlines()[-1]]


def stores_when_it_multiplies(module: codegen.Module) -> bool:
    found = inner_blocks(module)
    assert found
    return any("store" in block for block in found)


# ------------------------------------------------------------------------------------ the whole way


def tiled_matmul(n: int, rows: int, columns: int, steps: int = 0, fused: bool = False) -> IRModule:
    """Return a product of n by n matrices whose schedule states a register tile.

    The reduction is split by `steps`, unless it is 0.
    """
    sch = Schedule(
        parse(
            f"""
@T.prim_func
def main(A: T.Buffer(({n}, {n}), "float32"), B: T.Buffer(({n}, {n}), "float32"), C: T.Buffer(({n}, {n}), "float32")):
    T.func_attr({{"tir.noalias": True}})
    for i, j, k in T.grid({n}, {n}, {n}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
        )
    )
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, rows])
    j0, j1 = sch.split(j, [None, columns])
    inner = sch.split(k, [None, steps]) if steps else [k]
    sch.reorder(i0, j0, *inner, i1, j1)
    sch.unroll(i1)
    sch.vectorize(j1)
    sch.decompose_reduction(block, inner[0])
    if fused:
        sch.fuse(i0, j0)
    return sch.mod


@pytest.mark.parametrize(
    ("n", "rows", "columns", "why"),
    [
        (32, 4, 16, "the tile divides"),
        (32, 4, 24, "the last tile is short of a whole vector"),
        (36, 4, 16, "the last tile is short of a part of a vector"),
        (34, 4, 17, "the last rows are missing"),
        (37, 5, 24, "rows and columns are missing"),
        (31, 5, 24, "all columns are in the last tile"),
        (13, 4, 16, "the last vector of a row would reach into the next row"),
    ],
)
@pytest.mark.parametrize(("steps", "fused"), [(0, False), (0, True), (4, False), (5, True)])
def test_a_tile_of_a_schedule_lives_in_registers(
    n: int, rows: int, columns: int, why: str, steps: int, fused: bool
) -> None:
    library = codegen.build(tiled_matmul(n, rows, columns, steps, fused), TARGET, guard_pages=True)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, n)).astype(np.float32) for _ in range(2))
    guarded = np.full(n * n + 64, 7, np.float32)
    c = guarded[: n * n].reshape(n, n)
    library["main"](a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(guarded[n * n :], 7)
    assert not stores_when_it_multiplies(library), why


def test_schedules_with_other_loops_are_other_code() -> None:
    """Lowering keeps the order and the tiles of the loops: nothing else chooses them."""
    tiles = [(4, 16), (2, 32), (8, 16), (8, 32)]
    codes = {
        "".join(inner_blocks(codegen.build(tiled_matmul(32, *tile), TARGET))) for tile in tiles
    }
    assert len(codes) == len(tiles)


# ------------------------------------------------------------------------------------- flat programs


def program(body: str) -> PrimFunc:
    text = f"""
@T.prim_func
def main(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32"), n: T.int32):
    T.func_attr({{"tir.noalias": True}})
{body}
"""
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


def lowered(body: str) -> str:
    return codegen.lower(program(body), TARGET).script()


def run(body: str, n: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    a, c = (rng.standard_normal(64).astype(np.float32) for _ in range(2))
    codegen.build(program(body), TARGET)["main"](a, c, n)
    return c


def test_a_condition_that_does_not_change_guards_the_load_and_the_store() -> None:
    before = program(
        """
    for k in range(64):
        C[8] = C[8] + A[k]
        if n == 8:
            C[9] = C[9] + A[k] * A[k]
"""
    )
    after = program(
        """
    R = T.allocate([2], "float32", "local")
    R_1 = T.Buffer((2,), data=R)
    R_1[0] = C[8]
    if n == 8:
        R_1[1] = C[9]
    for k in range(64):
        R_1[0] = R_1[0] + A[k]
        if n == 8:
            R_1[1] = R_1[1] + A[k] * A[k]
    C[8] = R_1[0]
    if n == 8:
        C[9] = R_1[1]
"""
    )
    assert_structural_equal(codegen.lower(before, TARGET), after)


@pytest.mark.parametrize("n", [3, 12])
def test_guarded_accumulators(n: int) -> None:
    body = """
    for k in range(64):
        C[8] = C[8] + A[k]
        if n < 8:
            C[9] = C[9] + A[k] * A[k]
"""
    rng = np.random.default_rng(1)
    a, c = (rng.standard_normal(64).astype(np.float32) for _ in range(2))
    c[8] += a.sum()
    c[9] += (a * a).sum() if n < 8 else 0
    np.testing.assert_allclose(run(body, n), c, rtol=1e-4)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            """
    for k in range(64):
        if k < n:
            C[8] = C[8] + A[k]
""",
            "whether it is stored differs between iterations",
        ),
        (
            """
    for k in range(64):
        if n == 8:
            C[8] = C[8] + A[k]
        else:
            C[8] = C[8] - A[k]
""",
            "it is stored under two conditions",
        ),
        (
            """
    for k in range(64):
        if n == 8:
            C[8] = C[8] + A[k]
        C[8] = C[8] * A[k]
""",
            "it is stored with and without a condition",
        ),
        (
            """
    for k in range(64):
        if C[0] < A[0]:
            C[8] = C[8] + A[k]
""",
            "the condition is loaded, and the loop may store it",
        ),
        (
            """
    for k in range(64):
        C[8] = C[8] + A[k]
        T.evaluate(T.call_extern("int32", "abs", T.reinterpret("int64", T.address_of(C[8]))))
""",
            "a function gets its address",
        ),
    ],
)
def test_other_conditions_leave_it_in_memory(body: str, why: str) -> None:
    assert "C_reg" not in lowered(body), why


def test_one_store_before_the_loop_does_for_updates_under_a_condition() -> None:
    """The loop may load and store what it may not update, as the program has written it anyway."""
    before = program(
        """
    C[8] = T.float32(0)
    for k in range(64):
        if A[k] < T.float32(0):
            C[8] = C[8] + A[k]
"""
    )
    after = program(
        """
    C[8] = T.float32(0)
    R = T.allocate([1], "float32", "local")
    R_1 = T.Buffer((1,), data=R)
    R_1[0] = C[8]
    for k in range(64):
        if A[k] < T.float32(0):
            R_1[0] = R_1[0] + A[k]
    C[8] = R_1[0]
"""
    )
    assert_structural_equal(codegen.lower(before, TARGET), after)


@pytest.mark.parametrize(
    ("first", "is_kept"),
    [
        ("C[8] = A[0]", True),
        ("for j in T.vectorized(16):\n        C[j] = A[j]", True),
        ("if n == 3:\n        C[8] = A[0]", False),
        ("C[9] = A[0]", False),
        ("A[8] = A[0]", False),
        ("for j in T.vectorized(16):\n        if j < n:\n            C[j] = A[j]", False),
        ("for i in range(n):\n        C[8] = A[i]", False),
    ],
)
def test_which_statements_before_a_loop_store_for_sure(first: str, is_kept: bool) -> None:
    body = f"""
    {first}
    for k in range(n):
        C[8] = C[8] + A[k]
"""
    assert ("C_reg" in lowered(body)) is is_kept
    for n in (0, 1, 7):
        rng = np.random.default_rng(1)
        given = [rng.standard_normal(64).astype(np.float32) for _ in range(2)]
        expected = given[1].copy()
        interpret(program(body), given[0].copy(), expected, n)
        np.testing.assert_array_equal(run(body, n), expected)


@pytest.mark.parametrize("steps", ["range", "T.unroll"])
@pytest.mark.parametrize("n", [0, 4, 13, 16])
def test_masked_accumulators(n: int, steps: str) -> None:
    """Lanes that are off keep what they had, in memory beyond the tail too."""
    body = f"""
    for k in {steps}(4):
        for j in T.vectorized(16):
            if j < n:
                C[j] = C[j] + A[k * 16 + j] * A[k]
"""
    text = lowered(body)
    assert "C_reg" in text
    rng = np.random.default_rng(1)
    a, c = (rng.standard_normal(64).astype(np.float32) for _ in range(2))
    for k in range(4):
        c[:n] += a[k * 16 : k * 16 + n] * a[k]
    np.testing.assert_allclose(run(body, n), c, rtol=1e-5)


def test_masks_that_differ_at_one_place_leave_it_in_memory() -> None:
    body = """
    for k in range(4):
        for j in T.vectorized(16):
            if j % 2 == n:
                C[j] = C[j] + A[k]
        for j in T.vectorized(16):
            if j < 5:
                C[j] = C[j] * A[k]
"""
    assert "C_reg" not in lowered(body)
    rng = np.random.default_rng(1)
    a, c = (rng.standard_normal(64).astype(np.float32) for _ in range(2))
    for k in range(4):
        c[1:16:2] += a[k]
        c[:5] *= a[k]
    np.testing.assert_allclose(run(body, 1), c, rtol=1e-5)


def test_places_may_have_different_masks() -> None:
    body = """
    for k in range(4):
        for j in T.vectorized(16):
            if j < n:
                C[j] = C[j] + A[k]
        for j in T.vectorized(16):
            if j < 5:
                C[16 + j] = C[16 + j] * A[k]
"""
    assert lowered(body).count("C_reg") > 4
    rng = np.random.default_rng(1)
    a, c = (rng.standard_normal(64).astype(np.float32) for _ in range(2))
    for k in range(4):
        c[:9] += a[k]
        c[16:21] *= a[k]
    np.testing.assert_allclose(run(body, 9), c, rtol=1e-5)


@pytest.mark.parametrize(("lanes", "is_kept"), [(7, True), (8, False)])
def test_places_of_which_no_lane_that_is_on_overlaps(lanes: int, is_kept: bool) -> None:
    body = f"""
    for k in range(4):
        for j in T.vectorized(8):
            if j < {lanes}:
                C[j] = C[j] + A[k]
        for j in T.vectorized(8):
            if j < {lanes}:
                C[j + 7] = C[j + 7] * A[k]
"""
    assert ("C_reg" in lowered(body)) is is_kept
    rng = np.random.default_rng(1)
    a, c = (rng.standard_normal(64).astype(np.float32) for _ in range(2))
    for k in range(4):
        c[:lanes] += a[k]
        c[7 : 7 + lanes] *= a[k]
    np.testing.assert_allclose(run(body, 0), c, rtol=1e-5)


# -------------------------------- Accumulators of a function's own at a tail: vectors without masks

MASK = "T.Ramp(0, 1, 8) < T.Broadcast(7, 8)"
OTHER = "T.Ramp(0, 1, 8) != T.Broadcast(n, 8)"


def unmask_program(body: str) -> PrimFunc:
    func = parse(
        f"""
@T.prim_func
def main(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32"), n: T.int32):
    T.func_attr({{"tir.noalias": True}})
    R = T.allocate([16], "float32", "local")
    R_1 = T.Buffer((16,), data=R)
{body}
"""
    )
    assert isinstance(func, PrimFunc)
    return func


def unmask_lowered(body: str) -> PrimFunc:
    return codegen.lower(unmask_program(body), TARGET, until="unmask_tiles")


@pytest.mark.parametrize("mask", [MASK, OTHER])
def test_lanes_that_nobody_looks_at_need_no_mask(mask: str) -> None:
    before = f"""
    R_1.vstore([T.Ramp(0, 1, 8)], T.Broadcast(T.float32(0), 8), predicate={mask})
    for k in range(7):
        R_1.vstore(
            [T.Ramp(0, 1, 8)],
            R_1.vload([T.Ramp(0, 1, 8)], predicate={mask})
            + A.vload([T.Ramp(k * 8, 1, 8)], predicate={mask}),
            predicate={mask},
        )
    C.vstore([T.Ramp(0, 1, 8)], R_1.vload([T.Ramp(0, 1, 8)], predicate={mask}), predicate={mask})
"""
    after = f"""
    R_1[0:8] = T.Broadcast(T.float32(0), 8)
    for k in range(7):
        R_1[0:8] = R_1[0:8] + A.vload([T.Ramp(k * 8, 1, 8)], predicate={mask})
    C.vstore([T.Ramp(0, 1, 8)], R_1[0:8], predicate={mask})
"""
    assert_structural_equal(unmask_lowered(before), unmask_program(after))
    a, c = np.arange(64, dtype=np.float32), np.full(64, 9, np.float32)
    codegen.build(unmask_program(before), TARGET)["main"](a, c, 7)
    np.testing.assert_array_equal(c[:7], a[:56].reshape(7, 8).sum(0)[:7])
    assert (c[7:] == 9).all()


def masked(value: str, mask: str = MASK, place: str = "0") -> str:
    return f"    R_1.vstore([T.Ramp({place}, 1, 8)], {value}, predicate={mask})\n"


ONES = "T.Broadcast(T.float32(1), 8)"
LOAD = f"R_1.vload([T.Ramp(0, 1, 8)], predicate={MASK})"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (masked(ONES) + f"    C[0:8] = {LOAD}", "lanes that are off are stored as 0"),
        (masked(ONES) + "    C[0] = R_1[0]", "a lane is loaded alone"),
        (masked(ONES) + masked(LOAD, OTHER), "masks differ"),
        (masked(ONES) + masked(LOAD, place="n"), "a place varies"),
        (masked(ONES) + masked(LOAD, place="4"), "places overlap"),
        (masked(LOAD.replace("0", "9", 1), place="9"), "the last lane is not there"),
        (
            "    for k in range(8):\n    " + masked(ONES, "T.Ramp(0, 1, 8) != T.Broadcast(k, 8)"),
            "the mask varies",
        ),
        (
            masked(ONES)
            + "    C.vstore([T.Ramp(0, 1, 8)], "
            + f'A[T.Cast("int32x8", {LOAD})], predicate={MASK})',
            "lanes that are off would say where to load",
        ),
    ],
)
def test_other_masks_stay(body: str, why: str) -> None:
    before = codegen.lower(unmask_program(body), TARGET, until="unroll")
    assert_structural_equal(unmask_lowered(body), before), why
