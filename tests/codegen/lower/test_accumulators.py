"""Schedules that state a register tile: their accumulators are in registers."""

from __future__ import annotations

import re

import numpy as np
import pytest

import codegen
from schedule import Schedule
from tensorir import parse
from tensorir.function import IRModule

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
