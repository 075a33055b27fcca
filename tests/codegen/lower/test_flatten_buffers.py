"""Vector indices into views become ramps over flat memory."""

from __future__ import annotations

import numpy as np

import codegen
from tensorir import parse
from tensorir.function import PrimFunc


def program(text: str) -> PrimFunc:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


VIEW = """
@T.prim_func
def main(A: T.Buffer((8, 64), "float32"), B: T.Buffer((8, 64), "float32")):
    for i, j, once in T.grid(8, 4, 1):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            vj = T.axis.spatial(4, j + once)
            T.reads(A[vi, vj * 16:vj * 16 + 16])
            T.writes(B[vi, vj * 16:vj * 16 + 16])
            source = T.match_buffer(A[vi, vj * 16:vj * 16 + 16], (16,), offset_factor=1)
            target = T.match_buffer(B[vi, vj * 16:vj * 16 + 16], (16,), offset_factor=1)
            target[T.ramp(0, 1, 16)] = source[{index}] + T.broadcast(T.float32(1), 16)
"""


def test_a_ramp_in_a_view_is_a_ramp_in_its_source() -> None:
    text = codegen.lower(program(VIEW.format(index="T.ramp(0, 1, 16)")), "llvm").script()
    assert "B_1[i * 64 + j * 16:i * 64 + j * 16 + 16]" in text
    assert "A_1[i * 64 + j * 16:i * 64 + j * 16 + 16]" in text


def test_other_vector_indices_lose_the_loops_that_run_once() -> None:
    func = program(VIEW.format(index="T.ramp(0, 2, 16) % T.broadcast(16, 16)"))
    assert "once" not in codegen.lower(func, "llvm").script()
    a, b = np.arange(512, dtype="float32").reshape(8, 64), np.zeros((8, 64), "float32")
    codegen.build(func, "llvm")["main"](a, b)
    expected = a.reshape(8, 4, 16)[:, :, np.arange(0, 32, 2) % 16] + 1
    np.testing.assert_array_equal(b, expected.reshape(8, 64))
