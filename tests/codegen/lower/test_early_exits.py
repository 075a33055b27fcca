"""Where a function ends early, what it stored before is in memory."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import numpy as np
import pytest

import codegen
from tensorir import parse
from tensorir.interp import InterpreterError, interpret
from tests.text_cases import TextCase, each_case

HEAD = """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), C: T.Buffer((64,), "float32")) -> T.int32:
    T.func_attr({"tir.noalias": True})
"""


@codegen.register_func("tests.at_most_3")
def at_most_3(x: float) -> int:
    if x > 3:
        raise ValueError("it is more than 3")
    return 1


@each_case(Path(__file__).with_name("early_exits.txt"))
def test_what_was_stored_before_the_end(case: TextCase, pytestconfig: pytest.Config) -> None:
    func = parse(HEAD + textwrap.indent(case.before, "    "))
    compiled = codegen.build(func, "llvm")["main"]
    a = np.array([1, 1, 2, 1, 5, 1, 1, 1] * 2, "float32")
    interpreted, found = np.zeros(64, "float32"), np.zeros(64, "float32")
    try:
        outcome = str(interpret(func, a, interpreted))
    except (InterpreterError, codegen.LibraryFunctionError) as error:
        outcome = str(error).removeprefix("assertion failed: ")
        kinds = (codegen.AssertionFailedError, codegen.LibraryFunctionError)
        with pytest.raises(kinds, match=re.escape(outcome)):
            compiled(a, found)
    else:
        assert str(compiled(a, found)) == outcome
    case.check(outcome, pytestconfig)
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
