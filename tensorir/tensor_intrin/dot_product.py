"""Dot products of bytes: 16 sums of 4 products each, accumulated in 32 bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

from tensorir.function import PrimFunc
from tensorir.script import parse
from tensorir.tensor_intrin import TensorIntrin

_SIGNATURE = """
@T.prim_func
def main(
    A: T.Buffer((4,), "uint8", offset_factor=1),
    B: T.Buffer((16, 4), "int8", offset_factor=1{strides}),
    C: T.Buffer((16,), "int32", offset_factor=1),
):
    with T.block("root"):
        T.reads(C[0:16], A[0:4], B[0:16, 0:4])
        T.writes(C[0:16])
"""
_DESCRIPTION = """
        for i in range(16):
            for k in range(4):
                with T.block("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + T.Cast("int32", A[vk]) * T.Cast("int32", B[vi, vk])
"""
# One instruction multiplies unsigned by signed bytes and adds the four products of each 32-bit lane
# to the accumulator.
_VNNI = """
        C[T.ramp(0, 1, 16)] = T.call_llvm_pure_intrin(
            "int32x16",
            "llvm.x86.avx512.vpdpbusd.512",
            T.uint32(0),
            C[T.ramp(0, 1, 16)],
            T.broadcast(T.reinterpret("int32", A.vload([0], dtype="uint8x4")), 16),
            T.reinterpret("int32x16", B.vload([0, 0], dtype="int8x64")),
        )
"""
# Without that instruction: the even and the odd bytes of each lane as 16-bit numbers, multiplied in
# pairs and added in 32 bits. `vpmaddubsw`, the usual way, saturates sums at 16 bits.
_AVX512 = """
        C[T.ramp(0, 1, 16)] = (
            C[T.ramp(0, 1, 16)]
            + T.call_llvm_pure_intrin(
                "int32x16",
                "llvm.x86.avx512.pmaddw.d.512",
                T.uint32(0),
                T.reinterpret(
                    "int16x32",
                    T.broadcast(T.Cast("int32", A[0]) + T.Cast("int32", A[2]) * 65536, 16),
                ),
                T.shift_right(
                    T.shift_left(
                        T.reinterpret("int16x32", B.vload([0, 0], dtype="int8x64")),
                        T.broadcast(T.int16(8), 32),
                    ),
                    T.broadcast(T.int16(8), 32),
                ),
            )
            + T.call_llvm_pure_intrin(
                "int32x16",
                "llvm.x86.avx512.pmaddw.d.512",
                T.uint32(0),
                T.reinterpret(
                    "int16x32",
                    T.broadcast(T.Cast("int32", A[1]) + T.Cast("int32", A[3]) * 65536, 16),
                ),
                T.shift_right(
                    T.reinterpret("int16x32", B.vload([0, 0], dtype="int8x64")),
                    T.broadcast(T.int16(8), 32),
                ),
            )
        )
"""
_PORTABLE = """
        for k in range(4):
            for i in T.vectorized(16):
                C[i] = C[i] + T.Cast("int32", A[k]) * T.Cast("int32", B[i, k])
"""


def _program(body: str, strides: str = "") -> PrimFunc:
    func = parse(_SIGNATURE.format(strides=strides) + body)
    assert isinstance(func, PrimFunc)
    return func


@cache
def _description() -> PrimFunc:
    return _program(_DESCRIPTION)


def _with(body: str, strides: str = "") -> Callable[[], TensorIntrin]:
    return lambda: TensorIntrin(_description(), _program(body, strides))


INTRINSICS: Final[dict[str, Callable[[], TensorIntrin]]] = {
    "dot_16x4_vnni": _with(_VNNI),
    "dot_16x4_avx512": _with(_AVX512),
    "dot_16x4_portable": _with(_PORTABLE, ', strides=["row", "column"]'),
}
"""What makes each intrinsic. The portable one runs on every target, and on any layout of `B`."""
