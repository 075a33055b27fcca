"""Dot products of bytes: a sum of 4 products in each 32-bit lane of a vector.

Vectors of x86 have 16 lanes (AVX-512), those of ARM 4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

from tensorir.function import PrimFunc
from tensorir.script import parse
from tensorir.tensor_intrin import TensorIntrin

_SIGNATURE = """
@T.prim_func
def main(
    A: T.Buffer((4,), "{a}", offset_factor=1),
    B: T.Buffer(({lanes}, 4), "{b}", offset_factor=1{strides}),
    C: T.Buffer(({lanes},), "{c}", offset_factor=1),
):
    with T.block("root"):
        T.reads(C[0:{lanes}], A[0:4], B[0:{lanes}, 0:4])
        T.writes(C[0:{lanes}])
"""
_DESCRIPTION = """
        for i in range({lanes}):
            for k in range(4):
                with T.block("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + T.Cast("{c}", A[vk]) * T.Cast("{c}", B[vi, vk])
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
# One instruction of ARMv8.2, for two operands of the same signedness.
_DOT = """
        C[T.ramp(0, 1, 4)] = {before}T.call_llvm_pure_intrin(
            "{sums}x4",
            "llvm.aarch64.neon.{letter}dot.v4i32.v16i8",
            T.uint32(0),
            {within},
            T.reinterpret(
                "{{b}}x16", T.broadcast(T.reinterpret("int32", A.vload([0], dtype="{{a}}x4")), 4)
            ),
            B.vload([0, 0], dtype="{{b}}x16"),
        ){after}
"""
_LANES = "C[T.ramp(0, 1, 4)]"
_PLAIN: Final = {"before": "", "within": _LANES, "after": ""}
_SDOT = _DOT.format(letter="s", sums="int32", **_PLAIN)
_UDOT = _DOT.format(letter="u", sums="uint32", **_PLAIN)
_UDOT_OF_INT32 = _DOT.format(
    letter="u",
    sums="uint32",
    before='T.reinterpret("int32x4", ',
    within=f'T.reinterpret("uint32x4", {_LANES})',
    after=")",
)
# Without it: products in 16 bits, which hold 128 * 128, pairs of them added in 32 bits, and pairs
# of those.
_NEON = """
        C[T.ramp(0, 1, 4)] = C[T.ramp(0, 1, 4)] + T.call_llvm_pure_intrin(
            "int32x4",
            "llvm.aarch64.neon.addp.v4i32",
            T.uint32(0),
            {lower},
            {upper},
        )
"""
_HALF = """T.call_llvm_pure_intrin(
                "int32x4",
                "llvm.aarch64.neon.saddlp.v4i32.v8i16",
                T.uint32(0),
                T.call_llvm_pure_intrin(
                    "int16x8",
                    "llvm.aarch64.neon.smull.v8i16",
                    T.uint32(0),
                    T.reinterpret(
                        "int8x8",
                        T.broadcast(T.reinterpret("int32", A.vload([0], dtype="int8x4")), 2),
                    ),
                    B.vload([{row}, 0], dtype="int8x8"),
                ),
            )"""


@dataclass(frozen=True)
class _Kind:
    """The dtypes of both factors and of the sums, and how many sums there are."""

    a: str
    b: str
    c: str
    lanes: int

    def program(self, body: str, strides: str = "") -> PrimFunc:
        numbers = {"a": self.a, "b": self.b, "c": self.c, "lanes": self.lanes}
        text = (_SIGNATURE + body).format(**numbers, strides=strides)
        func = parse(text)
        assert isinstance(func, PrimFunc)
        return func


_X86: Final = _Kind("uint8", "int8", "int32", 16)
_SIGNED: Final = _Kind("int8", "int8", "int32", 4)
_UNSIGNED: Final = _Kind("uint8", "uint8", "uint32", 4)
_UNSIGNED_TO_SIGNED: Final = _Kind("uint8", "uint8", "int32", 4)


@cache
def _description(kind: _Kind) -> PrimFunc:
    return kind.program(_DESCRIPTION)


def _with(kind: _Kind, body: str, strides: str = "") -> Callable[[], TensorIntrin]:
    return lambda: TensorIntrin(_description(kind), kind.program(body, strides))


INTRINSICS: Final[dict[str, Callable[[], TensorIntrin]]] = {
    "dot_16x4_vnni": _with(_X86, _VNNI),
    "dot_16x4_avx512": _with(_X86, _AVX512),
    "dot_16x4_portable": _with(_X86, _PORTABLE, ', strides=["row", "column"]'),
    "dot_4x4_i8i8s32_sdot": _with(_SIGNED, _SDOT),
    "dot_4x4_u8u8u32_udot": _with(_UNSIGNED, _UDOT),
    "dot_4x4_u8u8i32_hdot": _with(_UNSIGNED_TO_SIGNED, _UDOT_OF_INT32),
    "dot_4x4_i8i8s32_neon": _with(
        _SIGNED, _NEON.format(lower=_HALF.format(row=0), upper=_HALF.format(row=2))
    ),
}
"""The makers of intrinsics. The portable one runs on every target, and on any layout of `B`."""
