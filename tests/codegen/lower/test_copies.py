"""Copies of statements: constants in their types, variables bound anew, layouts that depend on axes."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from tensorir import parse
from tensorir.function import PrimFunc
from tensorir.interp import interpret


def compiled_is_as_interpreted(text: str, dtype: str, shape: tuple[int, ...]) -> None:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    found = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    expected = found.copy()
    interpret(func, expected)
    codegen.build(func, "llvm")["main"](found)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "value",
    [
        'T.Cast("int8", j) + T.int8(1)',
        'T.Cast("int8", j + 127) + T.int8(1)',
        "B[j] + T.int8(1)",
        'T.min(T.Cast("int8", j), T.int8(1)) // T.int8(2)',
    ],
)
def test_unrolled_constants_keep_their_type(value: str) -> None:
    text = f"""
@T.prim_func
def main(B: T.Buffer((4,), "int8")):
    for j in T.unroll(4):
        B[j] = {value}
"""
    compiled_is_as_interpreted(text, "int8", (4,))


@pytest.mark.parametrize("kind", ["unroll", "vectorized", "serial"])
def test_each_copy_binds_a_variable_anew(kind: str) -> None:
    text = f"""
@T.prim_func
def main(B: T.Buffer((8,), "int32")):
    for j in T.{kind}(8):
        v = T.int32()
        B[j] = T.Let(B[v + 1], where={{v: (j * 3) % 7}})
"""
    compiled_is_as_interpreted(text, "int32", (8,))


def test_an_allocation_as_large_as_an_axis_says() -> None:
    text = """
@T.prim_func
def main(B: T.Buffer((4, 4), "int32")):
    for i in range(4):
        with T.block("row"):
            vi = T.axis.spatial(4, i)
            row = T.alloc_buffer((vi + 1,), "int32")
            for j in range(vi + 1):
                row[j] = B[vi, j] * 2
            for j in range(vi + 1):
                B[vi, j] = row[vi - j]
"""
    compiled_is_as_interpreted(text, "int32", (4, 4))


def test_a_written_buffer_without_reads() -> None:
    text = """
@T.prim_func
def main(B: T.Buffer((8,), "int32")):
    C = T.alloc_buffer((8,), "int32")
    with T.block("outer"):
        for j in range(8):
            with T.block("inner"):
                v = T.axis.spatial(8, j)
                C[v] = B[v]
    for i in range(8):
        B[i] = B[i] + i
"""
    compiled_is_as_interpreted(text, "int32", (8,))
