"""Calls and statements as machine code."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from kernels import elementwise

import codegen
import tensorir
from codegen.errors import AssertionFailedError, CodegenError, LinkError
from tensorir.errors import DiagnosticError
from tensorir.nodes.expr import Call, StringImm
from tensorir.nodes.intrin import Op
from tensorir.nodes.ops import const, intrinsic

# ----------------------------------- Calls to C, to LLVM's intrinsics, and what pointers are passed


def build(text: str) -> codegen.Module:
    return codegen.build(tensorir.parse(text))


def test_extern_functions_of_the_c_library() -> None:
    f = build(
        """
@T.prim_func
def f(A: T.Buffer((4,), "float64"), B: T.Buffer((4,), "float64"), n: T.Buffer((1,), "int64")):
    for i in range(4):
        B[i] = T.call_pure_extern("float64", "cbrt", A[i])
    T.evaluate(T.call_extern("handle", "memset", A.data, 0, T.int64(16)))
    n[0] = T.call_extern("int64", "strlen", "twelve chars")
"""
    )["f"]
    a, b, n = np.array([1.0, 8.0, 27.0, 64.0]), np.zeros(4), np.zeros(1, np.int64)
    f(a, b, n)
    assert np.allclose(b, [1, 2, 3, 4])
    assert a.tolist() == [0.0, 0.0, 27.0, 64.0]
    assert n[0] == 12


def test_narrow_integers_are_extended_by_their_own_sign() -> None:
    func = tensorir.parse(
        """
@T.prim_func
def f(A: T.Buffer((1,), "int8"), B: T.Buffer((1,), "uint8"), C: T.Buffer((2,), "int32")):
    C[0] = T.call_extern("int32", "abs", A[0])
    C[1] = T.call_extern("int32", "abs", B[0])
"""
    )
    found = np.zeros(2, np.int32)
    codegen.build(func)["f"](np.int8([-5]), np.uint8([251]), found)
    assert found.tolist() == [5, 251]


def test_registered_functions_and_addresses_of_elements() -> None:
    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_int32), ctypes.c_int8)
    def sum_and_offset(pointer: ctypes._Pointer[ctypes.c_int32], offset: int) -> int:
        return pointer[0] + pointer[1] + offset

    codegen.register_extern("test_sum_and_offset", sum_and_offset)
    f = build(
        """
@T.prim_func
def f(A: T.Buffer((4,), "int32"), B: T.Buffer((2,), "int32")):
    B[0] = T.call_extern("int32", "test_sum_and_offset", T.address_of(A[2]), T.int8(-1))
    B[1] = T.call_extern("int32", "test_sum_and_offset", T.tvm_access_ptr(T.type_annotation("int32"), A.data, 1, 3, 1), T.int8(5))
"""
    )["f"]
    b = np.zeros(2, np.int32)
    f(np.array([1, 10, 100, 1000], np.int32), b)
    assert b.tolist() == [1099, 115]


def test_a_c_function_is_not_called_as_an_intrinsic() -> None:
    with pytest.raises(DiagnosticError, match="unknown LLVM intrinsic 'getpid'"):
        build("""
@T.prim_func
def f(A: T.Buffer((1,), "int32")):
    A[0] = T.call_llvm_intrin("int32", "getpid")
""")


def test_unknown_extern_is_named_when_building() -> None:
    with pytest.raises(LinkError, match=r"C function 'no_such_function_anywhere'.*register_extern"):
        build(
            """
@T.prim_func
def f(A: T.Buffer((1,), "int32")):
    A[0] = T.call_extern("int32", "no_such_function_anywhere")
"""
        )


@pytest.mark.parametrize("lanes", [1, 8])
def test_llvm_intrinsics_by_name(lanes: int) -> None:
    def call(dtype: str, name: str, *args: tensorir.PrimExpr) -> tensorir.PrimExpr:
        count = const(len(args), "uint32")
        return Call(dtype, Op.get("call_llvm_pure_intrin"), [StringImm(name), count, *args])

    x = np.array([1.5, -2.5, 3.25, 0.0, 9.0, 16.0, -7.75, 100.0], np.float32)
    kind = "float32" if lanes == 1 else f"float32x{lanes}"
    fused, size = elementwise(
        lambda v: [call(kind, "llvm.fma", v, v, v), call(kind, "llvm.fabs", v)], ["float32"], lanes
    )(x)
    assert np.allclose(fused, x * x + x)
    assert np.array_equal(size, np.abs(x))


def test_wrong_intrinsic_is_an_error_of_the_build() -> None:
    with pytest.raises(CodegenError, match=r"LLVM rejects|cannot"):
        elementwise(
            lambda v: Call("float32", Op.get("call_llvm_pure_intrin"), [StringImm("llvm.nope"), v]),
            ["float32"],
        )


def test_reinterpret_keeps_bits() -> None:
    x = np.array([1.0, -0.0, np.inf, 1e-45], np.float32)
    (bits,) = elementwise(lambda v: intrinsic("reinterpret", v, dtype="uint32"), ["float32"])(x)
    assert bits.tolist() == x.view(np.uint32).tolist()
    (half,) = elementwise(lambda v: intrinsic("reinterpret", v, dtype="uint16"), ["float16"])(
        x.astype(np.float16)
    )
    assert half.tolist() == x.astype(np.float16).view(np.uint16).tolist()


def test_fixed_point_multiplication() -> None:
    x = np.array([1000, -1000, 123456, 7], np.int32)

    def make(v: tensorir.PrimExpr) -> tensorir.PrimExpr:
        # 0.75 with 31 fractional bits, shifted right once
        return intrinsic("q_multiply_shift", v, const(3 << 29), const(31), const(-1), dtype="int32")

    (got,) = elementwise(make, ["int32"])(x)
    assert got.tolist() == [375, -375, 46296, 3]


def test_assumptions_and_hints_change_nothing() -> None:
    f = build(
        """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), n: T.int32):
    T.evaluate(T.assume(n < 8))
    if T.likely(n > 2):
        A[n] = T.if_then_else(n > 4, A[n - 1], A[n - 2]) + 1
"""
    )["f"]
    a = np.arange(8, dtype=np.int32)
    f(a, 5)
    f(a, 3)
    f(a, 1)
    assert a.tolist() == [0, 1, 2, 2, 4, 5, 6, 7]


CALLER = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def twice(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            B[i] = A[i] * T.float32(2)

    @T.prim_func
    def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        Module.twice(A.data, T.address_of(B[1]){extents})
"""


def test_sizes_of_the_callee_follow_its_arguments() -> None:
    f = codegen.build(tensorir.parse(CALLER.replace("{extents}", ", T.int64(3)")))["main"]
    b = np.zeros(4, np.float32)
    f(np.arange(4, dtype=np.float32), b)
    assert b.tolist() == [0, 0, 2, 4]


def test_missing_sizes_of_the_callee_are_named() -> None:
    with pytest.raises(
        CodegenError, match=r"twice has 2 parameters, followed by the sizes \['n'\] of its shapes"
    ):
        codegen.build(tensorir.parse(CALLER.replace("{extents}", "")))


def test_what_a_callee_only_reads_is_not_written() -> None:
    f = codegen.build(tensorir.parse(CALLER.replace("{extents}", ", T.int64(3)")))["main"]
    assert [p.written for p in f.signature.parameters] == [False, True]


# ------------------------------------------------------------------- Control flow, from script text


def stmt_build(text: str, **options: object) -> codegen.Module:
    return codegen.build(tensorir.parse(text), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_loops_over_symbolic_and_empty_ranges(dtype: str) -> None:
    f = stmt_build(
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


def test_failed_assertion_raises_with_its_message_and_frees_memory() -> None:
    module = stmt_build(
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
    f = stmt_build(
        f"""
@T.prim_func
def f(A: T.Buffer((1,), "int32")) -> T.{dtype}:
    T.ret({value})
"""
    )["f"]
    assert f(np.array([21], np.int32)) == expected
