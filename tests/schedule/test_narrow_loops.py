"""Loops over narrow integer types: what is made of them counts in a type that holds the result."""

from __future__ import annotations

import numpy as np
import pytest

from schedule import Schedule
from tensorir import assert_structural_equal, parse
from tensorir.interp import interpret
from tests.schedule.transformation import refused

NEST = """\
@T.prim_func
def main(A: T.Buffer((100, 3), "int32"), B: T.Buffer((100, 3), "int32")):
    for i in range({dtype}(100)):
        for j in range({dtype}(3)):
            with T.block("B"):
                vi = T.axis.spatial({dtype}(100), i)
                vj = T.axis.spatial({dtype}(3), j)
                B[vi, vj] = A[vi, vj] + 1
"""
SYMBOLIC = """\
@T.prim_func
def main(n: T.int8, a: T.handle, b: T.handle):
    A = T.match_buffer(a, (n,), "int32")
    B = T.match_buffer(b, (n,), "int32")
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = A[vi] + 1
"""
SUM = """\
@T.prim_func
def main(A: T.Buffer((100,), "int32"), B: T.Buffer((1,), "int32")):
    for k in range(T.int8(100)):
        with T.block("B"):
            vk = T.axis.reduce(T.int8(100), k)
            with T.init():
                B[0] = 0
            B[0] = B[0] + A[vk]
"""


def adds_one(sch, shape, *sizes):
    a = np.arange(np.prod(shape), dtype="int32").reshape(shape)
    b = np.zeros_like(a)
    interpret(sch.mod["main"], *sizes, a, b)
    np.testing.assert_array_equal(b, a + 1)


def extents(sch):
    return [sch.get(loop).extent for loop in sch.get_loops("B")]


@pytest.mark.parametrize(
    "factors", [[2, 100], [100, 2], [2, 200], [None, 200], [3, None, 60], [2, 2**14]]
)
@pytest.mark.parametrize("dtype", ["T.int8", "T.int16"])
def test_a_split_whose_product_leaves_the_type(dtype, factors):
    sch = Schedule(parse(NEST.format(dtype=dtype)))
    sch.split(sch.get_loops("B")[0], factors)
    adds_one(sch, (100, 3))


def test_a_split_that_the_type_holds_keeps_it():
    sch = Schedule(parse(NEST.format(dtype="T.int8")))
    sch.split(sch.get_loops("B")[0], [None, 64])
    assert [n.dtype for n in extents(sch)] == ["int8"] * 3
    adds_one(sch, (100, 3))


@pytest.mark.parametrize("factors", [[None, 64], [64, None], [None, 200], [2, 64], [4, 64]])
def test_a_split_of_a_symbolic_extent(factors):
    sch = Schedule(parse(SYMBOLIC))
    sch.split(sch.get_loops("B")[0], factors)
    adds_one(sch, (100,), 100)


@pytest.mark.parametrize("axis", ["", ', dtype="int8"'])
@pytest.mark.parametrize("factors", [[2, 100], [None, 70], [3, None, 60]])
def test_loops_that_were_widened_are_reordered(factors, axis):
    text = NEST.format(dtype="T.int8").replace("(100), i", f"(100), i{axis}")
    sch = Schedule(parse(text))
    parts = sch.split(sch.get_loops("B")[0], factors)
    assert [sch.get(part).extent.dtype for part in parts] == ["int32"] * len(factors)
    sch.reorder(sch.get_loops("B")[-1], *reversed(parts))
    adds_one(sch, (100, 3))
    sch.cache_write("B", 0, "global")
    adds_one(sch, (100, 3))


@pytest.mark.parametrize("dtype", ["T.int8"])
def test_fused_loops_count_in_a_type_that_holds_the_product(dtype):
    sch = Schedule(parse(NEST.format(dtype=dtype)))
    fused = sch.fuse(*sch.get_loops("B"))
    assert sch.get(fused).extent.value == 300
    adds_one(sch, (100, 3))
    sch.split(fused, [None, 64])
    adds_one(sch, (100, 3))


def test_fused_loops_of_more_iterations_than_int32_has():
    text = (
        NEST.format(dtype="T.int32")
        .replace("100", "65536")
        .replace("(3)", "(65536)")
        .replace(", 3)", ", 65536)")
    )
    sch = Schedule(parse(text))
    fused = sch.fuse(*sch.get_loops("B"))
    assert sch.get(fused).extent.is_same(2**32)
    assert sch.get(fused).extent.dtype == "int64"


def test_a_padded_loop_is_refused_where_its_type_does_not_hold_the_extent():
    error = refused(SUM, lambda sch: sch.pad_einsum("B", [64]), "NonEinsumError")
    assert "loop k counts in int8, which does not hold 128" in str(error)


def test_a_reduction_over_a_narrow_loop_is_factored():
    sch = Schedule(parse(SUM))
    sch.rfactor(sch.split(sch.get_loops("B")[0], [None, 40])[1], 0)
    a, b = np.arange(100, dtype="int32"), np.zeros(1, "int32")
    interpret(sch.mod["main"], a, b)
    assert b[0] == a.sum()


def test_a_factored_axis_is_used_in_the_type_of_the_one_that_it_is_made_of():
    sch = Schedule(parse(SUM))
    sch.rfactor(sch.get_loops("B")[0], 0)
    assert '= A[T.Cast("int32", vk)' in sch.mod.script()
    assert_structural_equal(parse(sch.mod.script()), sch.mod)
    a, b = np.arange(100, dtype="int32"), np.zeros(1, "int32")
    interpret(sch.mod["main"], a, b)
    assert b[0] == a.sum()


def test_a_buffer_of_narrow_extents_is_as_large_as_their_product():
    sch = Schedule(parse(SUM))
    sch.rfactor(sch.get_loops("B")[0], 0)
    (buffer,) = sch.mod["main"].body.block.alloc_buffers
    assert [size.dtype for size in buffer.layout] == ["int32"] * 3
