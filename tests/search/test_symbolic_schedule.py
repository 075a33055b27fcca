"""Default schedules of functions whose sizes are known when they are called."""

from __future__ import annotations

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


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 64])
def test_any_number_of_rows_is_computed(rows: int) -> None:
    sch = ms.default_schedule(PRODUCT, TARGET)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((rows, 32), np.float32), rng.standard_normal((32, 64), np.float32)
    c = np.zeros((rows, 64), np.float32)
    codegen.build(sch.mod, TARGET)["main"](a, b, c)
    np.testing.assert_allclose(c, np.maximum(a @ b, 0), rtol=1e-4, atol=1e-5)


def test_columns_are_vectors_and_the_trace_says_all() -> None:
    sch = ms.default_schedule(PRODUCT, TARGET)
    assert "T.vectorized" in sch.mod.script()
    again = Schedule(IRModule({"main": PRODUCT}))
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod["main"].body, sch.mod["main"].body)


def test_what_cannot_be_done_for_any_number_leaves_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from search.dispatch import sample_on_miss  # noqa: PLC0415
    from search.dispatch.adapted_replay import ReplayError  # noqa: PLC0415

    def refuses(*_: object) -> Schedule:
        raise ReplayError("no")

    monkeypatch.setattr(sample_on_miss, "schedule_by_single", refuses)
    assert ms.default_schedule(PRODUCT, TARGET).trace.insts == []
