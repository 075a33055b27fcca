"""Fragments of tensor cores: what a thread of a warp has of a tile of 16 x 16 numbers."""

from __future__ import annotations

from typing import Final, TypeVar

from codegen.target.gpu import WARP
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import PrimExpr
from tensorir.tensor_intrin.tensor_core import NAMES, neighbours

SIDE: Final = 16
"""The rows and columns of a tile; tiles of int8 for `mma.sync` have twice as many of one."""
ROW_BYTES: Final = 16
"""What the distance of rows of a tile in memory is a multiple of: CUDA C++ programming guide,
`load_matrix_sync`. The PTX manual asks for the size of a fragment there, too, which is 32 for
float16; but eight rows of 16 bytes at such distances always are in half of the banks."""
OPERANDS: Final = {"wmma.matrix_a": "a", "wmma.matrix_b": "b", "wmma.accumulator": "d"}
"""The operands of instructions by the scopes of their fragments; any is in the scope `warp`."""
_PAIR: Final = "<2 x half>"
_SUMS: Final = {("d", "f16"): (_PAIR, 4), ("d", "f32"): ("float", 8), ("d", "s32"): ("i32", 8)}
_FACTORS: Final = {
    "wmma": {"f16": (_PAIR, 8), "bf16": ("i32", 4), "s8": ("i32", 2)},
    "mma": {"f16": (_PAIR, 4), "bf16": ("i32", 4), "s8": ("i32", 4)},
}
REGISTERS: Final = {
    family: _SUMS | {(operand, dtype): kind for operand in "ab" for dtype, kind in known.items()}
    for family, known in _FACTORS.items()
}
"""The type of the registers of a thread for a tile, in LLVM, and their number, by the family of
instructions, operand ("d" are sums) and dtype: PTX manual, "Matrix Fragments for WMMA" and "for
mma.m16n8k16". All have 32 bits."""


def registers_of(scope: str, dtype: DataType, count: int) -> int:
    """Return the registers of a thread for a fragment of `count` elements.

    Returns 0 if tensor cores have no fragments of the dtype in the scope, or for parts of a tile.
    """
    name = NAMES.get(str(dtype), "")
    if scope in OPERANDS:
        _, registers = REGISTERS["wmma"].get((OPERANDS[scope], name), ("", 0))
        return 0 if count % SIDE**2 else count // SIDE**2 * registers
    tile = SIDE**2 * (2 if name == "s8" else 1)
    return 0 if not name or count % tile else count * dtype.nbytes // (4 * WARP)


def tile_alignment(instruction: str) -> int:
    """Return the bytes at a multiple of which an instruction's tile in memory begins.

    PTX manual: "Matrix Storage for WMMA" and `ldmatrix`. Other instructions of `mma` access single
    elements.
    """
    family, kind, *rest = instruction.split(".")
    if family == "wmma":
        return 4 * REGISTERS[family][rest[0], rest[-1]][1]
    return 16 if kind == "load" and uses_ldmatrix(*rest) else 1


def uses_ldmatrix(operand: str, layout: str, dtype: str) -> bool:
    """Return True for a load by `ldmatrix`, which moves rows of 16 bytes, or columns of 16 bits."""
    return dtype != "s8" or not is_turned(operand, layout)


def is_turned(operand: str, layout: str) -> bool:
    """Return True if the neighbours that a thread has are in one column of the tile in memory."""
    return (operand, layout) in (("a", "col"), ("b", "row"))


def roles(instruction: str) -> list[str]:
    """Return an operand with its layout, such as `"b.col"`, for each tile of an instruction.

    It is `"d"` for sums, and `""` for a tile in memory.
    """
    _, kind, *rest = instruction.split(".")
    if kind == "mma":
        return ["d", f"b.{rest[1]}", f"a.{rest[0]}"]
    return {"fill": ["d"], "store": ["", "d"]}.get(kind) or [".".join(rest[:2]), ""]


Index = TypeVar("Index", int, PrimExpr)


def place(operand: str, dtype: str, lane: Index, number: Index) -> tuple[Index, Index]:
    """Return where in a tile of `mma.sync` the element `number` of a thread is.

    The first index is that of the rows of the left factor and of the sums, or of the columns of the
    right factor; the second one is the other one, along which a thread has neighbours: PTX manual,
    "Matrix Fragments for mma.m16n8k16" and "mma.m16n8k32". Right factors and sums have the
    registers of two such instructions, one after the other.
    """
    run = neighbours(dtype)
    block = number // run
    first, second = (block // 2, block % 2) if operand == "b" else (block % 2, block // 2)
    return lane // 4 + first * 8, lane % 4 * run + number % run + second * (4 * run)
