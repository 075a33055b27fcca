"""Storing a buffer in another data type."""

from __future__ import annotations

import numpy as np
import pytest

from schedule import Schedule
from tensorir import parse
from tensorir.interp import interpret
from tests.schedule.programs import NARROW_STAGES as STAGES
from tests.schedule.programs import VIEW
from tests.schedule.transformation import apply, refused, scheduled

CONVERTED = """\
@T.prim_func
def main(A: T.Buffer((8, 4)), C: T.Buffer((8, 4))):
    B = T.alloc_buffer((8, 4), "float16")
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.Cast("float16", A[vi, vj] * T.float32(2))
    for i, j in T.grid(8, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.Cast("float32", B[vi, vj]) + T.float32(1)
"""

SUM = """\
@T.prim_func
def main(A: T.Buffer((8, 4)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i, k in T.grid(8, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = A[vi, 0] - A[vi, 0]
            B[vi] = B[vi] + A[vi, vk]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] * B[vi]
"""


def set_dtype(block, buffer_index, dtype):
    return lambda sch: sch.unsafe_set_dtype(block, buffer_index, dtype)


def test_stores_and_loads_convert():
    sch = scheduled(STAGES, set_dtype("B", 0, "float16"), CONVERTED)
    a, c = np.linspace(-3, 3, 32, dtype="float32").reshape(8, 4), np.zeros((8, 4), "float32")
    interpret(sch.mod, a, c)
    np.testing.assert_array_equal(c, (a * 2).astype("float16").astype("float32") + 1)


def test_a_wider_type_computes_the_same():
    after = CONVERTED.replace("float16", "float64")
    sch = apply(STAGES, set_dtype("B", 0, "float64"), after)
    buffer = sch.get(sch.get_block("B")).writes[0].buffer
    assert buffer.name == "B"
    assert buffer.scope() == "global"


def test_an_integer_type():
    after = CONVERTED.replace("float16", "int8")
    sch = scheduled(STAGES, set_dtype("B", 0, "int8"), after)
    a, c = np.full((8, 4), 1.7, "float32"), np.zeros((8, 4), "float32")
    interpret(sch.mod, a, c)
    np.testing.assert_array_equal(c, np.full((8, 4), 4, "float32"))


def test_the_type_that_it_has_changes_nothing():
    apply(STAGES, set_dtype("B", 0, "float32"), STAGES)


def test_the_scope_is_kept():
    before = STAGES.replace("alloc_buffer((8, 4))", 'alloc_buffer((8, 4), scope="local")')
    after = CONVERTED.replace('"float16")\n    for', '"float16", scope="local")\n    for')
    scheduled(before, set_dtype("B", 0, "float16"), after)


def test_a_reduction_with_init():
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 4)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,), "float64")
    for i, k in T.grid(8, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.Cast("float64", A[vi, 0] - A[vi, 0])
            B[vi] = T.Cast("float64", T.Cast("float32", B[vi]) + A[vi, vk])
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = T.Cast("float32", B[vi]) * T.Cast("float32", B[vi])
"""
    apply(SUM, set_dtype("B", 0, "float64"), after)


def test_views_follow():
    after = """\
@T.prim_func
def main(A: T.Buffer((8, 4)), C: T.Buffer((8, 4))):
    B = T.alloc_buffer((8, 4), "float64")
    for i in range(8):
        with T.block("row"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi, 0:4])
            T.writes(B[vi, 0:4])
            row = T.match_buffer(B[vi, 0:4], (4,), "float64", offset_factor=1)
            for j in range(4):
                with T.block("inner"):
                    vj = T.axis.spatial(4, j)
                    row[vj] = T.Cast("float64", A[vi, vj] * T.float32(2))
    for i, j in T.grid(8, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.Cast("float32", B[vi, vj]) + T.float32(1)
"""
    apply(VIEW, set_dtype("row", 0, "float64"), after)


def test_handles_stay():
    sch = Schedule(parse(STAGES), debug_mask="all")
    blocks = [sch.get_block(name) for name in ("B", "C")]
    loops = [loop for block in blocks for loop in sch.get_loops(block)]
    sch.unsafe_set_dtype(blocks[0], 0, "float16")
    assert [sch.get(block).name_hint for block in blocks] == ["B", "C"]
    assert [sch.get(loop).loop_var.name for loop in loops] == ["i", "j", "i", "j"]


def test_trace():
    sch = apply(STAGES, set_dtype("B", 0, "float64"))
    assert sch.trace.as_python() == [
        'b0 = sch.get_block(name="B", func_name="main")',
        'sch.unsafe_set_dtype(block=b0, buffer_index=0, dtype="float64")',
    ]
    assert sch.trace.as_json() == [
        [["GetBlock", [], ["B", "main"], ["b0"]], ["UnsafeSetDType", ["b0"], [0, "float64"], []]],
        [],
    ]


# ----------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("before", "block", "args", "code", "words"),
    [
        (STAGES, "B", (1, "float16"), "BufferIndexOutOfRangeError", "is 1, but"),
        (STAGES, "B", (-1, "float16"), "BufferIndexOutOfRangeError", "has 1 write region(s)"),
        (STAGES, "C", (0, "float16"), "NonAllocatedBufferError", "C is not allocated by a block"),
        (VIEW, "inner", (0, "float16"), "NonAllocatedBufferError", "row is not allocated"),
    ],
)
def test_refused(before, block, args, code, words):
    refused(before, set_dtype(block, *args), code, words, [f"block {block}"])


def test_text_that_names_no_type():
    sch = Schedule(parse(STAGES))
    block, program = sch.get_block("B"), sch.mod["main"]
    with pytest.raises(ValueError, match="floot"):
        sch.unsafe_set_dtype(block, 0, "floot16")
    assert sch.mod["main"] is program
    assert len(sch.trace.insts) == 1


def test_the_buffer_is_given_by_number():
    sch = Schedule(parse(STAGES))
    block = sch.get_block("B")
    with pytest.raises(TypeError, match="`buffer_index` takes int"):
        sch.unsafe_set_dtype(block, "B", "float16")


WIDENED = """\
@T.prim_func
def main(A: T.Buffer((8, 4), "int8"), C: T.Buffer((8, 4), "int32")):
    B = T.alloc_buffer((8, 4), "{b}")
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = {stored}
    for i, j in T.grid(8, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = {loaded}
"""


@pytest.mark.parametrize(
    ("dtype", "loaded"),
    [
        ("int16", 'T.Cast("int32", B[vi, vj])'),
        ("int32", "B[vi, vj]"),
        ("uint8", 'T.Cast("int32", T.Cast("int8", B[vi, vj]))'),
        ("float32", 'T.Cast("int32", T.Cast("int8", B[vi, vj]))'),
    ],
)
def test_what_a_wider_type_holds_is_converted_once(dtype, loaded):
    before = WIDENED.format(b="int8", stored="A[vi, vj]", loaded='T.Cast("int32", B[vi, vj])')
    after = WIDENED.format(b=dtype, stored=f'T.Cast("{dtype}", A[vi, vj])', loaded=loaded)
    sch = apply(before, set_dtype("B", 0, dtype), after)
    a = np.arange(-16, 16, dtype="int8").reshape(8, 4)
    c = np.zeros((8, 4), "int32")
    interpret(sch.mod, a, c)
    np.testing.assert_array_equal(c, a)


def test_arithmetic_in_the_narrow_type_still_wraps():
    before = WIDENED.format(
        b="int8", stored="A[vi, vj] * T.int8(2)", loaded='T.Cast("int32", B[vi, vj] + T.int8(1))'
    )
    after = WIDENED.format(
        b="int16",
        stored='T.Cast("int16", A[vi, vj] * T.int8(2))',
        loaded='T.Cast("int32", T.Cast("int8", B[vi, vj]) + T.int8(1))',
    )
    apply(before, set_dtype("B", 0, "int16"), after)
