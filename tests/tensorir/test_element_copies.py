"""NumPy runs functions that only copy elements; other functions are left to a compiler."""

import numpy as np
import pytest

from tensorir import T, parse
from tensorir.memory import element_copies
from tensorir.memory.element_copies import ElementCopies


@pytest.mark.parametrize("at_once", [1 << 20, 5])
def test_a_function_that_packs_two_weights(monkeypatch, at_once):
    @T.prim_func
    def pack(
        W: T.Buffer((6, 4), "float32"),
        bias: T.Buffer((1, 4), "float32"),
        panels: T.Buffer((2, 6, 2), "float32"),
        row: T.Buffer((4,), "float32"),
    ):
        for i, j in T.grid(6, 4):
            with T.block("panels"):
                vi, vj = T.axis.remap("SS", [i, j])
                panels[vj // 2, vi, vj % 2] = W[vi, vj]
        for i, j in T.grid(1, 4):
            with T.block("row"):
                vi, vj = T.axis.remap("SS", [i, j])
                row[vj] = bias[vi, vj]

    monkeypatch.setattr(element_copies, "_AT_ONCE", at_once)
    weight = np.arange(6 * 4, dtype="float32").reshape(6, 4)
    panels, row = np.empty((2, 6, 2), "float32"), np.empty(4, "float32")
    ElementCopies.of(pack).run([weight, weight[:1], panels, row])
    np.testing.assert_array_equal(panels, weight.reshape(6, 2, 2).transpose(1, 0, 2))
    np.testing.assert_array_equal(row, weight[0])


def test_a_row_for_all_rows():
    @T.prim_func
    def repeat(row: T.Buffer((4,), "int8"), whole: T.Buffer((3, 4), "int8")):
        for i, j in T.grid(3, 4):
            with T.block("whole"):
                vi, vj = T.axis.remap("SS", [i, j])
                whole[vi, vj] = row[3 - vj]

    whole = np.empty((3, 4), "int8")
    ElementCopies.of(repeat).run([np.arange(4, dtype="int8"), whole])
    np.testing.assert_array_equal(whole, [[3, 2, 1, 0]] * 3)


@pytest.mark.parametrize(
    ("axis", "value"),
    [
        ("spatial", "A[vi] + T.float32(1)"),
        ("spatial", "T.if_then_else(vi < 3, A[vi], T.float32(0))"),
        ("spatial", "A[T.Cast('int32', A[vi])]"),
        ("reduce", "A[vi]"),
    ],
)
def test_functions_that_do_more_than_copying(axis, value):
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.{axis}(4, i)
            B[vi] = {value}
""")
    assert ElementCopies.of(func) is None


@pytest.mark.parametrize("index", ["vi + 1", "vi - 1"])
def test_indices_outside_of_a_buffer_are_left_to_others(index):
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[{index}]
""")
    arrays = [np.arange(4, dtype="float32"), np.zeros(4, "float32")]
    assert not ElementCopies.of(func).run(arrays)


@pytest.mark.parametrize("start", ["", "with T.init():\n                A[0] = T.float32(5)"])
def test_elements_of_one_buffer_and_init_are_left_to_others(start):
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            {start}
            {"B[vi] = A[vi]" if start else "A[vi] = A[3 - vi]"}
""")
    assert ElementCopies.of(func) is None
