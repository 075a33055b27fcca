"""Matrix-tile intrinsics: Intel AMX multiplies two tiles of 16 rows of 64 bytes.

The second operand has interleaved rows: bytes (or pairs of bfloat16) that are multiplied with the
same 32-bit lane of the first operand are adjacent.

There are eight tile registers: four hold a result of 32 x 32 numbers, and four hold two tiles of
each operand, so that every loaded tile is multiplied twice. Instructions name their registers, so a
result that stays in registers for a long sum is one intrinsic with a loop inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from typing import Any, Final

from tensorir.script import parse
from tensorir.tensor_intrin import TensorIntrin

_SIGNATURE = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    a_row = T.int32()
    b_row = T.int32()
    c_row = T.int32()
    A = T.match_buffer(a, ({rows}, {depth}), "{a_type}", offset_factor=1, strides=[a_row, 1])
    B = T.match_buffer(
        b, ({groups}, {rows}, {lane}), "{b_type}", offset_factor=1, strides=[b_row, {lane}, 1]
    )
    C = T.match_buffer(c, ({rows}, {rows}), "{c_type}", offset_factor=1, strides=[c_row, 1])
    with T.block("root"):
        T.reads(C[0:{rows}, 0:{rows}], A[0:{rows}, 0:{depth}], B[0:{groups}, 0:{rows}, 0:{lane}])
        T.writes(C[0:{rows}, 0:{rows}])
"""
_DESCRIPTION = """
        for i, j, k in T.grid({rows}, {rows}, {depth}):
            with T.block("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + T.Cast("{c_type}", A[vi, vk]) * T.Cast(
                    "{c_type}", B[vk // {lane}, vj, vk % {lane}]
                )
"""
# The configuration of tiles of 16 rows of 64 bytes: palette 1, then the bytes of a row of each tile
# from byte 16 on (16 bits each), and the rows of each tile from byte 48 on.
_SHAPE = """
        shape = T.alloc_buffer((64,), "uint8", scope="local")
        for byte in range(64):
            shape[byte] = T.Cast(
                "uint8",
                T.Select(
                    byte == 0,
                    1,
                    T.Select({has_row}, 64, T.Select(48 <= byte and byte < {end}, 16, 0)),
                ),
            )
"""


def _run(name: str, *operands: str) -> str:
    """Return the statement that runs an instruction."""
    args = ", ".join(("T.uint32(0)", *operands))
    return f'T.evaluate(T.call_llvm_intrin("void", "llvm.x86.{name}", {args}))'


def _move(name: str, tile: int, place: str, row: str, size: int) -> str:
    """Return a load or store of a tile whose rows are `row` numbers of `size` bytes apart."""
    stride = f'T.Cast("int64", {row}) * T.int64({size})'
    return _run(name, f"T.int8({tile})", f"T.address_of({place})", stride)


def _tiles(kind: Mapping[str, Any], side: int, steps: int | None) -> str:
    """Return the body that keeps the tiles of a result in the first registers."""
    at_a, at_b = ("0", "0") if steps is None else (f"k * {kind['depth']}", "k * 16")
    size, tiles = kind["a_bytes"], range(side)
    a = side * side
    b = a + side
    count = b + side
    corners = [(side * i + j, f"C[{16 * i}, {16 * j}]") for i in tiles for j in tiles]
    step = [
        *(_move("tileloadd64", a + i, f"A[{16 * i}, {at_a}]", "a_row", size) for i in tiles),
        *(_move("tileloadd64", b + j, f"B[{at_b}, {16 * j}, 0]", "b_row", size) for j in tiles),
        *(
            _run(kind["product"], f"T.int8({c})", f"T.int8({a + i})", f"T.int8({b + j})")
            for c, (i, j) in enumerate(product(tiles, tiles))
        ),
    ]
    lines = [
        _run("ldtilecfg", "shape.data"),
        *(_move("tileloadd64", tile, place, "c_row", 4) for tile, place in corners),
        *(step if steps is None else [f"for k in range({steps}):", *(f"    {s}" for s in step)]),
        *(_move("tilestored64", tile, place, "c_row", 4) for tile, place in corners),
        _run("tilerelease"),
    ]
    columns = " or ".join(f"byte == {16 + 2 * tile}" for tile in range(count))
    if steps is not None:
        columns = f"16 <= byte and byte < {16 + 2 * count} and byte % 2 == 0"
    shape = _SHAPE.format(has_row=columns, end=48 + count)
    return shape + "".join(f"        {line}\n" for line in lines)


def _intrinsic(kind: Mapping[str, Any], side: int, steps: int | None = None) -> TensorIntrin:
    """Return the product of `side` tiles of rows by `side` tiles of columns.

    It sums over `steps` tiles of the reduction; None means one tile without a loop.
    """
    numbers = {
        **kind,
        "rows": 16 * side,
        "depth": kind["depth"] * (steps or 1),
        "groups": 16 * (steps or 1),
    }
    programs: list[Any] = [
        parse(_SIGNATURE.format(**numbers) + body)
        for body in (_DESCRIPTION.format(**numbers), _tiles(kind, side, steps))
    ]
    return TensorIntrin(*programs)


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
"""The numbers of reduction tiles over which the long intrinsics sum."""

INTRINSICS: Final[dict[str, Callable[[], TensorIntrin]]] = {
    "amx_16x16x64_u8i8i32": partial(_intrinsic, _BYTES, 1),
    "amx_16x16x32_bf16bf16f32": partial(_intrinsic, _BFLOATS, 1),
    **{
        f"amx_32x32x{kind['depth'] * steps}_{types}": partial(_intrinsic, kind, 2, steps)
        for kind, types in (
            (_BYTES, "u8i8i32"),
            (_SIGNED, "i8i8i32"),
            (_BFLOATS, "bf16bf16f32"),
        )
        for steps in STEPS
    },
}
"""The functions that create intrinsics, by name."""
