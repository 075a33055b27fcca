"""Products of bytes, in the layouts that dot product intrinsics take and in others."""

from __future__ import annotations

from tensorir import parse
from tensorir.function import PrimFunc

DENSE = """
@T.prim_func
def main(A: T.Buffer((4, 8), "uint8"), B: T.Buffer((2, 2, 16, 4), "int8"), C: T.Buffer((4, 32), "int32")):
    T.func_attr({"tir.noalias": True})
    for i, j, k in T.grid(4, 32, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vj // 16, vk // 4, vj % 16, vk % 4])
"""
"""The weights are packed: blocks of 16 columns by 4 rows, column by column."""

BLOCKED = """
@T.prim_func
def main(A: T.Buffer((4, 8), "uint8"), B: T.Buffer((2, 2, 16, 4), "int8"), C: T.Buffer((4, 2, 16), "int32")):
    T.func_attr({"tir.noalias": True})
    for i, n0, k0, n1, k1 in T.grid(4, 2, 2, 16, 4):
        with T.block("C"):
            vi, vn0, vk0, vn1, vk1 = T.axis.remap("SSRSR", [i, n0, k0, n1, k1])
            with T.init():
                C[vi, vn0, vn1] = 0
            C[vi, vn0, vn1] = C[vi, vn0, vn1] + T.Cast("int32", A[vi, vk0 * 4 + vk1]) * T.Cast("int32", B[vn0, vk0, vn1, vk1])
"""
"""The same with an axis for every dimension of the weights, and the result in blocks too."""

TRANSPOSED = """
@T.prim_func
def main(A: T.Buffer((4, 8), "uint8"), B: T.Buffer((32, 8), "int8"), C: T.Buffer((4, 32), "int32")):
    T.func_attr({"tir.noalias": True})
    for i, j, k in T.grid(4, 32, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vj, vk])
"""
"""The weights of 16 columns and 4 rows do not lie side by side."""

DENSE_RELU = DENSE.replace(
    'C: T.Buffer((4, 32), "int32")', 'D: T.Buffer((4, 32), "int32")'
).replace(
    '    T.func_attr({"tir.noalias": True})\n',
    '    T.func_attr({"tir.noalias": True})\n    C = T.alloc_buffer((4, 32), "int32")\n',
) + (
    """
    for i, j in T.grid(4, 32):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.max(C[vi, vj], 0)
"""
)


def program(text: str) -> PrimFunc:
    """Parse a function."""
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func
