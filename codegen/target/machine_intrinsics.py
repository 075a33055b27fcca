"""Instructions of particular machines that programs may call by LLVM's names.

LLVM ends the process when a program calls an instruction that the target does not have. So only the
instructions listed here are accepted, with operands of the right types, and only for targets with
the required features. A machine without these features does not load the code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from codegen.target import Target
from tensorir.function import PrimFunc
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import Call, IntImm, PrimExpr, StringImm
from tensorir.rewriting.visit import walk

PREFIXES: Final = ("llvm.x86.", "llvm.aarch64.", "llvm.arm.")
"""The prefixes of the names of instructions of particular machines."""

_TILE: Final = "tile"
"""The type of an operand that is the number of a tile register: a constant from 0 to 7."""


@dataclass(frozen=True, slots=True)
class _Instruction:
    """An instruction: the types of its result and operands, and the CPU features that it needs."""

    result: str
    operands: tuple[str, ...]
    features: tuple[tuple[str, ...], ...]
    """Alternative sets of features by LLVM's names; any one is enough."""


def _dot(sums: str, a: str, b: str, *features: tuple[str, ...]) -> _Instruction:
    return _Instruction(sums, (sums, a, b), features)


def _tiles(operands: tuple[str, ...], *more: str) -> _Instruction:
    return _Instruction("void", operands, (("amx-tile", *more),))


_TRANSFER: Final = (_TILE, "handle", "int64")
_PRODUCT: Final = (_TILE, _TILE, _TILE)
_INSTRUCTIONS: Final[dict[str, _Instruction]] = {
    "llvm.x86.avx512.vpdpbusd.512": _dot(
        "int32x16", "int32x16", "int32x16", ("avx512f", "avx512vnni")
    ),
    "llvm.x86.avx512.vpdpbusd.256": _dot(
        "int32x8", "int32x8", "int32x8", ("avx2", "avxvnni"), ("avx512vl", "avx512vnni")
    ),
    "llvm.x86.avx2.vpdpbssd.256": _dot("int32x8", "int32x8", "int32x8", ("avx2", "avxvnniint8")),
    "llvm.x86.avx512.pmaddw.d.512": _Instruction(
        "int32x16", ("int16x32", "int16x32"), (("avx512f", "avx512bw"),)
    ),
    "llvm.x86.avx2.pmadd.wd": _Instruction("int32x8", ("int16x16", "int16x16"), (("avx2",),)),
    "llvm.x86.avx512bf16.dpbf16ps.512": _dot(
        "float32x16", "bfloat16x32", "bfloat16x32", ("avx512f", "avx512bf16")
    ),
    "llvm.x86.avx512bf16.dpbf16ps.256": _dot(
        "float32x8", "bfloat16x16", "bfloat16x16", ("avx512vl", "avx512bf16")
    ),
    "llvm.x86.ldtilecfg": _tiles(("handle",)),
    "llvm.x86.tilerelease": _tiles(()),
    "llvm.x86.tilezero": _tiles((_TILE,)),
    "llvm.x86.tileloadd64": _tiles(_TRANSFER),
    "llvm.x86.tilestored64": _tiles(_TRANSFER),
    "llvm.x86.tdpbusd": _tiles(_PRODUCT, "amx-int8"),
    "llvm.x86.tdpbssd": _tiles(_PRODUCT, "amx-int8"),
    "llvm.x86.tdpbf16ps": _tiles(_PRODUCT, "amx-bf16"),
    "llvm.aarch64.neon.sdot.v4i32.v16i8": _dot(
        "int32x4", "int8x16", "int8x16", ("neon", "dotprod")
    ),
    "llvm.aarch64.neon.udot.v4i32.v16i8": _dot(
        "uint32x4", "uint8x16", "uint8x16", ("neon", "dotprod")
    ),
    "llvm.aarch64.neon.usdot.v4i32.v16i8": _dot("int32x4", "uint8x16", "int8x16", ("neon", "i8mm")),
    "llvm.aarch64.neon.bfdot.v4f32.v8bf16": _dot(
        "float32x4", "bfloat16x8", "bfloat16x8", ("neon", "bf16")
    ),
    "llvm.aarch64.neon.smull.v8i16": _Instruction("int16x8", ("int8x8", "int8x8"), (("neon",),)),
    "llvm.aarch64.neon.saddlp.v4i32.v8i16": _Instruction("int32x4", ("int16x8",), (("neon",),)),
    "llvm.aarch64.neon.addp.v4i32": _Instruction("int32x4", ("int32x4", "int32x4"), (("neon",),)),
}

FEATURES: Final = {name: known.features for name, known in _INSTRUCTIONS.items()}
"""The alternative sets of features of each instruction, by LLVM's names."""


def refusal(name: str, target: Target) -> str | None:
    """Return the reason why an instruction cannot be compiled for a target, None if it can."""
    known = _INSTRUCTIONS.get(name)
    if known is None:
        return (
            f"unknown machine instruction {name}; the known ones are {', '.join(sorted(FEATURES))}"
        )
    missing = [[f for f in needed if f not in target.features] for needed in known.features]
    if all(missing):
        said = " or ".join(", ".join(features) for features in missing)
        return (
            f"{name} needs {said}, which the target does not have; use a CPU that has it, for "
            f"example {_example(name)!r}"
        )
    width = max(map(_vector_bits, (known.result, *known.operands)))
    if width > target.vector_bits:
        # LLVM ends the process instead of splitting such a vector.
        return (
            f"{name} works on vectors of {width} bits, and -vector-width={target.vector_bits} "
            "disables them for the target"
        )
    return None


def _example(name: str) -> str:
    if name.startswith("llvm.x86."):
        model = "arrowlake" if name.startswith("llvm.x86.avx2.vpdpb") else "sapphirerapids"
        return f"llvm -mcpu={model}"
    feature = FEATURES[name][0][-1]
    return f"llvm -mtriple=aarch64-linux-gnu -mattr=+{feature}"


def _vector_bits(kind: str) -> int:
    if kind in (_TILE, "void", "handle"):
        return 0
    dtype = DataType(kind)
    return dtype.bits * dtype.lanes if dtype.lanes > 1 else 0


def refusal_of(func: PrimFunc, target: Target) -> str | None:
    """Return why an instruction of a function cannot be compiled for a target, None if all can."""
    for node in walk(func.body):
        if isinstance(node, Call) and node.args and isinstance(node.args[0], StringImm):
            name = node.args[0].value
            reason = refusal(name, target) if name.startswith(PREFIXES) else None
            if reason is not None:
                return reason
    return None


def misuse(name: str, result: DataType, operands: Sequence[PrimExpr]) -> str | None:
    """Return the reason why a call of a known instruction is invalid, None if it is valid."""
    gives, takes = _INSTRUCTIONS[name].result, _INSTRUCTIONS[name].operands
    fits = len(operands) == len(takes) and result == gives
    if not fits or not all(map(_is_operand, operands, takes)):
        found = ", ".join(str(operand.dtype) for operand in operands)
        return (
            f"{name} has the operands ({', '.join(takes)}) and the result {gives}, but is called "
            f"with ({found}) "
            f"for {result}; a tile is a constant int8 from 0 to 7"
        )
    tiles = [operand for operand, kind in zip(operands, takes, strict=True) if kind is _TILE]
    if len({tile.value for tile in tiles if isinstance(tile, IntImm)}) != len(tiles):
        return f"{name} needs distinct tiles"
    return None


def _is_operand(operand: PrimExpr, kind: str) -> bool:
    if kind is _TILE:
        return isinstance(operand, IntImm) and operand.dtype == "int8" and 0 <= operand.value < 8
    return bool(operand.dtype == kind)
