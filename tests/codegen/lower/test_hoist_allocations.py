"""Scratch memory is allocated once a call and thread."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from tensorir import assert_structural_equal, parse
from tensorir.function import PrimFunc

SIZE = 9000
"""Elements that do not go on the stack."""


def program(body: str) -> PrimFunc:
    func = parse(
        f"""
@T.prim_func
def main(A: T.Buffer(({SIZE},), "float32"), C: T.Buffer((64,), "float32"), n: T.int32):
    T.func_attr({{"tir.noalias": True}})
{body}
"""
    )
    assert isinstance(func, PrimFunc)
    return func


BODY = f"""
            B = T.allocate([{SIZE}], "float32", "global")
            B_1 = T.Buffer(({SIZE},), data=B)
            for k in range({SIZE}):
                B_1[k] = A[k] * T.Cast("float32", i * 8 + j)
            C[i * 8 + j] = B_1[n] + B_1[1]
"""
LOOPS = f"""
    for i in T.parallel(8):
        for j in range(8):{BODY}"""


def hoisted(func: PrimFunc, target: str) -> PrimFunc:
    return codegen.lower(func, target, until="hoist_allocations")


def test_each_iteration_on_threads_has_memory_of_its_own() -> None:
    after = program(
        f"""
    for i in T.parallel(8):
        B = T.allocate([{SIZE}], "float32", "global")
        B_1 = T.Buffer(({SIZE},), data=B)
        for j in range(8):
            for k in range({SIZE}):
                B_1[k] = A[k] * T.Cast("float32", i * 8 + j)
            C[i * 8 + j] = B_1[n] + B_1[1]
"""
    )
    assert_structural_equal(hoisted(program(LOOPS), "llvm -num-cores=2"), after)


def test_one_thread_allocates_once() -> None:
    after = program(
        f"""
    B = T.allocate([{SIZE}], "float32", "global")
    B_1 = T.Buffer(({SIZE},), data=B)
    for i in T.parallel(8):
        for j in range(8):
            for k in range({SIZE}):
                B_1[k] = A[k] * T.Cast("float32", i * 8 + j)
            C[i * 8 + j] = B_1[n] + B_1[1]
"""
    )
    assert_structural_equal(hoisted(program(LOOPS), "llvm -num-cores=1"), after)


@pytest.mark.parametrize("size", ["64", "n + 64"])
def test_what_may_be_registers_or_has_no_constant_size_stays(size: str) -> None:
    func = program(LOOPS.replace(str(SIZE), size).replace(f"range({size})", "range(64)"))
    before = codegen.lower(func, "llvm", until="simplify_control")
    assert_structural_equal(hoisted(func, "llvm"), before)


def test_memory_under_a_condition_is_allocated_under_it() -> None:
    func = program(
        f"""
    if n == 3:
        for i, j in T.grid(8, 8):{BODY}"""
    )
    text = hoisted(func, "llvm").script()
    assert text.index("if n == 3") < text.index("T.allocate") < text.index("for i")


def test_a_thread_allocates_before_its_first_iteration() -> None:
    module = codegen.build(program(LOOPS), "llvm -num-cores=2")
    text = module.inspect_llvm()
    allocated = text.index("@aligned_alloc(i64 64")
    assert text.rindex("define ", 0, allocated) == text.rindex("define ", 0, text.index("phi i64"))
    assert allocated < text.index("phi i64") < text.index("call void @free(")
    a, c = np.arange(SIZE, dtype=np.float32), np.zeros(64, np.float32)
    module["main"](a, c, 5)
    np.testing.assert_array_equal(c, 6 * np.arange(64))
