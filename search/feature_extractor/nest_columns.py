"""The columns of a nest: quantities that determine its speed, for all programs of a structure.

They follow the roofline model (Williams, Waterman and Patterson, 2009): the instructions of an
element, and the lines that each cache fetches for it. Nearly all are per element or per vector, or
relative to a size of the machine, so that a model can transfer them to other programs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from search.feature_extractor.execution import Execution, execution
from search.feature_extractor.footprints import CACHES, PAGES, ColdWeight, footprints
from search.feature_extractor.machine import Machine
from search.feature_extractor.nests import Array, Drives, Nest, Work

COLUMNS: Final = (
    ("iterations", "log2 of the iterations"),
    ("vector", "log2 of the lanes of a vector"),
    ("vector_use", "the fraction of the registers' lanes that vectors fill"),
    ("pieces", "log2 of the registers that a vector fills"),
    ("accumulators", "log2 of the registers that the tile fills"),
    ("run", "log2 of the reduction steps while a tile stays in registers"),
    ("pressure", "registers that the tile needs, relative to those of the machine"),
    ("loads", "loads for each vector update"),
    ("contiguous", "loads of whole vectors for each vector update"),
    ("broadcast", "loads of one element for all lanes, for each vector update"),
    ("gathered", "loads of single lanes for each vector update"),
    ("scattered", "1 if lanes are stored one by one, else 0"),
    ("tile_traffic", "loads and stores of accumulators for each vector update"),
    ("chain", "cycles that too few accumulators wait for each other, for each step"),
    ("code", "log2 of the unrolled statements"),
    ("overhead", "log2 of the loop iterations for each vector update"),
    ("innermost", "log2 of the iterations of the innermost loop that is not unrolled"),
    ("unroll", "log2 of the limit of unrolling, plus one"),
    ("update_cycles", "log2 of the cycles for a vector update, data in the first cache"),
    ("element_cycles", "log2 of the cycles for each element, loops included"),
    ("l1_lines", "log2 of the lines that the first cache fetches for each vector update"),
    ("l2_lines", "log2 of the lines that the second cache fetches for each vector update"),
    ("l3_lines", "log2 of the lines that the third cache fetches for each vector update"),
    ("l1_largest", "log2 of the maximum over accesses of the lines that the first cache fetches"),
    ("l2_largest", "log2 of the maximum over accesses of the lines that the second cache fetches"),
    ("l1_written", "log2 of the lines that the first cache fetches for the stored buffer"),
    ("l2_written", "log2 of the lines that the second cache fetches for the stored buffer"),
    ("l1_entries", "log2 of the times that the data in the first cache are replaced"),
    ("l2_entries", "log2 of the times that the data in the second cache are replaced"),
    (
        "tile_bytes",
        "log2 of the bytes that a tile with its run touches, relative to the first cache",
    ),
    ("bytes", "log2 of the bytes that all iterations touch, relative to the second cache"),
    ("memory", "the fraction of the estimated time for all fetches"),
    ("memory_l1", "the fraction of the estimated time for fetches into the first cache"),
    ("parallel", "log2 of the iterations of the parallel loop"),
    ("fused", "the number of loops that are fused to the parallel loop"),
    ("balance", "the fraction of the cores that parallel iterations keep busy"),
    ("updates", "1 if the store updates an element that it loads, else 0"),
    ("functions", "mathematical functions for each element"),
    ("divisions", "divisions for each element"),
    ("choices", "comparisons and selections for each element"),
    ("arithmetic", "other operations for each element, a multiply-add counted once"),
    ("accesses", "the number of accesses"),
    ("tiles", "log2 of the number of tiles"),
    ("cycles", "log2 of the estimated cycles for each element, with memory"),
    ("intrinsic", "1 if an intrinsic replaces the innermost loops, else 0"),
    ("repeats", "log2 of the iterations that repeat a computation, which LLVM hoists"),
)
"""The columns of one store, with their meanings."""

_LOOP_SLOTS: Final = 3.0
"""The instructions of a loop's counter and branch."""
_SPILL_CYCLES: Final = 2.0
_FUNCTION_CYCLES: Final = (10.0, 20.0)
"""The cycles of a mathematical function on a vector register, and on one element."""
_DIVISION_CYCLES: Final = 4.0
_STREAMS: Final = 8
"""The number of interleaved streams from different pages that a core reads at full speed."""
_STREAM_COST: Final = 0.2
"""The relative increase of fetch times past the first cache with each doubling of the streams: a
vector-matrix product in memory takes 1.2, 1.25 and 2.9 times as long with 16, 32 and 4096
interleaved rows."""
_START_CYCLES: Final = 1500.0
"""The cycles of the first load from memory in a new place, until prefetchers are ahead."""
_FOLLOWED: Final = slice(1, 3)
"""The levels that prefetchers fill."""
_MAX_COPIES: Final = 256
"""The maximum number of vector statements to which LLVM unrolls."""


@dataclass(frozen=True, slots=True)
class StoreColumns:
    """The columns and the estimated time of one store of all programs."""

    columns: Array
    """The values [columns, programs]."""
    cycles: Array
    """An estimate of the store's time [programs]."""


@dataclass(frozen=True, slots=True)
class _Loads:
    """The loads of a tile, in loads for each of its steps."""

    contiguous: Array
    broadcast: Array
    gathered: Array
    held: Array
    """The registers of the smallest operand, which stays while the others are loaded."""
    each: list[Array]
    """The loads of each access of the store."""

    @property
    def total(self) -> Array:
        return self.contiguous + self.broadcast + self.gathered


def columns_of(programs: Sequence[Sequence[Nest]], machine: Machine) -> list[list[StoreColumns]]:
    """Return the columns of all stores of programs, given by their nests.

    Nests of one structure are computed together, across programs.
    """
    alike: dict[tuple[tuple[bool, ...], Hashable], list[tuple[int, slice]]] = {}
    for k, nests in enumerate(programs):
        of_program = _forks(nests)
        for part in _with_inits(nests):
            structure = *(nest.structure for nest in nests[part]), *_places(nests[part])
            alike.setdefault((tuple(of_program[part]), structure), []).append((k, part))
    found: list[dict[int, StoreColumns]] = [{} for _ in programs]
    for (forks, _), members in alike.items():
        units = [programs[k][part] for k, part in members]
        joined = [Nest.joined(nests) for nests in zip(*units, strict=True)]
        made = _columns_of_one(joined, machine, forks)
        first = 0
        for k, part in members:
            last = first + programs[k][part.start].count
            for place, each in enumerate(made, part.start):
                found[k][place] = StoreColumns(each.columns[:, first:last], each.cycles[first:last])
            first = last
    return [[of_one[place] for place in range(len(of_one))] for of_one in found]


def _with_inits(nests: Sequence[Nest]) -> Iterator[slice]:
    """Yield the ranges of the nests of a program, with an init and its updates in one range."""
    start = 0
    for k, nest in enumerate(nests):
        if k + 1 == len(nests) or not _starts(nest, nests[k + 1]):
            yield slice(start, k + 1)
            start = k + 1


def _starts(nest: Nest, later: Nest) -> bool:
    """Return True if a nest is the init of the reduction in a later nest."""
    same = nest.buffers[0] == later.buffers[0]
    return nest.store.is_init and same and set(nest.store.loops) <= set(later.store.loops)


def _places(nests: Sequence[Nest]) -> list[tuple[int, ...]]:
    """Return the positions of the loops of each nest among the loops of the next nest."""
    return [
        tuple(later.store.loops.index(loop) for loop in nest.store.loops)
        for nest, later in pairwise(nests)
    ]


def _forks(nests: Sequence[Nest]) -> list[bool]:
    """Return True for each nest that pays for the fork of its outermost loop: the first in it."""
    outermost = [nest.store.loops[0] if nest.store.loops else -1 for nest in nests]
    return [loop not in outermost[:k] for k, loop in enumerate(outermost)]


def _columns_of_one(
    nests: Sequence[Nest], machine: Machine, forks: Sequence[bool]
) -> list[StoreColumns]:
    """Return the columns of a nest, or of an init and its updates; `forks` is that of `_forks`."""
    cpu = machine.vector_bits, machine.vector_registers, machine.updates_in_flight
    ways = [execution(nest, *cpu) for nest in nests]
    # The init of a block is separated after its loops are in their final order.
    ways[:-1] = [way.of_loops(at) for way, at in zip(ways[1:], _places(nests), strict=True)]
    return [
        _columns(nest, how, machine, machine.fork_cycles if pays else 0.0)
        for nest, how, pays in zip(nests, ways, forks, strict=True)
    ]


def _columns(nest: Nest, how: Execution, machine: Machine, fork_cycles: float) -> StoreColumns:
    """Return the columns of a store; `fork_cycles` are added if it has a parallel loop."""
    touched = footprints(nest, how, machine)
    elements = nest.extents.prod(0)
    vector, pieces, tile = how.vector, how.pieces, how.tile
    accumulators, run = tile * pieces, how.run.prod(0)
    steps = how.padded.prod(0) / (vector * tile)
    updates = steps * accumulators
    loads = _loads(nest, how)
    scattered = (_lane_stride(how, nest.strides[0]) > 1) & (vector > 1)
    kept, apart = _kept_steps(nest, how)
    waits = np.where(kept > 1, machine.fma_latency, machine.forward_cycles / apart)
    waits = waits * nest.store.updates
    stored = np.where(scattered, vector * tile, accumulators) / kept
    written = stored * (1 + nest.store.updates)
    code, innermost = _written_out(nest, how)
    repeats = _repeats(nest, code * vector)
    work = nest.store.work
    fused = nest.store.updates and work[Work.ARITHMETIC] > 1
    arithmetic = work[Work.ARITHMETIC] - fused
    needed = _registers(accumulators, pieces, loads)
    chain = np.zeros(nest.count)
    if nest.store.updates:
        chain = np.maximum(0, machine.fma_latency - accumulators / machine.fma_units)
    on_vector, on_element = _FUNCTION_CYCLES
    function = np.where(vector > 1, on_vector, on_element * vector / pieces)
    issued = accumulators * arithmetic / machine.fma_units
    overhead = tile / code
    slots = accumulators * max(1, arithmetic) + loads.total + written + _LOOP_SLOTS * overhead
    cycles = _overlapped_time(
        issued,
        (loads.total + written - stored) / machine.loads,
        stored,
        slots / machine.issue,
        waits,
    )
    cycles = cycles + _SPILL_CYCLES * _smooth_excess(needed - machine.vector_registers)
    cycles = cycles + accumulators * (
        work[Work.FUNCTION] * function + work[Work.DIVISION] * _DIVISION_CYCLES + work[Work.CHOICE]
    )
    compute = steps / repeats * cycles
    # Boxes overestimate: an access fetches at most one line.
    fetches = np.minimum(touched.fetched, steps * np.array([written, *loads.each])[:, None])
    fetched, largest = fetches.sum(0), fetches.max(0)
    slower = 1 + _STREAM_COST * np.log2(np.maximum(1, touched.streams / _STREAMS))
    slowed = fetches.copy()
    slowed[:, _FOLLOWED] *= slower[:, None]
    fetching = np.array(machine.level_cycles)[:, None] * slowed.sum(0)
    lines, pages = fetching[CACHES].sum(0), fetching[PAGES].sum(0)
    fetch = _overlapped_time(lines, pages)
    busy = how.parallel / np.ceil(how.parallel / machine.cores)
    time = _overlapped_time(compute, fetch)
    for weight in touched.weights:
        time = time + _first_loads(weight, compute, busy, machine)
    values = (
        _log(elements),
        _log(vector),
        vector / (pieces * how.register),
        _log(pieces),
        _log(accumulators),
        _log(run),
        needed / machine.vector_registers,
        loads.total / accumulators,
        loads.contiguous / accumulators,
        loads.broadcast / accumulators,
        loads.gathered / accumulators,
        scattered,
        written / accumulators,
        chain,
        _log(code),
        _log(overhead / accumulators),
        _log(innermost),
        _log(nest.unroll + 1),
        _log(cycles / accumulators),
        _log(compute / elements),
        *_log(fetched[CACHES] / updates),
        *_log(largest[:2] / updates),
        *_log(fetches[0, :2] / updates),
        *_log(touched.entries[:2]),
        _log(touched.tile_bytes / machine.caches[0]),
        _log(touched.total_bytes / machine.caches[1]),
        fetch / time,
        fetching[0] / time,
        _log(how.parallel),
        how.fused,
        busy / machine.cores,
        nest.store.updates,
        work[Work.FUNCTION],
        work[Work.DIVISION],
        work[Work.CHOICE],
        arithmetic,
        len(nest.strides),
        _log(steps / run),
        _log(time / elements),
        nest.store.intrinsic_from < len(nest.store.loops),
        _log(repeats),
    )
    columns = np.empty((len(COLUMNS), nest.count))
    for k, value in enumerate(values):
        columns[k] = value
    return StoreColumns(columns, time / busy + np.where(how.parallel > 1, fork_cycles, 0.0))


def _first_loads(weight: ColdWeight, compute: Array, busy: Array, machine: Machine) -> Array:
    """Return the cycles that the first loads of a weight add, on all `busy` cores.

    A line is loaded for the computations of its first use only, and these wait for it. Prefetchers
    start again in each part of the weight. Cores whose iterations need the same elements each load
    them.
    """
    first = compute / weight.uses
    fetching = np.asarray(machine.fetch_cycles) @ weight.fetched
    waiting = _overlapped_time(first, fetching) - first
    return (waiting + _START_CYCLES * weight.chunks) * np.maximum(1, busy / weight.shares)


def _overlapped_time(*times: Array) -> Array:
    """Return the time of overlapping work: between the longest single time and the sum."""
    return np.asarray(np.sqrt(sum(time**2 for time in times)))


def _log(x: Array) -> Array:
    return np.log2(np.maximum(x, 2.0**-20))


def _lane_stride(how: Execution, strides: Array) -> Array:
    """Return the distance of neighbouring lanes in elements, 0 for a broadcast."""
    found: Array = np.where((how.lanes > 1) & (strides > 0), strides, np.inf).min(0, initial=np.inf)
    return np.where(np.isinf(found), 0, found)


def _loads(nest: Nest, how: Execution) -> _Loads:
    zero = np.zeros(nest.count)
    contiguous, broadcast, gathered = zero, zero, zero
    held = np.full(nest.count, np.inf)
    vector, pieces = how.vector, how.pieces
    each = []
    for strides, is_free in zip(nest.strides[1:], nest.free[1:], strict=True):
        moved = np.where(strides > 0, how.inner, 1).prod(0)
        apart = _lane_stride(how, strides)
        if is_free:
            apart = np.minimum(apart, 1)
        parts = (
            np.where(apart == 1, moved * pieces, 0),
            np.where(apart == 0, moved, 0),
            np.where((apart != 0) & (apart != 1), moved * vector, 0),
        )
        contiguous, broadcast = contiguous + parts[0], broadcast + parts[1]
        gathered = gathered + parts[2]
        each.append(np.sum(parts, 0))
        held = np.minimum(held, np.where(apart == 0, moved, moved * pieces))
    return _Loads(contiguous, broadcast, gathered, np.where(np.isinf(held), 0, held), each)


def _registers(accumulators: Array, pieces: Array, loads: _Loads) -> Array:
    """Return the registers of a step, which keeps one operand and loads the others.

    All pieces of a vector are loaded together, and a broadcast fills one register.
    """
    vectors = np.where(loads.contiguous > 0, pieces, 0)
    return accumulators + np.maximum(loads.held, vectors) + (len(loads.each) > 1)


def _smooth_excess(excess: Array) -> Array:
    """Return the excess over a limit, smoothed because the limit is uncertain by about 1/2."""
    return np.asarray(np.logaddexp(0, 2 * excess) / 2)


def _kept_steps(nest: Nest, how: Execution) -> tuple[Array, Array]:
    """Return the steps during which accumulators stay in registers, and the distance of updates.

    LLVM keeps accumulators in registers in the reduction loops directly around a tile, too. If
    spatial loops are in between, the sums are in memory, and the distance is their iterations.
    """
    kept: Array = how.run.prod(0)
    apart = np.ones(nest.count)
    around, between = np.ones(nest.count, bool), np.ones(nest.count, bool)
    for place in reversed(nest.loops):
        trips = how.outer[place]
        if nest.drives[place] is Drives.REDUCTION:
            kept = np.where(around, kept * trips, kept)
            between &= trips == 1
        else:
            around &= trips == 1
            apart = np.where(between, apart * trips, apart)
    return kept, apart


def _repeats(nest: Nest, written_out: Array) -> Array:
    """Return the number of repetitions of the same computation that LLVM can hoist."""
    still = np.array(nest.strides).sum(0) == 0
    reduces = np.array([drives is Drives.REDUCTION for drives in nest.drives])
    again = still & ~reduces[:, None] & (nest.extents > 1)
    inside = nest.extents[::-1].cumprod(0)[::-1] / nest.extents
    return np.asarray(np.where(again & (inside <= written_out), nest.extents, 1).prod(0))


def _written_out(nest: Nest, how: Execution) -> tuple[Array, Array]:
    """Return the number of unrolled statements, and the extent of the loop around them."""
    trips = np.concatenate([how.run[::-1], how.outer[::-1]])
    statements = how.tile * np.cumprod(trips, 0)
    fits = (statements <= nest.unroll) & (statements * how.pieces <= _MAX_COPIES)
    fits = np.logical_and.accumulate(fits | (trips == 1), 0)
    code = np.where(fits, statements, 1).max(0, initial=1)
    around = np.where(fits.all(0), 0, fits.argmin(0))
    innermost = np.where(fits.all(0), 1, trips[around, np.arange(nest.count)])
    return np.maximum(code, how.tile), innermost
