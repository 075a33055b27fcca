"""Calls in which the lanes of the result are not those of the operands: bits and instructions.

`reinterpret` reads the bits of its operand as another type; machine instructions combine several
lanes into one. Each gives the value of one lane from the lanes that it depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tensorir import expr as e
from tensorir.dtype import DataType
from tensorir.expr import PrimExpr

Lanes = list[tuple[PrimExpr, int]]
"""Lanes of operands."""


def is_across_lanes(node: PrimExpr) -> bool:
    """Say whether a node is a call whose lanes depend on other lanes of its operands."""
    if not isinstance(node, e.Call) or isinstance(node.op, e.GlobalVar):
        return False
    return node.op.short_name == "reinterpret" or instruction(node) is not None


def lane_of_call(node: e.Call, lane: int) -> tuple[Lanes, Callable[[Sequence[Any]], Any]]:
    """Return which lanes of its operands a lane of a call depends on, and how."""
    made = instruction(node)
    if made is None:
        return _reinterpreted(node.args[0], node.dtype.with_lanes(1), lane)
    widths, compute = made
    operands = [arg for arg in node.args[1:] if not _is_overload_count(arg)]
    needed = [
        (arg, lane * width + k)
        for arg, width in zip(operands, widths, strict=True)
        for k in range(width)
    ]
    return needed, compute


def _is_overload_count(arg: PrimExpr) -> bool:
    return isinstance(arg, e.IntImm) and arg.dtype == "uint32"


def _reinterpreted(
    source: PrimExpr, dtype: DataType, lane: int
) -> tuple[Lanes, Callable[[Sequence[Any]], Any]]:
    kind, target = source.dtype.with_lanes(1).to_numpy(), dtype.to_numpy()
    count = max(1, target.itemsize // kind.itemsize)
    first = lane * target.itemsize // kind.itemsize
    start = lane * target.itemsize - first * kind.itemsize

    def compute(values: Sequence[Any]) -> Any:
        data = b"".join(np.asarray(value).astype(kind).tobytes() for value in values)
        value = np.frombuffer(data, target, count=1, offset=start)[0]
        return int(value) if dtype.is_int and dtype.bits >= 32 else value

    return [(source, first + k) for k in range(count)], compute


def _bytes(word: int, *, signed: bool) -> list[int]:
    data = (int(word) & 0xFFFFFFFF).to_bytes(4, "little")
    return [b - 256 if signed and b >= 128 else b for b in data]


def _vpdpbusd(values: Sequence[Any]) -> int:
    total, a, b = values
    pairs = zip(_bytes(a, signed=False), _bytes(b, signed=True), strict=True)
    return _to_int32(int(total) + sum(x * y for x, y in pairs))


def _pmaddwd(values: Sequence[Any]) -> int:
    a0, a1, b0, b1 = (int(v) for v in values)
    return _to_int32(a0 * b0 + a1 * b1)


def _to_int32(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


_INSTRUCTIONS: Final[dict[str, tuple[tuple[int, ...], Callable[[Sequence[Any]], Any]]]] = {
    "llvm.x86.avx512.vpdpbusd.512": ((1, 1, 1), _vpdpbusd),
    "llvm.x86.avx512.pmaddw.d.512": ((2, 2), _pmaddwd),
}
"""For each instruction, how many lanes of each operand make a lane of the result, and how."""


def instruction(
    node: e.Call,
) -> tuple[tuple[int, ...], Callable[[Sequence[Any]], Any]] | None:
    """Return how the interpreter computes a machine instruction, None for other calls."""
    if isinstance(node.op, e.GlobalVar) or not node.op.short_name.startswith("call_llvm"):
        return None
    name = node.args[0]
    return _INSTRUCTIONS.get(name.value) if isinstance(name, e.StringImm) else None
