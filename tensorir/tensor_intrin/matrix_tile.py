"""Products of matrix tiles: Intel AMX multiplies a tile of 16 rows of 64 bytes by another.

The second operand has its rows interleaved: bytes (or pairs of bfloat16) that are multiplied with
the same 32-bit lane of the first operand lie side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tensorir.function import PrimFunc
from tensorir.script import parse
from tensorir.tensor_intrin import TensorIntrin

_PROGRAM = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    a_row = T.int32()
    b_row = T.int32()
    c_row = T.int32()
    A = T.match_buffer(a, (16, {depth}), "{a_type}", offset_factor=1, strides=[a_row, 1])
    B = T.match_buffer(
        b, (16, 16, {lane}), "{b_type}", offset_factor=1, strides=[b_row, {lane}, 1]
    )
    C = T.match_buffer(c, (16, 16), "{c_type}", offset_factor=1, strides=[c_row, 1])
    with T.block("root"):
        T.reads(C[0:16, 0:16], A[0:16, 0:{depth}], B[0:16, 0:16, 0:{lane}])
        T.writes(C[0:16, 0:16])
"""
_DESCRIPTION = """
        for i, j, k in T.grid(16, 16, {depth}):
            with T.block("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + T.Cast("{c_type}", A[vi, vk]) * T.Cast(
                    "{c_type}", B[vk // {lane}, vj, vk % {lane}]
                )
"""
# Three tiles of 16 rows of 64 bytes: palette 1, then the bytes of a row of each tile from byte 16
# on (16 bits each), and the rows of each tile from byte 48 on.
_TILES = """
        shape = T.alloc_buffer((64,), "uint8", scope="local")
        for byte in range(64):
            shape[byte] = T.Cast(
                "uint8",
                T.Select(
                    byte == 0,
                    1,
                    T.Select(
                        byte == 16 or byte == 18 or byte == 20,
                        64,
                        T.Select(48 <= byte and byte < 51, 16, 0),
                    ),
                ),
            )
        T.evaluate(T.call_llvm_intrin("void", "llvm.x86.ldtilecfg", T.uint32(0), shape.data))
        T.evaluate(
            T.call_llvm_intrin(
                "void", "llvm.x86.tileloadd64", T.uint32(0), T.int8(0), T.address_of(C[0, 0]),
                T.Cast("int64", c_row) * T.int64(4),
            )
        )
        T.evaluate(
            T.call_llvm_intrin(
                "void", "llvm.x86.tileloadd64", T.uint32(0), T.int8(1), T.address_of(A[0, 0]),
                T.Cast("int64", a_row) * T.int64({a_bytes}),
            )
        )
        T.evaluate(
            T.call_llvm_intrin(
                "void", "llvm.x86.tileloadd64", T.uint32(0), T.int8(2), T.address_of(B[0, 0, 0]),
                T.Cast("int64", b_row) * T.int64({a_bytes}),
            )
        )
        T.evaluate(
            T.call_llvm_intrin(
                "void", "llvm.x86.{product}", T.uint32(0), T.int8(0), T.int8(1), T.int8(2)
            )
        )
        T.evaluate(
            T.call_llvm_intrin(
                "void", "llvm.x86.tilestored64", T.uint32(0), T.int8(0), T.address_of(C[0, 0]),
                T.Cast("int64", c_row) * T.int64(4),
            )
        )
        T.evaluate(T.call_llvm_intrin("void", "llvm.x86.tilerelease", T.uint32(0)))
"""


def _intrinsic(**kind: object) -> TensorIntrin:
    def program(body: str) -> PrimFunc:
        func = parse((_PROGRAM + body).format(**kind))
        assert isinstance(func, PrimFunc)
        return func

    return TensorIntrin(program(_DESCRIPTION), program(_TILES))


def _bytes() -> TensorIntrin:
    return _intrinsic(
        depth=64,
        lane=4,
        a_bytes=1,
        a_type="uint8",
        b_type="int8",
        c_type="int32",
        product="tdpbusd",
    )


def _bfloat16() -> TensorIntrin:
    return _intrinsic(
        depth=32, lane=2, a_bytes=2, a_type="bfloat16", b_type="bfloat16", c_type="float32",
        product="tdpbf16ps",
    )  # fmt: skip


INTRINSICS: Final[dict[str, Callable[[], TensorIntrin]]] = {
    "amx_16x16x64_u8i8i32": _bytes,
    "amx_16x16x32_bf16bf16f32": _bfloat16,
}
"""The function that makes each intrinsic, by name."""
