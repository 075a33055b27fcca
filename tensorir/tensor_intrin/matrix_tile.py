"""Products of matrix tiles: Intel AMX multiplies a tile of 16 rows of 64 bytes by another.

The second operand has its rows interleaved: bytes (or pairs of bfloat16) that are multiplied with
the same 32-bit lane of the first operand lie side by side.

Eight tile registers hold a result of 32 x 32 numbers in four of them, while two tiles of each
operand at a time are loaded: every tile that is loaded is multiplied twice. Instructions name their
registers, so a result that stays in them for a long sum is one intrinsic with a loop inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

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


_LONG_PROGRAM = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    a_row = T.int32()
    b_row = T.int32()
    c_row = T.int32()
    A = T.match_buffer(a, (32, {depth}), "{a_type}", offset_factor=1, strides=[a_row, 1])
    B = T.match_buffer(
        b, ({groups}, 32, {lane}), "{b_type}", offset_factor=1, strides=[b_row, {lane}, 1]
    )
    C = T.match_buffer(c, (32, 32), "{c_type}", offset_factor=1, strides=[c_row, 1])
    with T.block("root"):
        T.reads(C[0:32, 0:32], A[0:32, 0:{depth}], B[0:{groups}, 0:32, 0:{lane}])
        T.writes(C[0:32, 0:32])
"""
_LONG_DESCRIPTION = _DESCRIPTION.replace("T.grid(16, 16, {depth})", "T.grid(32, 32, {depth})")


def _move(name: str, tile: int, place: str, row: str) -> str:
    """Return a load or store of a tile of 16 rows, which lie `row` bytes apart."""
    return (
        f'T.evaluate(T.call_llvm_intrin("void", "llvm.x86.{name}", T.uint32(0), T.int8({tile}), '
        f"T.address_of({place}), {row}))"
    )


def _long_tiles() -> str:
    """Return the body that keeps the four tiles of a result in registers 0 to 3."""
    configure, rest = _TILES.split("        T.evaluate(\n", 1)
    shape = configure.replace(
        "byte == 16 or byte == 18 or byte == 20", "16 <= byte and byte < 32 and byte % 2 == 0"
    ).replace("48 <= byte and byte < 51", "48 <= byte and byte < 56")
    release = rest[rest.rindex("        T.evaluate(") :]
    c_row, b_row, a_row = (
        f'T.Cast("int64", {row}) * T.int64({size})'
        for row, size in (("c_row", "4"), ("b_row", "{a_bytes}"), ("a_row", "{a_bytes}"))
    )
    corners = [(2 * i + j, f"C[{16 * i}, {16 * j}]") for i in range(2) for j in range(2)]
    lines = [_move("tileloadd64", tile, place, c_row) for tile, place in corners]
    lines.append("for k in range({steps}):")
    inside = [
        *(_move("tileloadd64", 4 + i, f"A[{16 * i}, k * {{deep}}]", a_row) for i in range(2)),
        *(_move("tileloadd64", 6 + j, f"B[k * 16, {16 * j}, 0]", b_row) for j in range(2)),
        *(
            f'T.evaluate(T.call_llvm_intrin("void", "llvm.x86.{{product}}", T.uint32(0), '
            f"T.int8({2 * i + j}), T.int8({4 + i}), T.int8({6 + j})))"
            for i in range(2)
            for j in range(2)
        ),
    ]
    lines += [f"    {line}" for line in inside]
    lines += [_move("tilestored64", tile, place, c_row) for tile, place in corners]
    return shape + "".join(f"        {line}\n" for line in lines) + release


def _long(kind: Mapping[str, Any], steps: int) -> TensorIntrin:
    """Return the product of 32 rows by 32 columns over `steps` tiles of the reduction."""
    deep = int(kind["depth"])
    numbers = {**kind, "depth": deep * steps, "groups": 16 * steps, "steps": steps, "deep": deep}

    def program(body: str) -> PrimFunc:
        func = parse((_LONG_PROGRAM + body).format(**numbers))
        assert isinstance(func, PrimFunc)
        return func

    return TensorIntrin(program(_LONG_DESCRIPTION), program(_long_tiles()))


def _intrinsic(**kind: object) -> TensorIntrin:
    def program(body: str) -> PrimFunc:
        func = parse((_PROGRAM + body).format(**kind))
        assert isinstance(func, PrimFunc)
        return func

    return TensorIntrin(program(_DESCRIPTION), program(_TILES))


_BYTES: Final[dict[str, Any]] = {
    "depth": 64,
    "lane": 4,
    "a_bytes": 1,
    "a_type": "uint8",
    "b_type": "int8",
    "c_type": "int32",
    "product": "tdpbusd",
}
_SIGNED: Final = {**_BYTES, "a_type": "int8", "product": "tdpbssd"}
_BFLOATS: Final[dict[str, Any]] = {
    "depth": 32,
    "lane": 2,
    "a_bytes": 2,
    "a_type": "bfloat16",
    "b_type": "bfloat16",
    "c_type": "float32",
    "product": "tdpbf16ps",
}
STEPS: Final = (16, 8, 4, 2, 1)
"""The tiles of the reduction that the long intrinsics sum up."""

INTRINSICS: Final[dict[str, Callable[[], TensorIntrin]]] = {
    "amx_16x16x64_u8i8i32": partial(_intrinsic, **_BYTES),
    "amx_16x16x32_bf16bf16f32": partial(_intrinsic, **_BFLOATS),
    **{
        f"amx_32x32x{kind['depth'] * steps}_{types}": partial(_long, kind, steps)
        for kind, types in (
            (_BYTES, "u8i8i32"),
            (_SIGNED, "i8i8i32"),
            (_BFLOATS, "bf16bf16f32"),
        )
        for steps in STEPS
    },
}
"""The function that makes each intrinsic, by name."""
