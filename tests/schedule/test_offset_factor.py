"""Sums of products of bytes of one sign, as sums of products of bytes of the other."""

from __future__ import annotations

import numpy as np
import pytest

from tensorir.interp import interpret
from tests.schedule.transformation import apply, refused

PRODUCT = """\
@T.prim_func
def main(A: T.Buffer((3, 8), "int8"), B: T.Buffer((8, 5), "int8"), C: T.Buffer((3, 5), "int32")):
    for i, j, k in T.grid(3, 5, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 7
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vk, vj])
"""
OFFSET = """\
@T.prim_func
def main(A: T.Buffer((3, 8), "int8"), B: T.Buffer((8, 5), "int8"), C: T.Buffer((3, 5), "int32")):
    A_offset = T.alloc_buffer((3, 8), "uint8")
    C_offset = T.alloc_buffer((5,), "int32")
    for ax0, ax1 in T.grid(3, 8):
        with T.block("A_offset"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            A_offset[v0, v1] = T.Cast("uint8", A[v0, v1]) + T.uint8(128)
    for j, k in T.grid(5, 8):
        with T.block("C_offset"):
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                C_offset[vj] = 0
            C_offset[vj] = C_offset[vj] + 128 * T.Cast("int32", B[vk, vj])
    for i, j, k in T.grid(3, 5, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            T.reads(A_offset[vi, vk], B[vk, vj], C_offset[vj])
            T.writes(C[vi, vj])
            with T.init():
                C[vi, vj] = 7 - C_offset[vj]
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A_offset[vi, vk]) * T.Cast("int32", B[vk, vj])
"""


def offset(index, dtype):
    return lambda sch: sch.offset_factor("C", index, dtype)


def extremes(types):
    """Return factors that are as small and as large as they get."""
    rng = np.random.default_rng(0)
    ends = [np.array([np.iinfo(t).min, np.iinfo(t).max], t) for t in types]
    return rng.choice(ends[0], (3, 8)), rng.choice(ends[1], (8, 5))


def assert_right(sch, types=("int8", "int8")):
    a, b = extremes(types)
    c = np.zeros((3, 5), "int32")
    interpret(sch.mod, a, b, c)
    np.testing.assert_array_equal(c, 7 + a.astype("int32") @ b.astype("int32"))


def test_what_the_offset_adds_is_taken_off_where_the_sums_begin():
    sch = apply(PRODUCT, offset(0, "uint8"), OFFSET)
    assert_right(sch)
    shift, share = "A_offset", "C_offset"
    assert [i.kind.name for i in sch.trace.insts][-1] == "OffsetFactor"
    assert sch.get(sch.get_block(shift)).writes[0].buffer.dtype == "uint8"
    assert sch.get(sch.get_block(share)).writes[0].buffer.dtype == "int32"


def test_the_right_factor_and_back_to_signed():
    text = PRODUCT.replace('B: T.Buffer((8, 5), "int8")', 'B: T.Buffer((8, 5), "uint8")')
    sch = apply(text, offset(1, "int8"))
    assert "C_offset = T.alloc_buffer((3,)" in sch.mod.script()
    assert 'T.Cast("int8", B[v0, v1]) + T.int8(-128)' in sch.mod.script()
    assert_right(sch, ("int8", "uint8"))


def test_both_factors_one_after_the_other():
    def both(sch):
        sch.offset_factor("C", 0, "uint8")
        sch.offset_factor("C", 1, "uint8")

    sch = apply(PRODUCT, both)
    assert "C_offset_1" in sch.mod.script()
    assert_right(sch)


def test_sums_that_wrap_wrap_alike():
    text = PRODUCT.replace("int8", "int16")
    sch = apply(text, offset(0, "uint16"))
    a, b = extremes(("int16", "int16"))
    c = np.zeros((3, 5), "int32")
    interpret(sch.mod, a, b, c)
    exact = 7 + a.astype("int64") @ b.astype("int64")
    np.testing.assert_array_equal(c, exact.astype("int32"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PRODUCT.replace("C[vi, vj] + T.Cast", "C[vi, vj] - T.Cast"), "it does not add a product"),
        (
            PRODUCT.replace('T.Cast("int32", B[vk, vj])', 'T.Cast("int32", A[vi, vk])'),
            "it is read more than once",
        ),
        (
            PRODUCT.replace('T.Cast("int32", A[vi, vk])', 'T.Cast("int32", A[vi, vk] + T.int8(1))'),
            "it is not converted where it is multiplied",
        ),
        (
            PRODUCT.replace("T.grid(3, 5, 8)", "T.grid(3, 5, 9)").replace(
                "            with T.init", "            T.where(k < 8)\n            with T.init"
            ),
            "its predicate leaves some steps out",
        ),
    ],
    ids=["difference", "twice", "not converted", "predicate"],
)
def test_blocks_that_are_no_such_sum(text, words):
    sch_error = refused(text, offset(0, "uint8"), "NotSumOfProductsError", words)
    assert "A" in str(sch_error)


def test_loops_that_are_divided_already():
    def divided(sch):
        loops = sch.get_loops("C")
        sch.split(loops[2], [2, 4])
        sch.offset_factor("C", 0, "uint8")

    refused(PRODUCT, divided, "NotSumOfProductsError", "an axis lacks its own loop")


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float32", "byte"])
def test_types_that_differ_in_more_than_the_sign(dtype):
    refused(PRODUCT, offset(0, dtype), "ArgumentError", "so it can only be 'uint8'")


def test_a_block_without_an_init():
    text = PRODUCT.replace("            with T.init():\n                C[vi, vj] = 7\n", "")
    refused(text, offset(1, "uint8"), "NotReductionBlockError")
