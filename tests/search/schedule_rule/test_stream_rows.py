"""The rule for products of a vector and a matrix, whose rows are read a few at a time."""

from __future__ import annotations

import numpy as np
import pytest

from schedule import Schedule
from search.context import TuneContext
from search.schedule_rule import StreamRows
from tensorir import assert_structural_equal, parse
from tensorir.interp import interpret, random_arguments

PRODUCT = """
@T.prim_func
def main(x: T.Buffer((24,)), A: T.Buffer((24, 128)), y: T.Buffer((128,))):
    for j, k in T.grid(128, 24):
        with T.block("y"):
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                y[vj] = T.float32(0)
            y[vj] = y[vj] + x[vk] * A[vk, vj]
"""

STREAMED = """
@T.prim_func
def main(x: T.Buffer((24,)), A: T.Buffer((24, 128)), y: T.Buffer((128,))):
    with T.block("root"):
        T.reads()
        T.writes()
        T.block_attr({"meta_schedule.register_tile": 0})
        for j_0_0, k_0, j_0_1 in T.grid(1, 3, 2):
            for k_1 in T.unroll(8):
                for j_1 in T.unroll(8):
                    for j_2 in T.vectorized(8):
                        with T.block("y"):
                            vj = T.axis.spatial(128, j_0_0 * 128 + j_0_1 * 64 + j_1 * 8 + j_2)
                            vk = T.axis.reduce(24, k_0 * 8 + k_1)
                            T.block_attr({"meta_schedule.tiling_structure": "SRSRS"})
                            with T.init():
                                y[vj] = T.float32(0)
                            y[vj] = y[vj] + x[vk] * A[vk, vj]
"""

WITH_BIAS = (
    PRODUCT.replace(
        "y: T.Buffer((128,))):", "z: T.Buffer((128,))):\n    y = T.alloc_buffer((128,))"
    )
    + """
    for j in range(128):
        with T.block("z"):
            vj = T.axis.spatial(128, j)
            z[vj] = T.max(y[vj], T.float32(0))
"""
)

COLUMN_SUMS = PRODUCT.replace("x[vk] * ", "").replace("x: T.Buffer((24,)), ", "")
BATCHED = """
@T.prim_func
def main(x: T.Buffer((3, 24)), A: T.Buffer((3, 24, 128)), y: T.Buffer((3, 128))):
    for b, j, k in T.grid(3, 128, 24):
        with T.block("y"):
            vb, vj, vk = T.axis.remap("SSR", [b, j, k])
            with T.init():
                y[vb, vj] = T.float32(0)
            y[vb, vj] = y[vb, vj] + x[vb, vk] * A[vb, vk, vj]
"""


def designs(text: str, cores: int = 1) -> list[Schedule]:
    """Return the designs of block y on a CPU with registers of 8 floats."""
    sch = Schedule(parse(text), seed=1, debug_mask="all")
    rule = StreamRows()
    rule._initialize_with_tune_context(TuneContext(target=f"llvm -mcpu=haswell -num-cores={cores}"))
    return rule.apply(sch, sch.get_block("y"))


def test_rows_are_read_side_by_side() -> None:
    streamed, plain = designs(PRODUCT)
    assert_structural_equal(streamed.mod["main"], parse(STREAMED))
    assert_structural_equal(plain.mod["main"], parse(PRODUCT))


@pytest.mark.parametrize("text", [PRODUCT, WITH_BIAS, COLUMN_SUMS, BATCHED])
def test_results_stay(text: str) -> None:
    func = parse(text)
    streamed, _ = designs(text)
    expected = random_arguments(func, 0)
    actual = [a.copy() for a in expected]
    interpret(func, *expected)
    interpret(streamed.mod["main"], *actual)
    np.testing.assert_array_equal(actual[-1], expected[-1])


def test_rows_are_cut_for_the_cores_and_the_first_cache() -> None:
    def parts(text: str, cores: int) -> int:
        sch = designs(text, cores)[0]
        return sch.get(sch.get_loops("y")[0]).extent.value

    assert parts(PRODUCT, 1) == 1
    assert parts(PRODUCT, 2) == 2
    assert parts(PRODUCT.replace("128", "16384"), 1) >= 4


def test_an_element_wise_consumer_follows_each_part() -> None:
    streamed, _ = designs(WITH_BIAS)
    assert len(streamed.get_loops("z")) > 1


@pytest.mark.parametrize(
    ("found", "other"),
    [
        ("24", "23"),  # no divisor for several rows
        ("128", "127"),  # no vectors
        ("A: T.Buffer((24, 128))", "A: T.Buffer((24, 256))"),  # not all of the matrix
        ("x[vk] * A[vk, vj]", "x[vk] * A[vk // 2, vj]"),  # elements are read twice
    ],
)
def test_other_reductions_have_no_such_design(found: str, other: str) -> None:
    assert len(designs(PRODUCT.replace(found, other))) == 1


def test_sums_along_the_rows_have_no_such_design() -> None:
    across = PRODUCT.replace("A[vk, vj]", "A[vj, vk]").replace("((24, 128))", "((128, 24))")
    assert len(designs(across)) == 1
