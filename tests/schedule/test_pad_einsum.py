"""pad_einsum: extents are rounded up, on copies of the buffers that are padded with zeros."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import Schedule
from tensorir import parse
from tensorir.interp import interpret
from tests.schedule.cases import program
from tests.schedule.transformation import apply

MATMUL = program("MATMUL_2", "pad_einsum")


def pad(*padding, block="C"):
    return lambda sch: sch.pad_einsum(block, list(padding))


# ------------------------------------------------------------------------------------ kinds of blocks


@pytest.mark.parametrize(
    "update",
    [
        "C[vi] + A[vi, vk]",
        "A[vi, vk] + C[vi]",
        "C[vi] - A[vi, vk] * B[vk]",
        "C[vi] + (A[vi, vk] + B[vk])",
        "C[vi] + (A[vi, vk] - B[vk]) * T.float32(2)",
        "C[vi] + T.exp(B[0]) * A[vi, vk]",
    ],
)
def test_sums_to_which_zeros_add_nothing(update):
    before = f"""\
@T.prim_func
def main(A: T.Buffer((3, 6)), B: T.Buffer((6,)), C: T.Buffer((3,))):
    for i, k in T.grid(3, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = {update}
"""
    sch = apply(before, pad(1, 4))
    assert int(sch.get(sch.get_loops(sch.get_block("C"))[1]).extent) == 8


@settings(max_examples=20)
@given(
    st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5)),
    st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)),
)
def test_all_paddings_compute_the_same(extents, padding):
    m, n, d = extents
    text = (
        MATMUL.replace("(6, 7)", f"({m}, {d})")
        .replace("(7, 5)", f"({d}, {n})")
        .replace("(6, 5)", f"({m}, {n})")
        .replace("grid(6, 5, 7)", f"grid({m}, {n}, {d})")
    )
    sch = apply(text, pad(*padding))
    loops = sch.get_loops(sch.get_block("C"))
    assert [int(sch.get(loop).extent) for loop in loops] == [
        -(-extent // unit) * unit for extent, unit in zip(extents, padding, strict=True)
    ]


# ------------------------------------------------------------------- padding that adds nothing anyway


@pytest.mark.parametrize(
    ("update", "dtype"),
    [
        ("T.max(C[vi], A[vi, vk])", "uint8"),
        ("C[vi] * T.if_then_else(vk < 6, A[vi, vk], T.float32(1))", "float32"),
        ('T.max(C[vi], T.if_then_else(vk < 6, A[vi, vk], T.min_value("float32")))', "float32"),
        ("C[vi] + T.if_then_else(vk < 6, T.exp(A[vi, vk]), T.float32(0))", "float32"),
        ("C[vi] + T.Select(6 <= vk, T.float32(0), T.exp(A[vi, vk]))", "float32"),
        ('T.max(C[vi], T.cast(A[vi, vk] * T.uint8(2), "uint8"))', "uint8"),
    ],
)
def test_steps_beyond_the_extent_that_change_nothing(update, dtype):
    zero = f"T.{dtype}(0)"
    before = f"""\
@T.prim_func
def main(A: T.Buffer((3, 6), "{dtype}"), C: T.Buffer((3,), "{dtype}")):
    for i, k in T.grid(3, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = {zero}
            C[vi] = {update}
"""
    sch = apply(before, pad(1, 4))
    assert int(sch.get(sch.get_loops(sch.get_block("C"))[1]).extent) == 8


# -------------------------------------------------------------- steps beyond the extent of a reduction


def reduced(update, init, dtype="float32"):
    return f"""\
@T.prim_func
def main(A: T.Buffer((3, 6), "{dtype}"), B: T.Buffer((3,), "{dtype}"), C: T.Buffer((3,), "{dtype}")):
    for i, k in T.grid(3, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = {init}
            C[vi] = {update}
"""


def padded_reduction(update, init, pad, dtype="float32"):
    return f"""\
@T.prim_func
def main(A: T.Buffer((3, 6), "{dtype}"), B: T.Buffer((3,), "{dtype}"), C: T.Buffer((3,), "{dtype}")):
    A_pad = T.alloc_buffer((3, 8), "{dtype}")
    for i0, i1 in T.grid(3, 8):
        with T.block("A_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            A_pad[v0, v1] = T.if_then_else(v1 < 6, A[v0, v1], {pad})
    for i, k in T.grid(3, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = {init}
            C[vi] = {update}
"""


ZERO = "T.float32(0)"
LOWEST = 'T.min_value("float32")'


@pytest.mark.parametrize(
    ("update", "init", "padded", "filled"),
    [
        # 0 * inf is no 0
        (
            "C[vi] + A[vi, vk] * B[vi]",
            ZERO,
            "C[vi] + T.if_then_else(vk < 6, A_pad[vi, vk] * B[vi], T.float32(0))",
            ZERO,
        ),
        (
            "C[vi] - T.exp(A[vi, vk])",
            ZERO,
            "C[vi] - T.if_then_else(vk < 6, T.exp(A_pad[vi, vk]), T.float32(0))",
            ZERO,
        ),
        ("C[vi] + A[vi, vk] * T.float32(2)", ZERO, "C[vi] + A_pad[vi, vk] * T.float32(2)", ZERO),
        ("C[vi] * A[vi, vk]", "T.float32(1)", "C[vi] * A_pad[vi, vk]", "T.float32(1)"),
        ("T.max(C[vi], A[vi, vk])", LOWEST, "T.max(C[vi], A_pad[vi, vk])", 'T.float32("-inf")'),
        ("T.min(A[vi, vk], C[vi])", 'T.max_value("float32")', "T.min(A_pad[vi, vk], C[vi])",
         'T.float32("inf")'),
        # what the accumulator never is below
        ("T.max(C[vi], A[vi, vk])", ZERO, "T.max(C[vi], A_pad[vi, vk])", ZERO),
        (
            "T.max(C[vi], A[vi, vk] * B[vi])",
            LOWEST,
            'T.max(C[vi], T.if_then_else(vk < 6, A_pad[vi, vk] * B[vi], T.float32("-inf")))',
            ZERO,
        ),
    ],
)  # fmt: skip
def test_added_steps_combine_with_the_neutral_element(update, init, padded, filled):
    after = padded_reduction(padded, init, filled)
    apply(reduced(update, init), pad(1, 4), after)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_padding_adds_nothing_to_what_is_infinite(value):
    sch = Schedule(parse(reduced("C[vi] + A[vi, vk] * B[vi]", ZERO)))
    sch.pad_einsum("C", [1, 4])
    a, b, c = np.ones((3, 6), "float32"), np.full(3, value, "float32"), np.zeros(3, "float32")
    interpret(sch.mod, a, b, c)
    np.testing.assert_array_equal(c, b)


# ------------------------------------------------------------------------------------- shared loops


FUSED = program("FUSED", "pad_einsum")


def test_what_is_used_outside_of_the_nest_is_written_back():
    before = FUSED.replace("Y: T.Buffer((6,))", "Y: T.Buffer((6,)), Z: T.Buffer((6, 7))")
    before += """\
    for i, k in T.grid(6, 7):
        with T.block("Z"):
            vi, vk = T.axis.remap("SS", [i, k])
            Z[vi, vk] = A[vi, vk]
"""
    sch = apply(before, pad(1, 4))
    assert [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))] == [
        "A_pad",
        "W_pad",
        "A",
        "C",
        "Y",
        "A_pad",
        "Z",
    ]
