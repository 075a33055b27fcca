"""Default schedules of functions whose sizes are known when they are called."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import codegen
import search as ms
from schedule import Schedule
from tensorir import assert_structural_equal, parse
from tensorir.function import IRModule
from tests.search.anchored_programs import TARGET

PRODUCT = parse(
    """
@T.prim_func
def main(a: T.handle, B: T.Buffer((32, 64)), c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 32))
    C = T.match_buffer(c, (n, 64))
    Y = T.alloc_buffer((n, 64))
    for i, j, k in T.grid(n, 64, 32):
        with T.block("Y"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                Y[vi, vj] = T.float32(0)
            Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(n, 64):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.max(Y[vi, vj], T.float32(0))
"""
)


@cache
def scheduled() -> Schedule:
    """Return the schedule of the product, which tests only look at."""
    return ms.default_schedule(PRODUCT, TARGET)


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 64])
def test_any_number_of_rows_is_computed(rows: int) -> None:
    sch = scheduled()
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((rows, 32), np.float32), rng.standard_normal((32, 64), np.float32)
    c = np.zeros((rows, 64), np.float32)
    codegen.build(sch.mod, TARGET)["main"](a, b, c)
    np.testing.assert_allclose(c, np.maximum(a @ b, 0), rtol=1e-4, atol=1e-5)


def test_columns_are_vectors_and_the_trace_says_all() -> None:
    sch = scheduled()
    assert "T.vectorized" in sch.mod.script()
    again = Schedule(IRModule({"main": PRODUCT}))
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod["main"].body, sch.mod["main"].body)


def test_what_cannot_be_done_for_any_number_leaves_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from search.history import default_designs  # noqa: PLC0415
    from search.history.adapted_replay import ReplayError  # noqa: PLC0415

    def refuses(*_: object) -> Schedule:
        raise ReplayError("no")

    monkeypatch.setattr(default_designs, "schedule_by_single", refuses)
    assert ms.default_schedule(PRODUCT, TARGET).trace.insts == []


POOL = parse(
    """
@T.prim_func
def main(a: T.handle, c: T.handle):
    h = T.int64()
    w = T.int64()
    A = T.match_buffer(a, (16, h, w))
    C = T.match_buffer(c, (16, (h - 3) // 2 + 1, w // 8))
    P = T.alloc_buffer((16, (h - 3) // 2 + 1, w // 8))
    for i, j, k, rh, rw in T.grid(16, (h - 3) // 2 + 1, w // 8, 3, 8):
        with T.block("P"):
            vi, vj, vk, vrh, vrw = T.axis.remap("SSSRR", [i, j, k, rh, rw])
            with T.init():
                P[vi, vj, vk] = T.float32(0)
            P[vi, vj, vk] = P[vi, vj, vk] + A[vi, vj * 2 + vrh, vk * 8 + vrw]
    for i, j, k in T.grid(16, (h - 3) // 2 + 1, w // 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            C[vi, vj, vk] = P[vi, vj, vk] / T.float32(24)
"""
)


def test_sizes_of_which_one_element_gives_an_empty_result_are_tried_as_larger_ones() -> None:
    sch = ms.default_schedule(POOL, TARGET)
    assert sch.trace.insts
    built = codegen.build(sch.mod, TARGET)["main"]
    for h, w in [(3, 8), (5, 31), (20, 64)]:
        a = np.random.default_rng(h).random((16, h, w), np.float32)
        rows, columns = (h - 3) // 2 + 1, w // 8
        c = np.zeros((16, rows, columns), np.float32)
        built(a, c)
        windows = np.lib.stride_tricks.sliding_window_view(a, (3, 8), (1, 2))[:, ::2, ::8]
        np.testing.assert_allclose(c, windows.mean((-1, -2)), rtol=1e-5)
