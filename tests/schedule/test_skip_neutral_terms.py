"""Reductions that run only for the terms that a periodic condition leaves in."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from schedule import Schedule
from tensorir import parse
from tests.schedule.transformation import apply, refused

TRANSPOSED = """\
@T.prim_func
def main(A: T.Buffer((10,)), W: T.Buffer((4,)), C: T.Buffer((16,))):
    for h, r in T.grid(16, 4):
        with T.block("C"):
            vh, vr = T.axis.remap("SR", [h, r])
            with T.init():
                C[vh] = T.float32(0)
            C[vh] = C[vh] + T.if_then_else((vh + vr) % 2 == 0, A[(vh + vr) // 2], T.float32(0)) * W[3 - vr]
"""

HALF = """\
@T.prim_func
def main(A: T.Buffer((10,)), W: T.Buffer((4,)), C: T.Buffer((16,))):
    for h, r in T.grid(16, 2):
        with T.block("C"):
            vh, vr = T.axis.remap("SR", [h, r])
            with T.init():
                C[vh] = T.float32(0)
            C[vh] = C[vh] + A[vh + vr - vh // 2] * W[3 - vr * 2 - vh % 2]
"""

SPLIT = """\
@T.prim_func
def main(A: T.Buffer((10,)), W: T.Buffer((4,)), C: T.Buffer((16,))):
    for ax0, ax1, ax2 in T.grid(8, 2, 2):
        with T.block("C"):
            v0, v1, v2 = T.axis.remap("SSR", [ax0, ax1, ax2])
            with T.init():
                C[v0 * 2 + v1] = T.float32(0)
            C[v0 * 2 + v1] = C[v0 * 2 + v1] + A[v0 + v1 + v2] * W[3 - v2 * 2 - v1]
"""


def skip(*places):
    """Skip terms along the loops at places of the block C, one after the other."""

    def call(sch):
        for place in places:
            sch.skip_neutral_terms(sch.get_loops("C")[place])

    return call


def test_takes_every_other_step():
    sch = apply(TRANSPOSED, skip(1), HALF)
    assert sch.trace.as_python()[-1] == "sch.skip_neutral_terms(loop=l2)"


def test_indices_are_sums_of_axes_once_the_output_is_split_by_the_period():
    def call(sch):
        skip(1)(sch)
        sch.transform_block_layout("C", lambda h, r: (h // 2, h % 2, r))

    apply(TRANSPOSED, call, SPLIT)


def test_the_handle_of_the_loop_stays():
    sch = Schedule(parse(TRANSPOSED))
    _, loop = sch.get_loops("C")
    sch.skip_neutral_terms(loop)
    assert sch.get(loop).extent.value == 2


def test_an_extent_that_the_period_does_not_divide_leaves_a_condition():
    apply(
        TRANSPOSED.replace("4,", "3,").replace("16, 4", "16, 3").replace("3 - vr", "2 - vr"),
        skip(1),
        HALF.replace("4,", "3,").replace(
            "A[vh + vr - vh // 2] * W[3 - vr * 2 - vh % 2]",
            "T.if_then_else(vr * 2 + vh % 2 < 3, A[vh + vr - vh // 2] * W[2 - vr * 2 - vh % 2], T.float32(0))",
        ),
    )


def test_a_period_longer_than_the_loop_leaves_one_step():
    sch = apply(
        TRANSPOSED.replace("% 2", "% 5").replace("// 2", "// 5"),
        skip(1),
    )
    assert sch.get(sch.get_loops("C")[1]).extent.value == 1


@pytest.mark.parametrize("scale", [-4, -2, -1, 1, 2, 5])
@pytest.mark.parametrize("value", [0, 2])
def test_any_scale_without_a_common_divisor(scale, value):
    condition = f"(vh * 2 + vr * ({scale}) + 40) % 3 == {value}"
    sch = apply(TRANSPOSED.replace("(vh + vr) % 2 == 0", condition), skip(1))
    assert sch.get(sch.get_loops("C")[1]).extent.value == 2


BOTH = """\
@T.prim_func
def main(A: T.Buffer((6, 6)), W: T.Buffer((4, 4), "int8"), C: T.Buffer((8, 8))):
    for h, w, r, s in T.grid(8, 8, 4, 4):
        with T.block("C"):
            vh, vw, vr, vs = T.axis.remap("SSRR", [h, w, r, s])
            with T.init():
                C[vh, vw] = T.float32(0)
            C[vh, vw] = T.Cast("float32", W[vr, vs]) * T.Select((vh + vr) % 2 == 0 and (vw + vs) % 2 == 1, A[(vh + vr) // 2, (vw + vs) // 2], T.float32(0)) + C[vh, vw]
"""


def test_several_axes_and_other_forms_of_the_product():
    sch = apply(BOTH, skip(3, 2))
    assert [sch.get(loop).extent.value for loop in sch.get_loops("C")] == [8, 8, 2, 2]
    assert "Select" not in sch.mod.script()


def test_conditions_that_two_reduction_axes_share():
    sch = apply(BOTH.replace("(vw + vs) % 2 == 1", "(vh + vr + vs) % 3 == 0"), skip(2, 3))
    assert [sch.get(loop).extent.value for loop in sch.get_loops("C")] == [8, 8, 2, 2]


def test_a_maximum_skips_what_is_lowest():
    lowest = 'T.min_value("float32")'
    sch = apply(
        TRANSPOSED.replace("T.float32(0)) * W[3 - vr]", f"{lowest}))")
        .replace("C[vh] + T", "T.max(C[vh], T")
        .replace("C[vh] = T.float32(0)", f"C[vh] = {lowest}"),
        skip(1),
    )
    assert "if_then_else" not in sch.mod.script()


def test_zeros_are_skipped_whatever_they_are_multiplied_with():
    sch = Schedule(parse(TRANSPOSED))
    skip(1)(sch)
    a, w = np.ones(10, "float32"), np.array([1, np.inf, 2, 4], "float32")
    before, after = np.zeros(16, "float32"), np.zeros(16, "float32")
    codegen.build(parse(TRANSPOSED))["main"](a, w, before)
    codegen.build(sch.mod)["main"](a, w, after)
    assert np.isnan(before).any()
    np.testing.assert_array_equal(after, [np.inf, 3] * 8)


def test_a_term_under_the_whole_condition_says_the_same_for_infinities():
    guarded = TRANSPOSED.replace(
        "A[(vh + vr) // 2], T.float32(0)) * W[3 - vr]",
        "A[(vh + vr) // 2] * W[3 - vr], T.float32(0))",
    )
    apply(guarded, skip(1), HALF)


@pytest.mark.parametrize(
    ("found", "other"),
    [
        ("(vh + vr) % 2 == 0", "(vh + vr * 2) % 4 == 0"),
        ("(vh + vr) % 2 == 0", "(vh + vr // 2) % 2 == 0"),
        ("(vh + vr) % 2 == 0", "(vh + vr) % 2 == 0 or vh < 3"),
        ("(vh + vr) % 2 == 0", "vh + vr < 9"),
        ("T.float32(0)) *", "T.float32(1)) *"),
        ("T.float32(0)) * W[3 - vr]", "W[vr])"),
    ],
)
def test_conditions_without_a_period_are_refused(found, other):
    refused(TRANSPOSED.replace(found, other), skip(1), "NoPeriodError", "axis vr", ["block C"])


def test_loops_of_other_axes_are_refused():
    refused(TRANSPOSED, skip(0), "NotTrivialBindingError", marked=["loop h", "block C"])

    def after_split(sch):
        _, r = sch.get_loops("C")
        sch.split(r, [2, None])
        sch.skip_neutral_terms(sch.get_loops("C")[1])

    refused(TRANSPOSED, after_split, "NotTrivialBindingError", "before it is split")


def test_an_update_without_init_is_refused():
    def call(sch):
        sch.decompose_reduction("C", sch.get_loops("C")[1])
        sch.skip_neutral_terms(sch.get_loops("C_update")[1])

    refused(TRANSPOSED, call, "NotReductionBlockError", "before decompose_reduction")


VIEWED = TRANSPOSED.replace(
    "            with T.init",
    "            V = T.match_buffer(W[3 - vr : 4 - vr], (1,), offset_factor=1)\n"
    "            with T.init",
).replace("W[3 - vr]", "V[0]")


def test_views_move_along():
    sch = apply(VIEWED, skip(1))
    assert "W[3 - vr * 2 - vh % 2" in sch.mod.script()


def test_views_of_steps_beyond_the_extent_are_refused():
    text = VIEWED.replace("T.grid(16, 4)", "T.grid(16, 3)")
    refused(text, skip(1), "MatchBufferError", "extent 3", ["block C"])


GUARDED = """\
@T.prim_func
def main(A: T.Buffer((9,)), S: T.Buffer((6,), "int32"), W: T.Buffer((4,)), C: T.Buffer((16,))):
    for h, r in T.grid(16, 4):
        with T.block("C"):
            vh, vr = T.axis.remap("SR", [h, r])
            with T.init():
                C[vh] = T.float32(0)
            C[vh] = C[vh] + T.if_then_else(vh < 6 and (S[vh] + vr) % 2 == 0, A[vh + vr], T.float32(0)) * W[vr]
"""

GUARDED_HALF = """\
@T.prim_func
def main(A: T.Buffer((9,)), S: T.Buffer((6,), "int32"), W: T.Buffer((4,)), C: T.Buffer((16,))):
    for h, r in T.grid(16, 2):
        with T.block("C"):
            vh, vr = T.axis.remap("SR", [h, r])
            with T.init():
                C[vh] = T.float32(0)
            C[vh] = C[vh] + T.if_then_else(vh < 6, A[vh + vr * 2 + S[vh] % 2], T.float32(0)) * W[vr * 2 + T.if_then_else(vh < 6, S[vh] % 2, 0)]
"""


def test_what_is_tested_before_the_condition_guards_its_solution():
    # The interpreter refuses loads outside of a buffer, and divisions by zero.
    apply(GUARDED, skip(1), GUARDED_HALF)


@pytest.mark.parametrize(
    "condition",
    [
        "vh > 0 and (30 // vh + vr) % 2 == 0 and vh < 6",
        "vh < 6 and vh > 0 and (vr - S[vh - 1] // vh) % 4 == 1",
        "vh < 6 and S[vh] > 0 and (7 // S[vh] + vr) % 2 == 1",
    ],
)
def test_loads_and_divisions_stay_guarded(condition):
    sch = apply(GUARDED.replace("vh < 6 and (S[vh] + vr) % 2 == 0", condition), skip(1))
    assert sch.get(sch.get_loops("C")[1]).extent.value < 4


def test_a_guard_around_the_choice_guards_the_solution():
    nested = GUARDED.replace(
        "T.if_then_else(vh < 6 and (S[vh] + vr) % 2 == 0, A[vh + vr], T.float32(0))",
        "T.if_then_else(vh < 6, T.if_then_else((S[vh] + vr) % 2 == 0, A[vh + vr], T.float32(0)), T.float32(0))",
    )
    apply(nested, skip(1), GUARDED_HALF)


def test_a_guard_that_depends_on_the_axis_cannot_guard_the_solution():
    text = GUARDED.replace("vh < 6 and", "vh + vr < 6 and")
    refused(text, skip(1), "NoPeriodError", "axis vr", ["block C"])


def test_sums_that_wrap_keep_their_remainders_by_powers_of_two_only():
    # (2**31 - 1 + 1) % 3 is 1 in 32 bits, as the sum is -2**31.
    refused(GUARDED.replace("% 2", "% 3"), skip(1), "NoPeriodError", "axis vr", ["block C"])
