"""Layouts of parameters and their padding; the cases of `primitives/transform_layout.txt` have the rest."""

from __future__ import annotations

import numpy as np
import pytest

from schedule import Schedule
from tensorir import assert_structural_equal, parse
from tensorir.indices.index_map import IndexMap
from tensorir.interp import interpret
from tests.schedule.cases import program
from tests.schedule.transformation import apply, refused, scheduled

STAGES, COPY = (program(name, "transform_layout") for name in ("STAGES", "COPY"))
SUM = """\
@T.prim_func
def main(A: T.Buffer((14, 3)), B: T.Buffer((14,))):
    for i, k in T.grid(14, 3):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"""


def tile(i):
    return (i // 4, i % 4)


def transform(block, buffer, index_map, **options):
    return lambda sch: sch.transform_layout(block, buffer, index_map, **options)


def test_parameter_changes_its_shape():
    sch = scheduled(STAGES, transform("B", "A", lambda i, j: (j, i)))
    a = np.random.default_rng(0).random((16, 6), "float32")
    c = np.zeros((16, 6), "float32")
    interpret(sch.mod, np.ascontiguousarray(a.T), c)
    np.testing.assert_allclose(c, a * 2 + 1)


def test_stated_strides_follow_the_shape():
    before = """
@T.prim_func
def main(a: T.handle, B: T.Buffer((8,), "int8")):
    A = T.match_buffer(a, {}, "int8", strides={})
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[{}] + T.int8(1)
"""
    sch = Schedule(parse(before.format("(8,)", "(1,)", "vi")))
    sch.transform_layout("B", ("read", 0), lambda i: (i // 4, i % 4))
    after = before.format("(2, 4)", "(4, 1)", "vi // 4, vi % 4")
    assert_structural_equal(sch.mod["main"], parse(after))


@pytest.mark.parametrize(
    "index_map",
    [
        lambda *k: (k[1], k[0]),
        IndexMap.from_func(
            lambda i, j: ((i + 3) % 16, j),
            inverse_index_map=lambda a, b: ((a + 13) % 16, b),
            index_dtype="int32",
        ),
    ],
)
def test_bijective_maps_keep_the_result(index_map):
    apply(STAGES, transform("B", "B", index_map))


def test_axis_separators_make_a_second_instruction():
    def call(sch):
        sep = IndexMap.AXIS_SEPARATOR
        sch.transform_layout("B", "B", lambda i, j: (i // 4, j, sep, i % 4))

    sch = apply(STAGES, call)
    assert [inst.kind.name for inst in sch.trace.insts[-2:]] == [
        "TransformLayout",
        "SetAxisSeparator",
    ]
    assert sch.get(sch.get_block("B")).writes[0].buffer.axis_separators == (2,)


def test_a_layout_that_only_divides_the_buffer_keeps_its_views():
    def call(sch):
        sch.transform_layout("C", "B", lambda i, j, k: (i, IndexMap.AXIS_SEPARATOR, j, k))

    views = program("VIEWS", "set_axis_separator")
    sch = apply(views, call)
    divided = apply(views, lambda s: s.set_axis_separator("C", "B", [1]))
    assert_structural_equal(sch.mod, divided.mod)


# ------------------------------------------------------------------------------------------ padding


def test_padding_that_nothing_writes_is_assumed():
    sch = scheduled(COPY, transform("B", "A", tile, pad_value=lambda i, j: i + j))
    text = sch.mod.script()
    assert 'with T.block("buffer_A_assumptions")' in text
    assert (
        "T.assume(not 14 <= v_axis0 * 4 + v_axis1 or A[v_axis0, v_axis1] == v_axis0 + v_axis1)"
        in text
    )
    a = np.arange(16, dtype="int32").reshape(4, 4)
    a[3, 2:] = [5, 6]
    c = np.zeros(14, "int32")
    interpret(sch.mod, a, c)
    np.testing.assert_array_equal(c, np.arange(14) + 1)


@pytest.mark.parametrize(
    ("value", "init"),
    [
        ("9", "T.if_then_else(14 <= v_axis0 * 4 + v_axis1, T.float32(9), T.float32(0))"),
        ("0", "T.float32(0)"),
    ],
)
def test_a_reduction_in_order_goes_over_the_padding_too(value, init):
    after = f"""\
@T.prim_func
def main(A: T.Buffer((14, 3)), B: T.Buffer((4, 4))):
    for axis0, axis1, k in T.grid(4, 4, 3):
        with T.block("B"):
            v_axis0, v_axis1, vk = T.axis.remap("SSR", [axis0, axis1, k])
            with T.init():
                B[v_axis0, v_axis1] = {init}
            B[v_axis0, v_axis1] = T.if_then_else(
                14 <= v_axis0 * 4 + v_axis1,
                T.float32({value}),
                B[v_axis0, v_axis1] + A[v_axis0 * 4 + v_axis1, vk],
            )
"""
    sch = scheduled(SUM, transform("B", "B", tile, pad_value=float(value)), after)
    a = np.random.default_rng(0).random((14, 3), "float32")
    b = np.zeros((4, 4), "float32")
    interpret(sch.mod, a, b)
    np.testing.assert_allclose(b.ravel(), [*a.sum(1), int(value), int(value)], rtol=1e-6)


def test_a_reduction_that_goes_over_the_padding_is_scheduled_like_others():
    def call(sch):
        sch.transform_layout("B", "B", tile, pad_value=0.0)
        i, j, k = sch.get_loops(sch.get_block("B"))
        sch.reorder(k, i, j)
        sch.decompose_reduction("B", k)

    sch = scheduled(SUM, call)
    a = np.random.default_rng(0).random((14, 3), "float32")
    b = np.zeros((4, 4), "float32")
    interpret(sch.mod, a, b)
    np.testing.assert_allclose(b.ravel(), [*a.sum(1), 0, 0], rtol=1e-6)


def test_padding_after_a_reduction_in_another_order():
    after = """\
@T.prim_func
def main(A: T.Buffer((14, 3)), B: T.Buffer((4, 4))):
    for k, i in T.grid(3, 14):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi // 4, vi % 4] = T.float32(0)
            B[vi // 4, vi % 4] = B[vi // 4, vi % 4] + A[vi, vk]
    for axis0, axis1 in T.grid(4, 4):
        with T.block("buffer_B_padding"):
            v_axis0, v_axis1 = T.axis.remap("SS", [axis0, axis1])
            T.where(14 <= axis0 * 4 + axis1)
            B[v_axis0, v_axis1] = T.float32(9)
"""
    sch = scheduled(
        SUM.replace("i, k in T.grid(14, 3)", "k, i in T.grid(3, 14)"),
        transform("B", "B", tile, pad_value=9.0),
        after,
    )
    a = np.random.default_rng(0).random((14, 3), "float32")
    b = np.zeros((4, 4), "float32")
    interpret(sch.mod, a, b)
    np.testing.assert_allclose(b.ravel(), [*a.sum(1), 9, 9], rtol=1e-6)


def test_padding_on_the_left():
    sch = scheduled(COPY, transform("C", "C", lambda i: ((i + 2) // 4, (i + 2) % 4), pad_value=3))
    a, c = np.arange(14, dtype="int32"), np.zeros((4, 4), "int32")
    interpret(sch.mod, a, c)
    np.testing.assert_array_equal(c.ravel(), [3, 3, *(a + 1)])


def test_padding_made_of_elements_of_the_buffer():
    def call(sch):
        block = sch.get_block("C")
        buffer = sch.get(block).writes[0].buffer
        sch.transform_layout(block, "C", tile, pad_value=lambda i, j: buffer[0])

    sch = Schedule(parse(COPY), debug_mask="all")
    call(sch)
    a, c = np.arange(5, 19, dtype="int32"), np.zeros((4, 4), "int32")
    interpret(sch.mod, a, c)
    np.testing.assert_array_equal(c.ravel(), [*(a + 1), 6, 6])


# ------------------------------------------------------------------------------------------ refused


def test_padding_from_another_buffer_is_refused():
    def call(sch):
        block = sch.get_block("B")
        other = sch.get(block).reads[0].buffer
        sch.transform_layout(block, "B", tile, pad_value=lambda i, j: other[0])

    refused(COPY, call, "TransformationPaddingExpressionError", "A[0]")


def test_padding_to_multiples_of_a_parameter():
    before = """\
@T.prim_func
def main(a: T.handle, c: T.handle, n: T.int32):
    A = T.match_buffer(a, (14, n))
    C = T.match_buffer(c, (14, n))
    for i, j in T.grid(14, n):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]
"""
    sch = Schedule(parse(before), debug_mask="all")
    n = sch.mod["main"].params[2]
    sch.transform_layout("C", "C", lambda i, j: (i // n, i % n, j), pad_value=7.0)
    a, c = np.random.default_rng(0).random((14, 4), "float32"), np.zeros((4, 4, 4), "float32")
    interpret(sch.mod, a, c, 4)
    np.testing.assert_array_equal(c.reshape(16, 4), [*a, [7] * 4, [7] * 4])


def test_a_divisor_that_may_be_negative_is_refused():
    before = COPY.replace("main(", "main(n: T.int32, ")

    def call(sch):
        n = sch.mod["main"].params[0]
        sch.transform_layout("B", "B", lambda i: (i // n, i % n), pad_value=7)

    words = "its results start at -13, not at 0"
    refused(before, call, "TransformationNotInjectiveError", words)


def test_index_that_no_region_has():
    sch = Schedule(parse(COPY))
    with pytest.raises(ValueError, match=r"1 write region"):
        sch.transform_layout("B", ("write", 3), tile)
    with pytest.raises(ValueError, match="followed by 1 write"):
        sch.transform_layout("B", 2, tile)
    assert not sch.trace.insts


def test_a_number_that_a_function_gives_is_one_in_the_type_of_the_buffer():
    before = COPY.replace("int32", "float16").replace("* 2", "* T.float16(2)")
    sch = Schedule(parse(before))
    sch.transform_layout("B", "B", lambda i: (i // 4, i % 4), pad_value=lambda i, j: 0.5)
    assert "T.float16(0.5)" in sch.mod.script()
