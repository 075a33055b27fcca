"""The roofline of a program: a lower bound of its time from its arithmetic and its data."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isnan, nan, prod
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
"""The types with a known peak, relative to the peak of float32."""
_LARGE: Final = 256 << 20
"""The number of bytes that exceeds every cache; more bytes have the same bandwidth."""
_MOST: Final = 0.5
"""The minimum fraction of the operations in a type for its peak to be the limit."""


@dataclass(frozen=True)
class Roofline:
    """The work of a call of a program, and the peak of the machine.

    The machine makes `peak_flops` operations and reads `bandwidth` bytes per second at the same
    time, so `least_seconds` is a lower bound, unless a schedule omits counted operations, such as
    operations on zeros (Williams, Waterman and Patterson, Roofline, CACM 2009).
    """

    flop: float
    """The operations of a call."""
    size: int
    """The bytes of the arguments that a call accesses, each element once. Buffers within the
    program count 0."""
    dtype: str
    """The type of most operations."""
    peak_flops: float
    """Operations a second, measured."""
    bandwidth: float
    """Bytes per second, measured by repeated reads of `size` bytes, from the cache that they fit
    in."""
    cores: int = 1
    """The number of cores in both measurements."""
    functions: str = ""
    """The real functions in the program, such as `"exp, tanh"`. They count 0 operations, so a
    program with many of them stays far below its peak."""

    @property
    def least_seconds(self) -> float:
        """The minimum seconds of a call."""
        return max(self.flop / self.peak_flops, self.size / self.bandwidth)

    @property
    def bound(self) -> Bound:
        """`"compute"` if arithmetic takes longer than the data, otherwise `"memory"`."""
        in_arithmetic = self.flop / self.peak_flops
        return "compute" if in_arithmetic > self.size / self.bandwidth else "memory"

    def share(self, seconds: float) -> float:
        """Return the fraction of the peak that a call of `seconds` reaches."""
        return self.least_seconds / seconds

    def in_words(self, seconds: float) -> str:
        """Return the speed of a call of `seconds`, and the peak, in words."""
        if self.bound == "compute":
            done, most, unit = self.flop / seconds, self.peak_flops, "GFLOPS"
        else:
            done, most, unit = self.size / seconds, self.bandwidth, "GB/s"
        cores = f"{self.cores} cores" if self.cores > 1 else "a core"
        text = (
            f"of the peak of {cores} of this machine: {done / 1e9:.4g} of {most / 1e9:.4g} {unit}, "
            f"{self.bound}-bound"
        )
        if self.share(seconds) > _MORE:
            return f"{text}; {_ABOVE_PEAK}"
        return f"{text}; {self.functions} not counted" if self.functions else text


_MORE: Final = 1.1
"""The fraction of the peak above which the report gives possible causes."""
_ABOVE_PEAK: Final = (
    "above the peak: the program omits operations, or other programs slowed down the measurement "
    "of the peak"
)


def roofline(mod: IRModule, target: Target) -> Roofline | None:
    """Return the roofline of a program of one function, measured now on this machine.

    None if the target is not this machine (`codegen.machine.known_speed`), if sizes are symbolic,
    and for arithmetic in other types than float32 and float64.
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
    """Return the sorted names of the real functions in a program, such as `exp`."""
    operators = (node.op for node in walk(func.body) if isinstance(node, Call))
    return sorted({op.short_name for op in operators if isinstance(op, Op)} & REAL.keys())


def main_dtype(func: PrimFunc) -> str | None:
    """Return the type of most operations, None if its peak is unknown.

    It is float32 for a program without operations.
    """
    total = OperationCounter().stmt(func.body)
    counts = {name: _OperationCounter(DataType(name)).stmt(func.body) for name in _PEAKS}
    most = max(counts, key=lambda name: counts[name])
    return most if counts[most] >= _MOST * total else None


class _OperationCounter(OperationCounter):
    """Counts operations on operands of one type."""

    def __init__(self, dtype: DataType) -> None:
        super().__init__()
        self._dtype = dtype

    def _counts(self, operand: PrimExpr) -> bool:
        return operand.dtype.with_lanes(1) == self._dtype


def touched_bytes(func: PrimFunc) -> int | None:
    """Return the bytes of the arguments that a call accesses, None for symbolic sizes.

    Each element counts once. An argument counts at most as many elements as it has accesses: a
    table counts the rows that are looked up.
    """
    times: dict[Buffer, float] = dict.fromkeys(func.buffer_map.values(), 0.0)
    by_pointer = {buffer.data: buffer for buffer in times}
    pending: list[tuple[Node, float]] = [(func.body, 1.0)]
    while pending:
        node, executions = pending.pop()
        if isinstance(node, For):
            executions *= node.extent.value if isinstance(node.extent, IntImm) else nan
        accessed, lanes = None, inf
        if isinstance(node, (BufferLoad, BufferStore)):
            accessed, lanes = node.buffer, prod(index.dtype.lanes for index in node.indices)
        elif isinstance(node, MatchBufferRegion):
            accessed = node.source.buffer
        elif isinstance(node, Var):
            accessed = by_pointer.get(node)
        if accessed in times and executions:
            times[accessed] += executions * lanes
        pending += [(part, executions) for part in children(node)]
    total = 0
    for buffer, count in times.items():
        extents = [extent.value for extent in buffer.shape if isinstance(extent, IntImm)]
        if len(extents) < len(buffer.shape) or isnan(count):
            return None
        total += int(min(count, prod(extents))) * -(-buffer.dtype.bits // 8)
    return total
