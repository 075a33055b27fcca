"""Instructions of particular machines that programs may call by LLVM's names.

LLVM ends the process when a program calls an instruction that the target does not have, so only
those listed here are passed on, with operands of the right types, and only to targets with the
features that they need. Code that uses them is not loaded on a machine without.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from codegen.target import Target
from tensorir.dtype import DataType
from tensorir.expr import Call, IntImm, PrimExpr, StringImm
from tensorir.function import PrimFunc
from tensorir.visit import walk

PREFIXES: Final = ("llvm.x86.", "llvm.aarch64.", "llvm.arm.")
"""The beginnings of the names of instructions of particular machines."""

FEATURES: Final[dict[str, tuple[str, ...]]] = {
    "llvm.x86.avx512.vpdpbusd.512": ("avx512f", "avx512vnni"),
    "llvm.x86.avx512.pmaddw.d.512": ("avx512f", "avx512bw"),
    "llvm.x86.ldtilecfg": ("amx-tile",),
    "llvm.x86.tilerelease": ("amx-tile",),
    "llvm.x86.tilezero": ("amx-tile",),
    "llvm.x86.tileloadd64": ("amx-tile",),
    "llvm.x86.tilestored64": ("amx-tile",),
    "llvm.x86.tdpbusd": ("amx-tile", "amx-int8"),
    "llvm.x86.tdpbf16ps": ("amx-tile", "amx-bf16"),
    "llvm.aarch64.neon.sdot.v4i32.v16i8": ("neon", "dotprod"),
    "llvm.aarch64.neon.udot.v4i32.v16i8": ("neon", "dotprod"),
    "llvm.aarch64.neon.smull.v8i16": ("neon",),
    "llvm.aarch64.neon.saddlp.v4i32.v8i16": ("neon",),
    "llvm.aarch64.neon.addp.v4i32": ("neon",),
}
"""The features, by LLVM's names, that each instruction needs."""

_TILE: Final = "tile"
"""The type of an operand that is the number of a tile register: a constant from 0 to 7."""
_PRODUCT: Final = ("void", (_TILE, _TILE, _TILE))
_TRANSFER: Final = ("void", (_TILE, "handle", "int64"))
_SIGNATURES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "llvm.x86.avx512.vpdpbusd.512": ("int32x16", ("int32x16", "int32x16", "int32x16")),
    "llvm.x86.avx512.pmaddw.d.512": ("int32x16", ("int16x32", "int16x32")),
    "llvm.x86.ldtilecfg": ("void", ("handle",)),
    "llvm.x86.tilerelease": ("void", ()),
    "llvm.x86.tilezero": ("void", (_TILE,)),
    "llvm.x86.tileloadd64": _TRANSFER,
    "llvm.x86.tilestored64": _TRANSFER,
    "llvm.x86.tdpbusd": _PRODUCT,
    "llvm.x86.tdpbf16ps": _PRODUCT,
    "llvm.aarch64.neon.sdot.v4i32.v16i8": ("int32x4", ("int32x4", "int8x16", "int8x16")),
    "llvm.aarch64.neon.udot.v4i32.v16i8": ("uint32x4", ("uint32x4", "uint8x16", "uint8x16")),
    "llvm.aarch64.neon.smull.v8i16": ("int16x8", ("int8x8", "int8x8")),
    "llvm.aarch64.neon.saddlp.v4i32.v8i16": ("int32x4", ("int16x8",)),
    "llvm.aarch64.neon.addp.v4i32": ("int32x4", ("int32x4", "int32x4")),
}
"""The types of the result and of the operands of each instruction."""


def refusal(name: str, target: Target) -> str | None:
    """Return why an instruction cannot be compiled for a target, if so."""
    needed = FEATURES.get(name)
    if needed is None:
        return f"{name} is none of the machine instructions known: {', '.join(sorted(FEATURES))}"
    missing = [feature for feature in needed if feature not in target.features]
    if missing:
        return (
            f"{name} needs {', '.join(missing)}, which the target does not have; "
            f"name a CPU that has it, as in {_example(name)!r}"
        )
    width = max(map(_vector_bits, (_SIGNATURES[name][0], *_SIGNATURES[name][1])))
    if width > target.vector_bits:
        # LLVM ends the process when it is to split one.
        return (
            f"{name} works on vectors of {width} bits, and -vector-width={target.vector_bits} "
            f"keeps the target from using them"
        )
    return None


def _example(name: str) -> str:
    if name.startswith("llvm.x86."):
        return "llvm -mcpu=sapphirerapids"
    return "llvm -mtriple=aarch64-linux-gnu -mattr=+dotprod"


def _vector_bits(kind: str) -> int:
    if kind in (_TILE, "void", "handle"):
        return 0
    dtype = DataType(kind)
    return dtype.bits * dtype.lanes if dtype.lanes > 1 else 0


def refusal_of(func: PrimFunc, target: Target) -> str | None:
    """Return why a function cannot be compiled for a target, if an instruction is the reason."""
    for node in walk(func.body):
        if isinstance(node, Call) and node.args and isinstance(node.args[0], StringImm):
            name = node.args[0].value
            reason = refusal(name, target) if name.startswith(PREFIXES) else None
            if reason is not None:
                return reason
    return None


def misuse(name: str, result: DataType, operands: Sequence[PrimExpr]) -> str | None:
    """Return why a known instruction cannot be called like this, if so."""
    gives, takes = _SIGNATURES[name]
    fits = len(operands) == len(takes) and result == gives
    if not fits or not all(map(_is_operand, operands, takes)):
        found = ", ".join(str(operand.dtype) for operand in operands)
        return (
            f"{name} takes ({', '.join(takes)}) and gives {gives}, but is called with ({found}) "
            f"for {result}; a tile is a constant int8 from 0 to 7"
        )
    tiles = [operand for operand, kind in zip(operands, takes, strict=True) if kind is _TILE]
    if len({tile.value for tile in tiles if isinstance(tile, IntImm)}) != len(tiles):
        return f"{name} needs different tiles"
    return None


def _is_operand(operand: PrimExpr, kind: str) -> bool:
    if kind is _TILE:
        return isinstance(operand, IntImm) and operand.dtype == "int8" and 0 <= operand.value < 8
    return bool(operand.dtype == kind)
