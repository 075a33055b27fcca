"""The reasons why a kernel of a GPU is slow: its registers, its occupancy, its accesses."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from codegen.devices.compile import compile_lowered
from codegen.devices.launches import Kernel, launches
from codegen.devices.ptxas import Resources, assemble, ptxas_path
from codegen.explanation.explain import Explanation, Tabulated
from codegen.lower import lower
from codegen.lower.thread_axes import axis_of, tensor_core_of
from codegen.target import Target
from codegen.target.gpu import BANKS, SECTOR, WARP
from tensorir.arith.analyzer import Analyzer
from tensorir.function import PrimFunc
from tensorir.indices.accesses import loads_in, placed_statements
from tensorir.memory.storage_scopes import memory_of
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import IntImm, PrimExpr, Ramp, Var
from tensorir.nodes.ops import const, is_const_int
from tensorir.nodes.stmt import BufferStore, For, ForKind
from tensorir.rewriting.visit import substitute

_BANK_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """A kernel, and what a block of its threads takes from a multiprocessor."""

    function: str
    kernel: str
    block: tuple[int, int, int]
    """The threads of a block on the axes x, y, z."""
    shared_bytes: int
    resources: Resources | None
    """None for GPUs that are not NVIDIA's, and where its assembler is not installed."""
    occupancy: float | None
    """The fraction of the threads that a multiprocessor holds at most which can be there at once;
    None for GPUs that are not NVIDIA's. Registers count only where `resources` are known."""
    limited_by: str
    """What a multiprocessor lacks first: "threads", "blocks", "registers" or "shared memory"."""


@dataclass(frozen=True, slots=True)
class GpuAccess:
    """A load or store of the threads of a kernel; alike ones are counted in one."""

    function: str
    kernel: str
    kind: str
    """ "load" or "store"."""
    buffer: str
    scope: str
    statement: str
    """The buffer that the statement with the access stores to."""
    times: int | None
    """How often a thread does it, conditions left aside; None where it depends on the arguments."""
    lanes: int
    """Elements of one access of a thread."""
    efficiency: float | None
    """In global memory, the bytes that a warp uses of each byte that is moved, 1 if the access is
    coalesced; more where threads share elements. None if indices depend on contents of buffers."""
    conflicts: int | None
    """In shared memory, how many turns the banks take, 1 without conflicts; None as above."""


@dataclass(slots=True)
class GpuExplanation(Explanation):
    """The facts about the kernels of a program for a GPU."""

    kernels: list[KernelFacts] = field(default_factory=list)
    gpu_accesses: list[GpuAccess] = field(default_factory=list)

    tables: ClassVar[Tabulated] = ()

    def _title(self, function: str) -> str:
        return f"{function} on {self.target.kind} {self.target.arch}".rstrip()


def explain_for_gpu(functions: Mapping[str, PrimFunc], target: Target) -> GpuExplanation:
    """Explain the kernels of functions; `codegen.explain` calls it for targets that are GPUs."""
    return explain_lowered({name: lower(f, target) for name, f in functions.items()}, target)


def explain_lowered(functions: Mapping[str, PrimFunc], target: Target) -> GpuExplanation:
    """Explain the kernels of functions that are lowered already."""
    explanation = GpuExplanation(target, tuple(functions))
    for name, func in functions.items():
        compiled = compile_lowered({name: func}, target).functions[0]
        for kernel in launches(func, name).kernels:
            code = compiled.kernels[kernel.name]
            explanation.kernels.append(_kernel_facts(name, kernel, code, target))
            explanation.gpu_accesses += _accesses(name, kernel)
    return explanation


def _kernel_facts(function: str, kernel: Kernel, code: bytes, target: Target) -> KernelFacts:
    is_nvidia, limits = target.kind == "cuda", target.gpu
    resources = None
    if is_nvidia and ptxas_path():
        resources = assemble(code, target.arch)[kernel.name]
    occupancy, limit = None, ""
    if is_nvidia and limits is not None:
        threads, shared = math.prod(kernel.block), kernel.shared_bytes
        registers = 0 if resources is None else resources.registers
        unit = limits.multiprocessor
        blocks, limit = unit.resident_blocks(threads, registers, shared)
        occupancy = unit.occupancy(threads, blocks)
    return KernelFacts(
        function, kernel.name, kernel.block, kernel.shared_bytes, resources, occupancy, limit
    )


# ---------------------------------------------------------------------------------------- accesses


def _accesses(function: str, kernel: Kernel) -> list[GpuAccess]:
    found: Counter[GpuAccess] = Counter()
    unknown: set[GpuAccess] = set()
    for node, around in placed_statements(kernel.func.body):
        is_tile = any(tensor_core_of(part) is not None for part in around)
        if not isinstance(node, BufferStore) or is_tile:
            continue
        loops = [loop for loop in around if isinstance(loop, For)]
        places = _WarpPlaces(kernel, loops)
        times = _times(loops)
        for kind, buffer, indices in _parts(node):
            scope = memory_of(buffer.data)
            if scope == "local":
                continue
            (index,), size = indices, buffer.dtype.nbytes
            lanes = index.dtype.lanes
            singly = 1 if isinstance(index, Ramp) and is_const_int(index.stride, 1) else lanes
            lanes //= singly
            starts = places.of(index)
            efficiency = conflicts = None
            if starts is not None:
                starts = [start * size for start in starts]
                if scope == "global":
                    efficiency = _efficiency(starts, lanes * size)
                else:
                    conflicts = _conflicts(starts, lanes * size)
            access = GpuAccess(
                *(function, kernel.name, kind, buffer.name, scope, node.buffer.name),
                *(0, lanes, efficiency, conflicts),
            )
            found[access] += singly * (times or 0)
            if times is None:
                unknown.add(access)
    return [
        GpuAccess(**{**_fields(a), "times": None if a in unknown else n}) for a, n in found.items()
    ]


def _fields(access: GpuAccess) -> dict[str, Any]:
    return {name: getattr(access, name) for name in GpuAccess.__dataclass_fields__}


def _parts(node: BufferStore) -> Iterator[tuple[str, Buffer, tuple[PrimExpr, ...]]]:
    yield "store", node.buffer, node.indices
    for load in loads_in(node.value):
        yield "load", load.buffer, load.indices


def _times(loops: Iterable[For]) -> int | None:
    """Return how often one thread runs what is inside of loops."""
    own = [loop.extent for loop in loops if loop.kind is not ForKind.THREAD_BINDING]
    known = [extent.value for extent in own if isinstance(extent, IntImm)]
    return math.prod(known) if len(known) == len(own) else None


class _WarpPlaces:
    """The places that the threads of a warp access, as distances from the first thread's."""

    def __init__(self, kernel: Kernel, loops: Iterable[For]) -> None:
        x, y, _ = kernel.block
        bound = {axis_of(loop): loop.loop_var for loop in loops}
        steps = {"threadIdx.x": (1, x), "threadIdx.y": (x, y), "threadIdx.z": (x * y, WARP)}
        self._threads: list[dict[Var, PrimExpr]] = [
            {
                var: const(number // steps[tag][0] % steps[tag][1], var.dtype)
                for tag, var in bound.items()
                if tag in steps
            }
            for number in range(min(WARP, math.prod(kernel.block)))
        ]
        self._analyzer = Analyzer()

    def of(self, index: PrimExpr) -> list[int] | None:
        """Return the distances; None if they depend on more than the threads."""
        first = index.base if isinstance(index, Ramp) else index
        if first.dtype.lanes > 1:
            return None
        start = substitute(first, self._threads[0])
        distances = []
        for values in self._threads:
            distance = self._analyzer.simplify(substitute(first, values) - start)
            if not isinstance(distance, IntImm):
                return None
            distances.append(distance.value)
        return distances


def _efficiency(starts: list[int], nbytes: int) -> float:
    low = min(starts)
    ends = [(start - low, start - low + nbytes - 1) for start in starts]
    sectors = {k for first, last in ends for k in range(first // SECTOR, last // SECTOR + 1)}
    return min(1.0, len(starts) * nbytes / (len(sectors) * SECTOR))


def _conflicts(starts: list[int], nbytes: int) -> int:
    """Return how many turns the banks take; wide accesses go in parts of 128 bytes."""
    words = max(1, nbytes // _BANK_BYTES)
    part = max(1, WARP // words)
    turns = 0
    for k in range(0, len(starts), part):
        touched = {
            start // _BANK_BYTES + word for start in starts[k : k + part] for word in range(words)
        }
        turns = max(turns, *Counter(word % BANKS for word in touched).values())
    return turns


# --------------------------------------------------------------------------------------- as tables


def _kernel_row(f: KernelFacts) -> tuple[str, ...]:
    used = f.resources
    registers = ("?", "?", "?")
    if used is not None:
        registers = (str(used.registers), str(used.spill_bytes), str(used.stack_bytes))
    block = "x".join(map(str, f.block))
    occupancy = "?" if f.occupancy is None else f"{f.occupancy:.0%}"
    return f.kernel, block, str(f.shared_bytes), *registers, occupancy, f.limited_by


def _access_row(f: GpuAccess) -> tuple[str, ...]:
    if f.scope == "global":
        known = f.efficiency is not None
        quality = f"{f.efficiency:.0%} of the bytes used" if known else "indices are loaded"
        if f.efficiency == 1.0:
            quality = "coalesced"
    elif f.conflicts is None:
        quality = "indices are loaded"
    else:
        quality = "no conflicts" if f.conflicts == 1 else f"{f.conflicts} conflicting"
    times = "?" if f.times is None else str(f.times)
    return f.kernel, f"{f.kind} {f.buffer}", f.statement, f.scope, times, str(f.lanes), quality


GpuExplanation.tables = (
    (
        "kernels",
        _kernel_row,
        ("kernel", "block", "shared", "registers", "spills", "stack", "occupancy", "limit"),
        {"shared", "registers", "spills", "stack", "occupancy"},
    ),
    (
        "gpu_accesses",
        _access_row,
        ("kernel", "access", "for", "scope", "times", "lanes", "warp"),
        {"times", "lanes"},
    ),
)
