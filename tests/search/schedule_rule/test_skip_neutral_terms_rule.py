"""The rule that takes the zeros out of transposed convolutions."""

from __future__ import annotations

import numpy as np
import pytest

from schedule import Schedule
from search.context import TuneContext
from search.schedule_rule import SkipNeutralTerms
from tensorir import assert_structural_equal, parse
from tensorir.interp import interpret, random_arguments

TRANSPOSED = """
@T.prim_func
def main(A: T.Buffer((6, 10)), W: T.Buffer((4, 6)), C: T.Buffer((16, 6))):
    for h, co, r, ci in T.grid(16, 6, 4, 6):
        with T.block("C"):
            vh, vco, vr, vci = T.axis.remap("SSRR", [h, co, r, ci])
            with T.init():
                C[vh, vco] = T.float32(0)
            C[vh, vco] = C[vh, vco] + T.if_then_else((vh + vr) % 2 == 0, A[vci, (vh + vr) // 2], T.float32(0)) * W[vr, vci]
"""

SKIPPED = """
@T.prim_func
def main(A: T.Buffer((6, 10)), W: T.Buffer((4, 6)), C: T.Buffer((16, 6))):
    for ax0, ax1, ax2, ax3, ax4 in T.grid(8, 2, 6, 2, 6):
        with T.block("C"):
            v0, v1, v2, v3, v4 = T.axis.remap("SSSRR", [ax0, ax1, ax2, ax3, ax4])
            with T.init():
                C[v0 * 2 + v1, v2] = T.float32(0)
            C[v0 * 2 + v1, v2] = C[v0 * 2 + v1, v2] + A[v4, v0 + v1 + v3] * W[v3 * 2 + v1, v4]
"""


def applied(text: str) -> Schedule:
    sch = Schedule(parse(text), debug_mask="all")
    design, *before = SkipNeutralTerms().apply(sch, sch.get_block("C"))
    for plain in before:
        assert_structural_equal(plain.mod["main"], parse(text))
    return design


def test_splits_the_output_by_the_period_of_the_zeros() -> None:
    sch = applied(TRANSPOSED)
    assert_structural_equal(sch.mod["main"], parse(SKIPPED))
    assert [inst.kind.name for inst in sch.trace.insts if not inst.kind.is_pure] == [
        "SkipNeutralTerms",
        "TransformBlockLayout",
    ]


def test_an_output_that_the_period_does_not_divide_stays_whole() -> None:
    sch = applied(TRANSPOSED.replace("16", "15"))
    assert [sch.get(loop).extent.value for loop in sch.get_loops("C")] == [15, 6, 2, 6]
    assert "if_then_else" not in sch.mod.script()


def test_other_reductions_stay() -> None:
    for other in ("(vh + vr) % 2 == 1 - vr", "vh + vr >= 2"):
        text = TRANSPOSED.replace("(vh + vr) % 2 == 0", other)
        assert_structural_equal(applied(text).mod["main"], parse(text))


WITH_BIAS = """
@T.prim_func
def main(A: T.Buffer((6, 10)), W: T.Buffer((4, 6)), b: T.Buffer((6,)), D: T.Buffer((16, 6))):
    C = T.alloc_buffer((16, 6))
    for h, co, r, ci in T.grid(16, 6, 4, 6):
        with T.block("C"):
            vh, vco, vr, vci = T.axis.remap("SSRR", [h, co, r, ci])
            with T.init():
                C[vh, vco] = T.float32(0)
            C[vh, vco] = C[vh, vco] + T.if_then_else((vh + vr) % 2 == 0, A[vci, (vh + vr) // 2], T.float32(0)) * W[vr, vci]
    for h, co in T.grid(16, 6):
        with T.block("D"):
            vh, vco = T.axis.remap("SS", [h, co])
            D[vh, vco] = T.max(C[vh, vco] + b[vco], T.float32(0))
"""

WITH_BIAS_SKIPPED = """
@T.prim_func
def main(A: T.Buffer((6, 10)), W: T.Buffer((4, 6)), b: T.Buffer((6,)), D: T.Buffer((16, 6))):
    C = T.alloc_buffer((8, 2, 6))
    for ax0, ax1, ax2, ax3, ax4 in T.grid(8, 2, 6, 2, 6):
        with T.block("C"):
            v0, v1, v2, v3, v4 = T.axis.remap("SSSRR", [ax0, ax1, ax2, ax3, ax4])
            with T.init():
                C[v0, v1, v2] = T.float32(0)
            C[v0, v1, v2] = C[v0, v1, v2] + A[v4, v0 + v1 + v3] * W[v3 * 2 + v1, v4]
    for ax0, ax1, ax2 in T.grid(8, 2, 6):
        with T.block("D"):
            v0, v1, v2 = T.axis.remap("SSS", [ax0, ax1, ax2])
            D[v0 * 2 + v1, v2] = T.max(C[v0, v1, v2] + b[v2], T.float32(0))
"""


def test_a_consumer_gets_the_same_loops() -> None:
    assert_structural_equal(applied(WITH_BIAS).mod["main"], parse(WITH_BIAS_SKIPPED))


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("text", [TRANSPOSED, WITH_BIAS])
def test_whatever_the_tiles_are_results_can_be_stored_at_each_level(text: str, seed: int) -> None:
    func = parse(text)
    context = TuneContext(
        func, target="llvm -num-cores=1", space_generator="post-order-apply", rand_state=seed
    )
    designs = context.generate_design_space()
    assert len(designs) == 6
    for sch in designs[:3]:
        assert "% 2 == 0" not in sch.mod.script()
        expected = random_arguments(func, 0)
        actual = [a.copy() for a in expected]
        interpret(func, *expected)
        interpret(sch.mod["main"], *actual)
        np.testing.assert_allclose(actual[-1], expected[-1], rtol=1e-5)
