"""An estimate of the time of a kernel on a GPU, and its causes.

It is the roofline model (Williams, Waterman and Patterson, 2009) with one roof for each level: the
arithmetic of the cores, the accesses to shared memory with their bank conflicts, the sectors that
warps fetch from global memory, and the bytes that the kernel touches in all. They overlap as far as
enough warps are resident (occupancy), and the number of thread blocks is rounded up to whole waves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from codegen.target.gpu import BANKS, GRID_ROWS, SECTOR, WARP, GpuLimits
from codegen.target.tensor_cores import SIDE
from search.feature_extractor.gpu_kernels import (
    SHARED,
    Access,
    Ints,
    Kernel,
    ThreadStore,
    extent,
)
from search.feature_extractor.gpu_shared_memory import shared_bytes
from tensorir.nodes import expr as e
from tensorir.nodes.intrin import Op
from tensorir.nodes.stmt import For, ForKind
from tensorir.rewriting.visit import walk

MULTIPROCESSORS: Final = 108
"""The multiprocessors of a large GPU; a target's description does not have the number."""
_LANES: Final = 128
"""The multiply-adds that a multiprocessor starts in a cycle."""
TENSOR_LANES: Final = 1024
"""Those of its tensor cores for factors of 16 bits, as on an A100; other GPUs have 512 to 2048.
Factors of 8 bits are multiplied at twice the rate."""
OWN_REGISTERS: Final = 24
"""The registers of a thread for addresses, loop counters and operands."""
MOST_REGISTERS: Final = 255
_HELD: Final = 64
"""The registers in which a thread keeps loaded operands for later iterations."""
_L2_BYTES: Final = 32.0
_DRAM_BYTES: Final = 10.0
"""The bytes that a multiprocessor gets in a cycle from the second cache and from memory."""
_WARPS_NEEDED: Final = 16.0
"""The resident warps, times their independent operations, that hide latencies."""
_FUNCTION: Final = 8.0
"""The multiply-adds in whose time a mathematical function or a division is computed."""
_INTERLEAVED: Final = 8.0
"""The maximum number of independent results that a thread computes at a time."""
_BARRIER_CYCLES: Final = 40.0
_LAUNCH_CYCLES: Final = 4000.0
_DENIED: Final = 1e6
"""The factor of the time of a kernel for each limit that it exceeds, times the excess."""


UNFIT: Final = 1e18
"""More cycles than any kernel takes."""


@dataclass(frozen=True, slots=True)
class KernelEstimate:
    """The estimated time of a kernel in cycles, and the quantities that it depends on."""

    cycles: float
    arithmetic: float
    """The cycles of each roof, if nothing else took time: all multiprocessors together."""
    shared: float
    global_: float
    dram: float
    occupancy: float
    """The fraction of the threads that a multiprocessor can have which are resident."""
    waves: float
    """The thread blocks for each multiprocessor."""
    threads: int
    blocks: int
    shared_bytes: int
    registers: int
    """The registers of a thread."""
    sectors: float
    """The bytes of fetched sectors for each byte that is used: 1 if accesses are coalesced."""
    conflicts: float
    """The cycles of an access to shared memory, 1 without bank conflicts."""
    intensity: float
    """The operations for each byte from global memory."""
    steps: float
    """The steps with barriers that a thread block runs."""
    denied: float
    """The excess over limits of the target; 0 for a kernel that runs."""


@dataclass(slots=True)
class Work:
    """The work of a thread block."""

    operations: float = 0.0
    """Multiply-adds, counting those of idle threads of a warp."""
    shared: float = 0.0
    """Accesses of warps to shared memory, times conflicts."""
    shared_accesses: float = 0.0
    sectors: float = 0.0
    """Bytes of sectors."""
    used: float = 0.0
    """Bytes that threads ask for."""
    parallel: float = 1.0
    """The independent operations of a thread."""
    steps: float = 0.0


def roofs(work: Work) -> tuple[float, float, float]:
    """Return the cycles of a thread block for arithmetic, shared memory and global memory."""
    return work.operations / _LANES, work.shared, work.sectors / _L2_BYTES


def cycles_of(
    work: Work, blocks: int, threads: int, resident: int, local: int, touched: float
) -> float:
    """Return the cycles of a kernel.

    It has `blocks` thread blocks of so many threads, `resident` of which a multiprocessor runs at a
    time, `local` words of local memory for each thread, and touches so many bytes.
    """
    # Local memory beyond the registers goes to memory and back.
    spilled = max(0, local + OWN_REGISTERS - MOST_REGISTERS)
    work.sectors += 8.0 * spilled * threads * max(1.0, work.steps)
    at_once = max(1, min(resident, -(-blocks // MULTIPROCESSORS)))
    hidden = min(1.0, at_once * -(-threads // WARP) * work.parallel / _WARPS_NEEDED)
    one = math.hypot(*roofs(work)) / hidden + work.steps * _BARRIER_CYCLES / at_once
    dram = touched / _DRAM_BYTES / min(MULTIPROCESSORS, blocks)
    return math.hypot(one * math.ceil(blocks / MULTIPROCESSORS), dram) + _LAUNCH_CYCLES


@dataclass(frozen=True, slots=True)
class ThreadBlocks:
    """The thread blocks of a kernel that is described by its tiles, and the needs of each."""

    count: int
    rows: int
    """The number of them in an axis of the grid other than x."""
    threads: int
    allowed: tuple[int, int]
    """The least and the largest number of threads that the design allows."""
    local: int
    """The words of local memory of a thread."""
    shared: int
    """The bytes of shared memory."""

    def cycles(self, work: Work, gpu: GpuLimits) -> float:
        """Return the cycles of a kernel whose blocks do some work each.

        The result is `UNFIT` or more if a block needs more than a GPU has. Of two kernels that do
        not fit, the one that is farther from fitting has more cycles.
        """
        registers = self.local + OWN_REGISTERS
        low, high = self.allowed
        most = min(MOST_REGISTERS, gpu.multiprocessor.registers // max(1, self.threads))
        needs = (
            (low, self.threads),
            (self.threads, high),
            (self.shared, gpu.max_shared_memory_per_block),
            (registers, most),
            (self.rows, GRID_ROWS),
        )
        excess = math.prod(max(1.0, used / max(1, limit)) for used, limit in needs)
        if excess > 1:
            return UNFIT * excess
        resident, _ = gpu.multiprocessor.resident_blocks(self.threads, registers, self.shared)
        return cycles_of(work, self.count, self.threads, resident, self.local, 0.0)


def estimate(kernel: Kernel, gpu: GpuLimits) -> KernelEstimate:
    """Return the estimate of a kernel for a target with these limits."""
    threads, blocks = kernel.count("threadIdx"), kernel.count("blockIdx")
    shared, local = shared_bytes(kernel), kernel.local_words
    work = Work()
    touched = 0.0
    seen: set[object] = set()
    for store in kernel.stores:
        _add(kernel, store, threads, work)
        for access in store.accesses:
            if access.scope == "global" and access.buffer not in seen:
                seen.add(access.buffer)
                box = math.prod(kernel.spans(store, access, ()))
                touched += box * access.buffer.dtype.nbytes
    registers = min(local + OWN_REGISTERS, MOST_REGISTERS)
    resident, _ = gpu.multiprocessor.resident_blocks(threads, registers, shared)
    cycles = cycles_of(work, blocks, threads, resident, local, touched)
    denied = sum(
        max(0.0, used / most - 1)
        for used, most in (
            (threads, gpu.max_threads_per_block),
            (shared, max(1, gpu.max_shared_memory_per_block)),
            (kernel.vector_bytes, gpu.max_vector_bytes),
        )
    ) + (not kernel.is_bound)
    waves = blocks / MULTIPROCESSORS
    arithmetic, on_chip, fetched = roofs(work)
    return KernelEstimate(
        cycles * (1 + _DENIED * denied),
        arithmetic * waves,
        on_chip * waves,
        fetched * waves,
        touched / _DRAM_BYTES / MULTIPROCESSORS,
        gpu.multiprocessor.occupancy(threads, min(max(1, resident), math.ceil(waves))),
        waves,
        threads,
        blocks,
        shared,
        local + OWN_REGISTERS,
        work.sectors / max(1.0, work.used),
        work.shared / max(1.0, work.shared_accesses),
        work.operations * blocks / max(1.0, touched),
        work.steps,
        denied,
    )


def _add(kernel: Kernel, store: ThreadStore, threads: int, work: Work) -> None:
    """Add the work of a store in one thread block."""
    own = store.own_loops
    trips = [extent(loop) for loop in own]
    bound = {x.thread_tag: extent(x) for x in store.loops}
    active = math.prod(n for axis, n in bound.items() if axis.startswith("threadIdx")) or 1
    if store.fetch:
        copied = trips[-1] // store.fetch
        trips[-1], active = -(-copied // threads), min(copied, threads)
    elif not any(axis.startswith("threadIdx") for axis in bound):
        active = threads  # all threads compute the same
    vector = store.vector
    iterations = math.prod(trips) // (1 if store.fetch else vector)
    warps = -(-active // WARP)
    if store.uses_fragments:
        _add_fragments(kernel, store, active, work)
        return
    work.operations += iterations * vector * warps * WARP * _operations(store)
    lanes = _lane_values(store, min(active, WARP))
    for access in store.accesses:
        if access.scope == "local":
            continue
        loads = _kept(kernel, store, access, own, trips)
        size = access.buffer.dtype.nbytes
        starts = np.unique(kernel.elements(store, access, lanes)) * size
        if access.scope in SHARED:
            words = np.unique(starts // 4)
            degree = np.bincount(words % BANKS).max()
            work.shared += loads * warps * float(degree)
            work.shared_accesses += loads * warps * max(1.0, len(words) / BANKS)
        else:
            work.sectors += loads * warps * len(np.unique(starts // SECTOR)) * SECTOR
            work.used += loads * warps * len(starts) * size
    if store.accesses[0].scope in SHARED:
        serial = [extent(x) for x in own if not x.thread_tag and _is_shared_step(kernel, x)]
        work.steps = max(work.steps, float(math.prod(serial)))
    pairs = zip(own, trips, strict=True)
    results = math.prod(n for x, n in pairs if _moves(kernel, store, store.accesses[0], x))
    work.parallel = max(work.parallel, min(_INTERLEAVED, results))


def _add_fragments(kernel: Kernel, store: ThreadStore, warps: int, work: Work) -> None:
    """Add the work of a store in one thread block, whose elements each warp computes together."""
    own = store.own_loops
    elements = math.prod(map(extent, own)) * warps
    factors = [access.buffer.dtype for access in store.accesses[1:]]
    if len(factors) > 1:
        work.operations += tensor_operations(elements, factors[-1].nbytes)
        tiles = math.prod(extent(x) for x in own if _moves(kernel, store, store.accesses[0], x))
        work.parallel = max(work.parallel, min(_INTERLEAVED, tiles / SIDE**2))
    for access in store.accesses:
        if access.scope in SHARED:
            accesses = elements * access.buffer.dtype.nbytes / (BANKS * 4)
            rows = {own[-2].loop_var: np.arange(ROWS_AT_ONCE)}
            starts = kernel.elements(store, access, rows) * access.buffer.dtype.nbytes
            work.shared += accesses * row_conflicts(starts)
            work.shared_accesses += accesses


ROWS_AT_ONCE: Final = 8
"""The rows of a tile of which a warp accesses 16 bytes each at a time."""


def row_conflicts(starts: Ints) -> float:
    """Return the cycles in which a warp accesses rows of a tile that begin at these bytes."""
    banks = (starts[:, None] // 4 + np.arange(BANKS // ROWS_AT_ONCE)) % BANKS
    return float(np.bincount(banks.flat).max())


def tensor_operations(products: float, nbytes: int) -> float:
    """Return the multiply-adds of the cores in whose time tensor cores make so many products.

    The factors have `nbytes` bytes each.
    """
    return products * _LANES / TENSOR_LANES * nbytes / 2


def _operations(store: ThreadStore) -> float:
    """Return the multiply-adds, or what takes as long, of one iteration."""
    total = 0.0
    for node in walk(store.node.value):
        if isinstance(node, (e.Div, e.Mod)):
            total += _FUNCTION
        elif isinstance(node, e.Call):
            is_choice = isinstance(node.op, Op) and node.op.short_name in ("if_then_else", "likely")
            total += 1.0 if is_choice else _FUNCTION
        elif isinstance(node, (e.Mul, e.Min, e.Max, e.Select)):
            total += 1.0
        elif isinstance(node, (e.Add, e.Sub)) and not isinstance(node.a, e.IntImm):
            has_product = isinstance(node.a, e.Mul) or isinstance(node.b, e.Mul)
            total += 0.0 if has_product else 1.0
    return max(1.0, total)


def _lane_values(store: ThreadStore, lanes: int) -> dict[e.Var, Ints]:
    """Return the values of bound and vectorised loops in the threads of a warp.

    The arrays have a row for each thread and a column for each element of a vector.
    """
    numbers = np.arange(lanes)[:, None]
    values: dict[e.Var, Ints] = {}
    below = 1
    sizes = {x.thread_tag: extent(x) for x in store.loops}
    for axis in ("threadIdx.x", "threadIdx.y", "threadIdx.z"):
        size = sizes.get(axis, 1)
        for loop in store.loops:
            if loop.thread_tag == axis:
                values[loop.loop_var] = numbers // below % size
        below *= size
    if store.fetch:
        values[store.loops[-1].loop_var] = numbers * store.fetch + np.arange(store.fetch)
    inside = 1
    for loop in reversed(store.loops):
        if loop.kind is ForKind.VECTORIZED:
            elements = np.arange(store.vector)
            values[loop.loop_var] = elements // inside % extent(loop)
            inside *= extent(loop)
    return values


def _kept(
    kernel: Kernel, store: ThreadStore, access: Access, loops: list[For], trips: list[int]
) -> float:
    """Return the number of accesses of a thread, if registers keep what inner loops repeat."""
    count = held = 1.0
    keeps = True
    for loop, trip in zip(reversed(loops), reversed(trips), strict=True):
        if loop.kind is ForKind.VECTORIZED:
            continue
        is_copied = store.fetch > 0 and loop is store.loops[-1]
        moves = is_copied or _moves(kernel, store, access, loop)
        if moves:
            held *= trip
        keeps = keeps and held <= _HELD
        count *= trip if moves or not keeps else 1
    return count


def _moves(kernel: Kernel, store: ThreadStore, access: Access, loop: For) -> bool:
    if extent(loop) == 1:
        return False
    others = [x for x in store.loops if x is not loop]
    return math.prod(kernel.spans(store, access, others)) > 1


def _is_shared_step(kernel: Kernel, loop: For) -> bool:
    """Return True for a serial loop around several stores, which barriers separate."""
    return sum(loop in store.loops for store in kernel.stores) > 1
