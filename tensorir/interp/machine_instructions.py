"""Machine instructions whose result lanes depend on several lanes of the operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tensorir.nodes import expr as e
from tensorir.nodes.dtype import FLOAT32, INT32, DataType
from tensorir.semantics import rounding, wrapping

_to_float32 = rounding(FLOAT32)
_to_int32 = wrapping(INT32)


def _bytes(word: int, signed: bool) -> list[int]:
    data = (word & 0xFFFFFFFF).to_bytes(4, "little")
    return [b - 256 if signed and b >= 128 else b for b in data]


def _dot_of_bytes(a_signed: bool) -> Callable[[int, int, int], int]:
    return lambda total, a, b: _sdot(total, *_bytes(a, a_signed), *_bytes(b, True))


def _dpbf16ps(total: float, a0: float, a1: float, b0: float, b1: float) -> float:
    """Add the products to `total`, the upper halves first; subnormals are not flushed."""
    return _to_float32(_to_float32(total + a1 * b1) + a0 * b0)


def _pmaddwd(a0: int, a1: int, b0: int, b1: int) -> int:
    return _to_int32(a0 * b0 + a1 * b1)


def _bfdot(total: float, a0: float, a1: float, b0: float, b1: float) -> float:
    """Add the sum of the products to `total`.

    Some CPUs round the sum to odd first, others do not round it.
    """
    return _to_float32(total + (a0 * b0 + a1 * b1))


def _dot(wrap: Callable[[int], int]) -> Callable[..., int]:
    def add(total: int, *factors: int) -> int:
        return wrap(total + sum(x * y for x, y in zip(factors[:4], factors[4:], strict=True)))

    return add


_sdot, _udot = _dot(_to_int32), _dot(wrapping(DataType("uint32")))


def _addp(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    lanes = (*a, *b)
    return tuple(_to_int32(x + y) for x, y in zip(lanes[::2], lanes[1::2], strict=True))


_INSTRUCTIONS: Final[dict[str, tuple[tuple[int, ...], Callable[..., Any]]]] = {
    "llvm.x86.avx512.vpdpbusd.512": ((1, 1, 1), _dot_of_bytes(False)),
    "llvm.x86.avx512.vpdpbusd.256": ((1, 1, 1), _dot_of_bytes(False)),
    "llvm.x86.avx2.vpdpbssd.256": ((1, 1, 1), _dot_of_bytes(True)),
    "llvm.x86.avx512.pmaddw.d.512": ((2, 2), _pmaddwd),
    "llvm.x86.avx2.pmadd.wd": ((2, 2), _pmaddwd),
    "llvm.x86.avx512bf16.dpbf16ps.512": ((1, 2, 2), _dpbf16ps),
    "llvm.x86.avx512bf16.dpbf16ps.256": ((1, 2, 2), _dpbf16ps),
    "llvm.aarch64.neon.sdot.v4i32.v16i8": ((1, 4, 4), _sdot),
    "llvm.aarch64.neon.udot.v4i32.v16i8": ((1, 4, 4), _udot),
    "llvm.aarch64.neon.usdot.v4i32.v16i8": ((1, 4, 4), _sdot),
    "llvm.aarch64.neon.bfdot.v4f32.v8bf16": ((1, 2, 2), _bfdot),
    "llvm.aarch64.neon.smull.v8i16": ((1, 1), lambda a, b: a * b),
    "llvm.aarch64.neon.saddlp.v4i32.v8i16": ((2,), lambda a, b: a + b),
}
"""For each instruction, the operand lanes that make one result lane, and the function."""

_ACROSS: Final[dict[str, Callable[..., tuple[Any, ...]]]] = {
    "llvm.aarch64.neon.addp.v4i32": _addp,
}
"""Instructions that combine lanes across operands, as functions of whole vectors."""


def machine_instruction(
    node: e.Call,
) -> tuple[list[e.PrimExpr], Callable[..., tuple[Any, ...]]] | None:
    """Return the operands of a machine instruction and its function on vectors.

    Return None for other calls, and for instructions that the interpreter does not support.
    """
    if isinstance(node.op, e.GlobalVar) or not node.op.short_name.startswith("call_llvm"):
        return None
    name = node.args[0]
    if not isinstance(name, e.StringImm):
        return None
    operands = [arg for arg in node.args[1:] if not _is_overload_count(arg)]
    if name.value in _ACROSS:
        return operands, _ACROSS[name.value]
    found = _INSTRUCTIONS.get(name.value)
    if found is None:
        return None
    widths, compute = found

    def apply(*vectors: Sequence[Any]) -> tuple[Any, ...]:
        lanes = range(node.dtype.lanes)
        pairs = list(zip(vectors, widths, strict=True))
        return tuple(
            compute(*(v for vector, n in pairs for v in vector[lane * n : lane * n + n]))
            for lane in lanes
        )

    return operands, apply


def _is_overload_count(arg: e.PrimExpr) -> bool:
    return isinstance(arg, e.IntImm) and arg.dtype == "uint32"
