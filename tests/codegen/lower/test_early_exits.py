"""Where a function ends early, what it stored before is in memory."""

from __future__ import annotations

import re

import numpy as np
import pytest

import codegen
from tensorir import parse
from tensorir.interp import InterpreterError, interpret

HEAD = """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), C: T.Buffer((64,), "float32")) -> T.int32:
    T.func_attr({"tir.noalias": True})
"""
EXITS = {
    "T.ret": """
    for k in range(8):
        C[0] = C[0] + A[k]
        if A[k] > T.float32(3):
            T.ret(T.int32(k))
    T.ret(T.int32(100))
""",
    "an assertion that fails": """
    for k in range(8):
        C[0] = C[0] + A[k]
        assert A[k] < T.float32(3), "too large"
    T.ret(T.int32(100))
""",
    "an assertion before the store": """
    for k in range(8):
        assert A[k] < T.float32(3), "too large"
        C[0] = C[0] + A[k]
    T.ret(T.int32(100))
""",
    "accumulators in a vector": """
    for k in range(8):
        for j in T.vectorized(16):
            C[j] = C[j] + A[k]
        if A[k] > T.float32(3):
            T.ret(T.int32(k))
    T.ret(T.int32(100))
""",
    "an assertion between vectors": """
    for k in range(8):
        for j in T.vectorized(16):
            C[j] = C[j] + A[k]
            assert A[k] < T.float32(3), "x"
            C[j+16] = C[j+16] + A[k]
    T.ret(T.int32(100))
""",
    "an assertion that all lanes share": """
    for j in T.vectorized(16):
        C[j] = A[0]
        assert A[4] < T.float32(3), "x"
        C[j+16] = C[j+16] + A[1]
    T.ret(T.int32(100))
""",
    "an assertion in a loop over lanes": """
    for j in T.vectorized(16):
        for k in range(8):
            assert A[k] < T.float32(3), "x"
            C[j] = A[k]
    T.ret(T.int32(100))
""",
    "T.ret in a lane": """
    for j in T.vectorized(16):
        C[j] = A[0]
        if A[j] > T.float32(3):
            T.ret(T.int32(j))
        C[j+16] = C[j+16] + A[1]
    T.ret(T.int32(100))
""",
    "accumulators under conditions": """
    for t in range(3):
        for k in range(8):
            if t < 2:
                for j in T.vectorized(8):
                    if t*8+j < 13:
                        C[t*8+j] = C[t*8+j] + A[k]
            if A[k] > T.float32(3):
                T.ret(T.int32(k))
    T.ret(T.int32(100))
""",
    "a loop in a while loop": """
    k = T.alloc_buffer((1,), "int32")
    k[0] = 0
    while k[0] < 8:
        C[0] = C[0] + A[k[0]]
        for z in range(4):
            C[2] = C[2] + A[z]
            if A[k[0]] > T.float32(3):
                T.ret(k[0])
        k[0] = k[0] + 1
    T.ret(T.int32(100))
""",
    "a library call that raises": """
    for k in range(8):
        C[0] = C[0] + A[k]
        T.call_packed("tests.at_most_3", A[k])
    T.ret(T.int32(100))
""",
    "a value of a library call that raises": """
    for k in range(8):
        C[0] = C[0] + A[k]
        C[1] = C[1] + T.Cast("float32", T.call_packed("tests.at_most_3", A[k], dtype="int32"))
    T.ret(T.int32(100))
""",
}


@codegen.register_func("tests.at_most_3")
def at_most_3(x: float) -> int:
    if x > 3:
        raise ValueError("it is more than 3")
    return 1


@pytest.mark.parametrize("body", EXITS.values(), ids=EXITS)
def test_what_was_stored_before_the_end(body: str) -> None:
    func = parse(HEAD + body)
    compiled = codegen.build(func, "llvm")["main"]
    a = np.array([1, 1, 2, 1, 5, 1, 1, 1] * 2, "float32")
    interpreted, found = np.zeros(64, "float32"), np.zeros(64, "float32")
    try:
        result = interpret(func, a, interpreted)
    except (InterpreterError, codegen.LibraryFunctionError) as error:
        kinds = (codegen.AssertionFailedError, codegen.LibraryFunctionError)
        message = str(error).removeprefix("assertion failed: ")
        with pytest.raises(kinds, match=re.escape(message)):
            compiled(a, found)
    else:
        assert compiled(a, found) == result == 4
    np.testing.assert_array_equal(found, interpreted)
    assert found.any()


def test_loops_that_run_to_their_end_keep_accumulators_in_registers() -> None:
    func = parse(
        HEAD
        + """
    for k in range(8):
        assert A[k] < T.float32(3), "too large"
    for k in range(8):
        C[0] = C[0] + A[k]
    T.ret(0)
"""
    )
    assert "C_reg" in codegen.lower(func, "llvm").script()


SCRATCH = """
    for k in range(8):
        C[0] = C[0] + A[k]
        scratch = T.allocate([{size}], "float32", "global")
        S = T.Buffer(({size},), data=scratch)
        for z in range(8):
            S[7 - z] = A[z] * A[z]
        C[1] = C[1] + S[T.Cast("int32", A[k])]
    T.ret(T.int32(100))
"""


def test_what_was_stored_before_memory_runs_out() -> None:
    func = parse(HEAD + SCRATCH.format(size="k // 4 * T.int64(1 << 50) + 8"))
    a, c = np.arange(16, dtype="float32"), np.zeros(64, "float32")
    with pytest.raises(codegen.ExecutionError, match="could not be allocated"):
        codegen.build(func, "llvm")["main"](a, c)
    assert c[:2].tolist() == [0 + 1 + 2 + 3 + 4, 49 + 36 + 25 + 16]


@pytest.mark.parametrize(
    ("size", "kept"), [("8", True), ("8192", True), ("8193", True), ("k + 8", False)]
)
def test_memory_of_a_constant_size_does_not_run_out_in_the_loop(size: str, kept: bool) -> None:
    lowered = codegen.lower(parse(HEAD + SCRATCH.format(size=size)), "llvm")
    assert ("C_reg" in lowered.script()) is kept
