"""Machine instructions: each lane of the result from several lanes of the operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tensorir import expr as e
from tensorir.dtype import INT32
from tensorir.semantics import wrapping

_to_int32 = wrapping(INT32)


def _bytes(word: int, *, signed: bool) -> list[int]:
    data = (word & 0xFFFFFFFF).to_bytes(4, "little")
    return [b - 256 if signed and b >= 128 else b for b in data]


def _vpdpbusd(total: int, a: int, b: int) -> int:
    pairs = zip(_bytes(a, signed=False), _bytes(b, signed=True), strict=True)
    return _to_int32(total + sum(x * y for x, y in pairs))


def _pmaddwd(a0: int, a1: int, b0: int, b1: int) -> int:
    return _to_int32(a0 * b0 + a1 * b1)


_INSTRUCTIONS: Final[dict[str, tuple[tuple[int, ...], Callable[..., Any]]]] = {
    "llvm.x86.avx512.vpdpbusd.512": ((1, 1, 1), _vpdpbusd),
    "llvm.x86.avx512.pmaddw.d.512": ((2, 2), _pmaddwd),
}
"""For each instruction, how many lanes of each operand make a lane of the result, and how."""


def machine_instruction(
    node: e.Call,
) -> tuple[list[e.PrimExpr], Callable[..., tuple[Any, ...]]] | None:
    """Return the operands of a machine instruction and its function on vectors.

    None for a call that is no instruction, or one that the interpreter does not know.
    """
    if isinstance(node.op, e.GlobalVar) or not node.op.short_name.startswith("call_llvm"):
        return None
    name = node.args[0]
    found = _INSTRUCTIONS.get(name.value) if isinstance(name, e.StringImm) else None
    if found is None:
        return None
    widths, compute = found
    operands = [arg for arg in node.args[1:] if not _is_overload_count(arg)]

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
