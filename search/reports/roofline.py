"""The roofline of a program: the least time that its arithmetic and its data take on a machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, prod
from typing import Final, Literal

from codegen import CodegenError, Target
from codegen.machine import known_speed, peak_flops, read_bandwidth
from codegen.target import host
from search.runner.flops import OperationCounter, estimate_tir_flops
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.buffer import Buffer, MatchBufferRegion
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import BufferLoad, Call, IntImm, PrimExpr, Var
from tensorir.nodes.intrin import Op
from tensorir.nodes.node import Node
from tensorir.nodes.stmt import BufferStore, For
from tensorir.rewriting.visit import children, walk
from tensorir.semantics.floats import REAL

Bound = Literal["compute", "memory"]

_PEAKS: Final = {"float32": 1.0, "float64": 0.5}
"""The types whose peak is known, and it as a part of that of float32: half as many fit a vector."""
_LARGE: Final = 256 << 20
"""The bytes whose bandwidth is that of any larger number: no cache holds them."""
_MOST: Final = 0.5
"""The share of the operations that are of such a type, from which on its peak is the limit."""


@dataclass(frozen=True)
class Roofline:
    """What a call of a program has to do, and what the machine does at most.

    The machine makes `peak_flops` operations and reads `bandwidth` bytes a second, and both at
    once: no schedule takes less than `least_seconds`, unless it leaves out operations that the
    program counts, such as those on zeros (Williams, Waterman and Patterson, Roofline, CACM 2009).
    """

    flop: float
    """The operations of a call."""
    size: int
    """The bytes that a call reads or writes at least: each argument once, of the largest ones only
    what is touched. What does not leave the program counts nothing."""
    dtype: str
    """The type of most operations."""
    peak_flops: float
    """Operations a second, measured."""
    bandwidth: float
    """Bytes a second, measured by reading so many bytes again and again, from whichever cache they
    fit."""
    cores: int = 1
    """The cores that both were measured with, all at once."""
    functions: str = ""
    """The functions of real numbers that the program computes, such as `"exp, tanh"`. They count no
    operations, so that a program with many of them stays far below."""

    @property
    def least_seconds(self) -> float:
        """The seconds that a call takes at least."""
        return max(self.flop / self.peak_flops, self.size / self.bandwidth)

    @property
    def bound(self) -> Bound:
        """`"compute"` where arithmetic takes longer than the data, else `"memory"`."""
        in_arithmetic = self.flop / self.peak_flops
        return "compute" if in_arithmetic > self.size / self.bandwidth else "memory"

    def share(self, seconds: float) -> float:
        """Return the share of what the machine can do at most that a call of so many seconds is."""
        return self.least_seconds / seconds

    def in_words(self, seconds: float) -> str:
        """Return what a call of so many seconds does, of what the machine can do at most."""
        if self.bound == "compute":
            done, most, unit = self.flop / seconds, self.peak_flops, "GFLOPS"
        else:
            done, most, unit = self.size / seconds, self.bandwidth, "GB/s"
        cores = f"{self.cores} cores" if self.cores > 1 else "a core"
        text = (
            f"of what {cores} of this machine can do: {done / 1e9:.4g} of {most / 1e9:.4g} {unit}, "
            f"{self.bound}-bound"
        )
        if self.share(seconds) > _MORE:
            return f"{text}; it leaves out operations"
        return f"{text}; {self.functions} not counted" if self.functions else text


_MORE: Final = 1.1
"""The share from which on it is no noise that a program is faster than its operations allow."""


def roofline(mod: IRModule, target: Target) -> Roofline | None:
    """Return the roofline of a program of one function, measured now, on this machine.

    None where there is none to be known: for a target that is not this machine, or is not known to
    be (`codegen.machine.known_speed`), for sizes that are not constant, and for arithmetic that is
    neither in float32 nor in float64.
    """
    (func,) = mod.prim_funcs().values()
    size, dtype = touched_bytes(func), main_dtype(func)
    if known_speed(target) is None or size is None or dtype is None:
        return None
    cores = max(1, min(target.num_cores or 1, host.physical_cores()))
    try:
        peak = peak_flops(target, cores) * _PEAKS[dtype]
        bandwidth = read_bandwidth(min(size, _LARGE), target, cores)
    except CodegenError:
        return None
    flop, functions = estimate_tir_flops(mod), ", ".join(functions_of_reals(func))
    return Roofline(flop, size, dtype, peak, bandwidth, cores, functions)


def functions_of_reals(func: PrimFunc) -> list[str]:
    """Return the names of those that a program computes, such as `exp`, sorted."""
    operators = (node.op for node in walk(func.body) if isinstance(node, Call))
    return sorted({op.short_name for op in operators if isinstance(op, Op)} & REAL.keys())


def main_dtype(func: PrimFunc) -> str | None:
    """Return the type of most operations, None for one whose peak is not known.

    A program without any operation is one in float32.
    """
    total = OperationCounter().stmt(func.body)
    counts = {name: _OfType(DataType(name)).stmt(func.body) for name in _PEAKS}
    most = max(counts, key=lambda name: counts[name])
    return most if counts[most] >= _MOST * total else None


class _OfType(OperationCounter):
    """Counts operations on operands of one type."""

    def __init__(self, dtype: DataType) -> None:
        super().__init__()
        self._dtype = dtype

    def _counts(self, operand: PrimExpr) -> bool:
        return operand.dtype.with_lanes(1) == self._dtype


def touched_bytes(func: PrimFunc) -> int | None:
    """Return the bytes of its arguments that a call reads or writes, None where that is symbolic.

    Each element counts once, and of an argument no more elements than there are reads and writes
    of it: of a table that is looked up, the rows that are.
    """
    accesses = _Accesses(func)
    accesses.count(func.body, 1)
    total = 0
    for buffer, times in accesses.times.items():
        extents = [extent.value for extent in buffer.shape if isinstance(extent, IntImm)]
        if len(extents) < len(buffer.shape) or times is None:
            return None
        total += int(min(times, prod(extents))) * -(-buffer.dtype.bits // 8)
    return total


class _Accesses:
    """Counts how often the arguments of a function are read and written."""

    def __init__(self, func: PrimFunc) -> None:
        self.times: dict[Buffer, float | None] = dict.fromkeys(func.buffer_map.values(), 0)
        """The number for each argument, None where it is not known."""
        self._by_pointer = {buffer.data: buffer for buffer in self.times}

    def count(self, node: Node, times: int | None) -> None:
        """Add what a node does that is run so many times."""
        if isinstance(node, For):
            extent = node.extent.value if isinstance(node.extent, IntImm) else None
            times = None if times is None or extent is None else times * extent
        for buffer, lanes in self._accessed(node):
            before = self.times[buffer]
            if before is None or times is None:
                self.times[buffer] = None
            elif times:
                self.times[buffer] = before + times * lanes
        for part in children(node):
            self.count(part, times)

    def _accessed(self, node: Node) -> Iterator[tuple[Buffer, float]]:
        """Yield the arguments that a node itself accesses, and how many elements of each."""
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer in self.times:
            yield node.buffer, prod(index.dtype.lanes for index in node.indices)
        elif isinstance(node, MatchBufferRegion) and node.source.buffer in self.times:
            yield node.source.buffer, inf
        elif isinstance(node, Var) and node in self._by_pointer:
            yield self._by_pointer[node], inf
