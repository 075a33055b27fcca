"""cache_index of a resize, and in machine code; the rest is in `primitives/cache_index.txt`."""

from __future__ import annotations

import numpy as np

import codegen
from schedule import Schedule
from tensorir import parse
from tensorir.interp import interpret, random_arguments
from tests.schedule.cases import program
from tests.schedule.transformation import apply

GATHER = program("GATHER", "cache_index")


def cache(block, threshold=0, scope="global"):
    return lambda sch: sch.cache_index(block, scope, threshold)


def tables(sch):
    """Return what the tables hold, as text."""
    return [
        str(sch.get(block).body.value)
        for block in sch.get_child_blocks(sch.get_block("root"))
        if sch.get(block).name_hint.startswith("index_")
    ]


def place(axis):
    return f'T.Cast("float32", {axis}) * T.float32(0.5) - T.float32(0.25)'


def floor(axis):
    return f'T.Cast("int32", T.floor({place(axis)}))'


def weight(axis):
    return f'({place(axis)} - T.Cast("float32", {floor(axis)}))'


def row(low, high, weight):
    return f"({low} * (T.float32(1) - {weight}) + {high} * {weight})"


def interpolated(rows, columns, row_weight, column_weight):
    """Return what a resize to twice the size stores, given how it finds indices and weights."""

    def element(i, j):
        i, j = (f"T.max(T.min({index}, 3), 0)" for index in (i, j))
        return f"A[{i}, {j}]"

    both = [row(element(i, columns), element(i, f"{columns} + 1"), column_weight) for i in rows]
    return row(*both, row_weight)


RESIZE = f"""\
@T.prim_func
def main(A: T.Buffer((4, 4)), C: T.Buffer((8, 8))):
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[0:4, 0:4])
            T.writes(C[vi, vj])
            C[vi, vj] = {
    interpolated([floor("vi"), floor("vi") + " + 1"], floor("vj"), weight("vi"), weight("vj"))
}
"""


def test_a_resize_looks_up_its_common_weights_and_indices():
    rows = ["index_var_1[vi]", "index_var_1[vi] + 1"]
    row_weight = f'({place("vi")} - T.Cast("float32", index_var_1[vi]))'
    after = f"""\
@T.prim_func
def main(A: T.Buffer((4, 4)), C: T.Buffer((8, 8))):
    index_var_0 = T.alloc_buffer((8,), "float32", strides=(1,))
    index_var_1 = T.alloc_buffer((8,), "int32", strides=(1,))
    index_var_2 = T.alloc_buffer((8,), "int32", strides=(1,))
    for ax0 in range(8):
        with T.block("index_0"):
            v0 = T.axis.spatial(8, ax0)
            index_var_0[v0] = {weight("v0")}
    for ax0 in range(8):
        with T.block("index_1"):
            v0 = T.axis.spatial(8, ax0)
            index_var_1[v0] = {floor("v0")}
    for ax0 in range(8):
        with T.block("index_2"):
            v0 = T.axis.spatial(8, ax0)
            index_var_2[v0] = {floor("v0")}
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[0:4, 0:4])
            T.writes(C[vi, vj])
            C[vi, vj] = {interpolated(rows, "index_var_2[vj]", row_weight, "index_var_0[vj]")}
"""
    apply(RESIZE, cache("C", 4), after)


def test_occurrences_in_all_larger_expressions_count():
    assert tables(apply(RESIZE, cache("C", 5))) == [floor("v0"), floor("v0")]
    # Of rows there are 6 indices, and 2 weights, all of which begin with the place.
    assert tables(apply(RESIZE, cache("C", 7))) == [floor("v0"), place("v0")]


def test_tables_compile():
    func = parse(GATHER)
    sch = Schedule(func)
    sch.cache_index("C", "global")
    expected = random_arguments(func)
    actual = [a.copy() for a in expected]
    interpret(func, *expected)
    codegen.build(sch.mod, target="llvm")["main"](*actual)
    np.testing.assert_allclose(actual[1], expected[1], rtol=1e-6)
