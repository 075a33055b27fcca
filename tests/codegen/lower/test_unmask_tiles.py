"""Accumulators of a function's own at a tail: vectors without masks."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from tensorir import assert_structural_equal, parse
from tensorir.function import PrimFunc

TARGET = "llvm -num-cores=1"
MASK = "T.Ramp(0, 1, 8) < T.Broadcast(7, 8)"
OTHER = "T.Ramp(0, 1, 8) != T.Broadcast(n, 8)"


def program(body: str) -> PrimFunc:
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


def lowered(body: str) -> PrimFunc:
    return codegen.lower(program(body), TARGET, until="unmask_tiles")


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
    assert_structural_equal(lowered(before), program(after))
    a, c = np.arange(64, dtype=np.float32), np.full(64, 9, np.float32)
    codegen.build(program(before), TARGET)["main"](a, c, 7)
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
    before = codegen.lower(program(body), TARGET, until="unroll")
    assert_structural_equal(lowered(body), before), why
