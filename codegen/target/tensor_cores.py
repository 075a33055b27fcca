"""Fragments of tensor cores: what a thread of a warp has of a tile of 16 x 16 numbers."""

from __future__ import annotations

from typing import Final

SIDE: Final = 16
"""The rows and columns of a tile."""
OPERANDS: Final = {"wmma.matrix_a": "a", "wmma.matrix_b": "b", "wmma.accumulator": "d"}
"""The operands of instructions by the scopes of their fragments."""
_PAIR: Final = "<2 x half>"
REGISTERS: Final = {
    ("a", "f16"): (_PAIR, 8),
    ("b", "f16"): (_PAIR, 8),
    ("a", "bf16"): ("i32", 4),
    ("b", "bf16"): ("i32", 4),
    ("a", "s8"): ("i32", 2),
    ("b", "s8"): ("i32", 2),
    ("d", "f16"): (_PAIR, 4),
    ("d", "f32"): ("float", 8),
    ("d", "s32"): ("i32", 8),
}
"""The type of the registers of a thread for a tile, in LLVM, and their number, by operand ("d" are
sums) and dtype: PTX manual, "Matrix Fragments for WMMA". All have 32 bits."""


def fragment_bytes(operand: str, dtype: str) -> int:
    """Return the bytes that a thread has of a tile.

    Each row of the tile in memory begins at a multiple: PTX manual, "Matrix Storage for WMMA".
    """
    return 4 * REGISTERS[operand, dtype][1]
