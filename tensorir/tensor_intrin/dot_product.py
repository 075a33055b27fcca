"""Dot-product intrinsics on narrow numbers: each 32-bit lane of a vector sums 4 or 2 products.

Vectors of x86 have 16 lanes (AVX-512) or 8 (AVX2), vectors of ARM have 4. A lane holds four bytes
or two 16-bit numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Final

from tensorir.function import PrimFunc
from tensorir.script import parse
from tensorir.tensor_intrin import TensorIntrin

_SIGNATURE = """
@T.prim_func
def main(
    A: T.Buffer(({depth},), "{a}", offset_factor=1),
    B: T.Buffer(({lanes}, {depth}), "{b}", offset_factor=1{strides}),
    C: T.Buffer(({lanes},), "{c}", offset_factor=1),
):
    with T.block("root"):
        T.reads(C[0:{lanes}], A[0:{depth}], B[0:{lanes}, 0:{depth}])
        T.writes(C[0:{lanes}])
"""
_DESCRIPTION = """
        for i in range({lanes}):
            for k in range({depth}):
                with T.block("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + T.Cast("{c}", A[vk]) * T.Cast("{c}", B[vi, vk])
"""
# One instruction multiplies the parts of each 32-bit lane and adds the products to the accumulator.
_INTO_LANES = """
        C[T.ramp(0, 1, {lanes})] = T.call_llvm_pure_intrin(
            "{c}x{lanes}",
            "llvm.x86.{instruction}.{bits}",
            T.uint32(0),
            C[T.ramp(0, 1, {lanes})],
            T.broadcast(T.reinterpret("int32", A.vload([0], dtype="{a}x{depth}")), {lanes}),
            T.reinterpret("int32x{lanes}", B.vload([0, 0], dtype="{b}x{parts}")),
        )
"""
_LANES = "C[T.ramp(0, 1, {lanes})]"


def _call_on_parts(sums: str, *accumulator: str) -> str:
    """Return the call of an instruction whose operands are vectors of the parts of lanes."""
    return f"""T.call_llvm_pure_intrin(
            "{sums}x{{lanes}}",
            "llvm.{{instruction}}",
            {", ".join(("T.uint32(0)", *accumulator))},
            T.reinterpret("{{a}}x{{parts}}", T.broadcast(
                T.reinterpret("int32", A.vload([0], dtype="{{a}}x{{depth}}")), {{lanes}}
            )),
            B.vload([0, 0], dtype="{{b}}x{{parts}}"),
        )"""


_INTO_LANES_OF_PARTS = f"\n        {_LANES} = {_call_on_parts('{c}', _LANES)}\n"
# The instruction returns unsigned sums.
_AS_UNSIGNED = _call_on_parts("uint32", f'T.reinterpret("uint32x{{lanes}}", {_LANES})')
_INTO_SIGNED_LANES = f'\n        {_LANES} = T.reinterpret("{{c}}x{{lanes}}", {_AS_UNSIGNED})\n'
# One instruction multiplies pairs of 16-bit numbers, and another adds. The sum of two products
# wraps only if all four factors are -32768, like 32-bit sums.
_PAIRS = f"\n        {_LANES} = {_LANES} + {_call_on_parts('{c}')}\n"
# Without VNNI: the even and the odd bytes of each lane are extended to 16-bit numbers, multiplied
# in pairs and added in 32 bits. The common alternative, `vpmaddubsw`, saturates sums at 16 bits.
_AVX512 = """
        C[T.ramp(0, 1, 16)] = (
            C[T.ramp(0, 1, 16)]
            + {even}
            + {odd}
        )
"""
_AVX512_HALF = """T.call_llvm_pure_intrin(
                "int32x16",
                "llvm.x86.avx512.pmaddw.d.512",
                T.uint32(0),
                T.reinterpret(
                    "int16x32",
                    T.broadcast(T.Cast("int32", A[{k}]) + T.Cast("int32", A[{k} + 2]) * 65536, 16),
                ),
                T.shift_right({bytes}, T.broadcast(T.int16(8), 32)),
            )"""
_BYTES = 'T.reinterpret("int16x32", B.vload([0, 0], dtype="int8x64"))'
_EVEN_BYTES = f"T.shift_left({_BYTES}, T.broadcast(T.int16(8), 32))"
_PORTABLE = """
        for k in range(4):
            for i in T.vectorized(16):
                C[i] = C[i] + T.Cast("int32", A[k]) * T.Cast("int32", B[i, k])
"""
# ARM without a dot-product instruction: products have 16 bits, enough for 128 * 128. Pairs of
# products are added in 32 bits, and then pairs of these sums.
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
    """The dtypes of both factors and of the sums, the number of sums, and the number of terms in a
    sum.
    """

    a: str
    b: str
    c: str
    lanes: int
    depth: int = 4

    def program(self, body: str, strides: str = "", instruction: str = "") -> PrimFunc:
        sizes = {"parts": self.lanes * self.depth, "bits": self.lanes * 32}
        numbers = {**asdict(self), **sizes, "strides": strides, "instruction": instruction}
        func = parse((_SIGNATURE + body).format(**numbers))
        assert isinstance(func, PrimFunc)
        return func


_X86: Final = _Kind("uint8", "int8", "int32", 16)
_SIGNED: Final = _Kind("int8", "int8", "int32", 4)
_UNSIGNED: Final = _Kind("uint8", "uint8", "uint32", 4)
_UNSIGNED_TO_SIGNED: Final = _Kind("uint8", "uint8", "int32", 4)


def _halves(lanes: int) -> _Kind:
    return _Kind("int16", "int16", "int32", lanes, 2)


def _bfloats(lanes: int) -> _Kind:
    return _Kind("bfloat16", "bfloat16", "float32", lanes, 2)


@cache
def _description(kind: _Kind) -> PrimFunc:
    return kind.program(_DESCRIPTION)


def _implementation(
    kind: _Kind, body: str, instruction: str = "", strides: str = ""
) -> Callable[[], TensorIntrin]:
    return lambda: TensorIntrin(_description(kind), kind.program(body, strides, instruction))


INTRINSICS: Final[dict[str, Callable[[], TensorIntrin]]] = {
    "dot_16x4_vnni": _implementation(_X86, _INTO_LANES, "avx512.vpdpbusd"),
    "dot_8x4_vnni": _implementation(replace(_X86, lanes=8), _INTO_LANES, "avx512.vpdpbusd"),
    "dot_8x4_i8i8s32_vnniint8": _implementation(
        replace(_SIGNED, lanes=8), _INTO_LANES, "avx2.vpdpbssd"
    ),
    "dot_16x4_avx512": _implementation(
        _X86,
        _AVX512.format(
            even=_AVX512_HALF.format(k=0, bytes=_EVEN_BYTES),
            odd=_AVX512_HALF.format(k=1, bytes=_BYTES),
        ),
    ),
    "dot_16x4_portable": _implementation(_X86, _PORTABLE, strides=', strides=["row", "column"]'),
    "dot_16x2_i16i16s32_avx512": _implementation(_halves(16), _PAIRS, "x86.avx512.pmaddw.d.512"),
    "dot_8x2_i16i16s32_avx2": _implementation(_halves(8), _PAIRS, "x86.avx2.pmadd.wd"),
    "dot_16x2_bf16bf16f32_avx512": _implementation(
        _bfloats(16), _INTO_LANES_OF_PARTS, "x86.avx512bf16.dpbf16ps.512"
    ),
    "dot_8x2_bf16bf16f32_avx512": _implementation(
        _bfloats(8), _INTO_LANES_OF_PARTS, "x86.avx512bf16.dpbf16ps.256"
    ),
    "dot_4x4_i8i8s32_sdot": _implementation(
        _SIGNED, _INTO_LANES_OF_PARTS, "aarch64.neon.sdot.v4i32.v16i8"
    ),
    "dot_4x4_u8u8u32_udot": _implementation(
        _UNSIGNED, _INTO_LANES_OF_PARTS, "aarch64.neon.udot.v4i32.v16i8"
    ),
    "dot_4x4_u8u8i32_hdot": _implementation(
        _UNSIGNED_TO_SIGNED, _INTO_SIGNED_LANES, "aarch64.neon.udot.v4i32.v16i8"
    ),
    "dot_4x4_u8i8s32_usdot": _implementation(
        replace(_X86, lanes=4), _INTO_LANES_OF_PARTS, "aarch64.neon.usdot.v4i32.v16i8"
    ),
    "dot_4x2_bf16bf16f32_bfdot": _implementation(
        _bfloats(4), _INTO_LANES_OF_PARTS, "aarch64.neon.bfdot.v4f32.v8bf16"
    ),
    "dot_4x4_i8i8s32_neon": _implementation(
        _SIGNED, _NEON.format(lower=_HALF.format(row=0), upper=_HALF.format(row=2))
    ),
}
"""The functions that create intrinsics, by name.

The portable intrinsic supports every target and layout of `B`.
"""
