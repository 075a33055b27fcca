"""Control flow, from script text."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
import tensorir
from codegen.errors import AssertionFailedError, CodegenError


def build(text: str, **options: object) -> codegen.Module:
    return codegen.build(tensorir.parse(text), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_loops_over_symbolic_and_empty_ranges(dtype: str) -> None:
    f = build(
        f"""
@T.prim_func
def f(A: T.Buffer((40,), "int32"), low: T.{dtype}, high: T.{dtype}):
    for i in range(low, high):
        A[i] = T.Cast("int32", i) * 3
"""
    )["f"]
    for low, high in ((0, 40), (5, 6), (7, 7), (9, 3) if dtype != "uint8" else (0, 0)):
        a = np.zeros(40, np.int32)
        f(a, low, high)
        expected = np.zeros(40, np.int32)
        expected[low:high] = np.arange(low, max(low, high)) * 3
        assert a.tolist() == expected.tolist()


def test_loop_variables_below_zero() -> None:
    f = build(
        """
@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    for i in range(-4, 4):
        A[i + 4] = T.floordiv(i, 3) * 10 + T.floormod(i, 3)
"""
    )["f"]
    a = np.zeros(8, np.int32)
    f(a)
    assert a.tolist() == [i // 3 * 10 + i % 3 for i in range(-4, 4)]


def test_while_runs_until_its_condition_fails() -> None:
    f = build(
        """
@T.prim_func
def f(A: T.Buffer((2,), "int32")):
    while A[0] > 1:
        A[0] = T.if_then_else(T.truncmod(A[0], 2) == 0, T.truncdiv(A[0], 2), A[0] * 3 + 1)
        A[1] = A[1] + 1
"""
    )["f"]
    a = np.array([27, 0], np.int32)
    f(a)
    assert a.tolist() == [1, 111]


def test_branches() -> None:
    f = build(
        """
@T.prim_func
def f(A: T.Buffer((6,), "int32")):
    for i in range(6):
        if i < 2:
            A[i] = 1
        else:
            if i == 3:
                A[i] = 2
            else:
                A[i] = 3
"""
    )["f"]
    a = np.zeros(6, np.int32)
    f(a)
    assert a.tolist() == [1, 1, 3, 2, 3, 3]


def test_failed_assertion_raises_with_its_message_and_frees_memory() -> None:
    module = build(
        """
@T.prim_func
def f(A: T.Buffer((4,), "int32"), n: T.int32):
    data = T.allocate([100000], "int32", "global")
    tmp = T.Buffer((100000,), "int32", data=data)
    tmp[0] = n
    assert n < 4, "n is too large"
    assert n >= 0, "n is negative"
    tmp[n] = 1
    A[n] = tmp[n]
"""
    )
    a = np.zeros(4, np.int32)
    module["f"](a, 3)
    assert a.tolist() == [0, 0, 0, 1]
    with pytest.raises(AssertionFailedError, match="f: n is too large"):
        module["f"](a, 5)
    with pytest.raises(AssertionError, match="f: n is negative"):
        module["f"](a, -1)
    llvm = module.inspect_llvm(optimized_form=False)
    assert llvm.count("call void @free") == 3


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("int32", "A[0] * 2", 42),
        ("float32", "T.Cast('float32', A[0]) * T.float32(0.5)", 10.5),
        ("bool", "A[0] > 20", True),
        ("int64", "T.int64(-5)", -5),
    ],
)
def test_ret_gives_a_value(dtype: str, value: str, expected: object) -> None:
    f = build(
        f"""
@T.prim_func
def f(A: T.Buffer((1,), "int32")) -> T.{dtype}:
    T.ret({value})
"""
    )["f"]
    assert f(np.array([21], np.int32)) == expected


def test_functions_call_one_another() -> None:
    module = build(
        """
@I.ir_module
class M:
    @T.prim_func(private=True)
    def scale(A: T.Buffer((4,), "float32"), factor: T.float32):
        for i in range(4):
            A[i] = A[i] * factor

    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "main"})
        M.scale(A.data, T.float32(3))
        A[0] = A[0] + T.float32(1)
"""
    )
    assert list(module) == ["main"]
    a = np.arange(4, dtype=np.float32)
    module["main"](a)
    assert a.tolist() == [1.0, 3.0, 6.0, 9.0]


def test_an_assertion_in_a_called_function_stops_the_caller() -> None:
    module = build(
        """
@I.ir_module
class M:
    @T.prim_func
    def inner(n: T.int32):
        T.func_attr({"global_symbol": "inner"})
        assert n < 3, "inner refuses"
        T.evaluate(0)

    @T.prim_func
    def outer(A: T.Buffer((1,), "int32"), n: T.int32):
        T.func_attr({"global_symbol": "outer"})
        M.inner(n)
        A[0] = n
"""
    )
    a = np.zeros(1, np.int32)
    module["outer"](a, 2)
    assert a[0] == 2
    with pytest.raises(AssertionFailedError, match="outer: inner refuses"):
        module["outer"](a, 3)
    assert a[0] == 2


def test_thread_bound_loops_are_refused() -> None:
    f = tensorir.parse(
        """
@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    for i in T.thread_binding(8, thread="threadIdx.x"):
        A[i] = 0
"""
    )
    with pytest.raises(CodegenError, match=r"threadIdx\.x"):
        codegen.build(f)


def test_accumulators_of_an_unrolled_tile_live_in_registers() -> None:
    module = build(
        """
@T.prim_func
def f(A: T.Buffer((4096,), "float32"), B: T.Buffer((4096,), "float32"), C: T.Buffer((256,), "float32")):
    T.func_attr({"tir.noalias": True})
    for i, j in T.grid(4, 2):
        for j1 in T.vectorized(8):
            C[(i * 2 + j) * 8 + j1] = T.float32(0)
    for k in range(64):
        for i in T.unroll(4):
            for j in T.unroll(2):
                for j1 in T.vectorized(8):
                    C[(i * 2 + j) * 8 + j1] = C[(i * 2 + j) * 8 + j1] + A[i * 64 + k] * B[k * 64 + j * 8 + j1]
"""
    )
    llvm = module.inspect_llvm()
    kernel, entry = "i32 @tensorir.kernel.f(", "i32 @tensorir.entry.f("
    body = llvm[llvm.index(kernel) : llvm.index(entry)]
    assert body.count("phi <8 x float>") == 8
    assert "alloca" not in body
