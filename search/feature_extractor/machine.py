"""The model of a CPU that features, rules and reports use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from codegen import Target
from codegen.machine import MachineSpeed, known_speed

CACHE_LINE: Final = 64
"""Bytes of a cache line of x86 and most aarch64 CPUs."""
PAGE: Final = 4 << 10
"""Bytes of a usual page; arrays in pages of 2 MiB are rare."""
L1_WAY: Final = PAGE
"""Bytes of a way of the first cache of x86, which is indexed by the page offset."""
L1_WAY_ELSEWHERE: Final = 16 << 10
L2_WAY: Final = 64 << 10
"""Bytes of a way of most second caches, from 256 KiB in 4 ways to 1 MiB in 16."""
_FORK_CYCLES: Final = 1500.0
_JOIN_CYCLES: Final = 250.0
"""The cycles of a parallel loop for each thread."""
_FALLS_SHORT: Final = 1.05
"""The factor from a measured rate to the peak."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A CPU. Sizes are in bytes, times in cycles."""

    vector_bits: int
    vector_registers: int
    updates_in_flight: int
    """The number of accumulators that hides the latency of multiply-adds."""
    caches: tuple[int, int, int]
    """The sizes of the data caches of one core, smallest first."""
    way_bytes: tuple[int, int]
    """The sizes of a way of the first two caches; addresses at this distance share a set."""
    tlb: tuple[int, int]
    """The numbers of entries of the first and the second TLB."""
    cores: int
    fma_units: float
    """Multiply-adds of whole vectors per cycle."""
    fma_latency: float
    loads: float
    """Loads of whole vectors per cycle; the number of stores is one."""
    issue: float
    """Instructions per cycle."""
    fetch_cycles: tuple[float, float, float]
    """The additional cycles of a line that each cache fetches from the next level, in loops that
    access memory in order."""
    page_cycles: tuple[float, float]
    """The additional cycles of a miss in the first and in the second TLB."""
    forward_cycles: float
    """The cycles between two updates of a sum in memory."""
    fork_cycles: float
    """The cycles of waking the threads of a parallel loop, and waiting for the last one."""
    weights_are_cold: bool = False
    """True if weights are in no cache when a kernel begins."""

    def is_worth_a_fork(self, cycles: float) -> bool:
        """Return True if all cores together finish work of this many cycles earlier than one."""
        return cycles * (1 - 1 / self.cores) > self.fork_cycles

    @property
    def rooms(self) -> tuple[float, ...]:
        """The capacities of all levels: lines of the caches, then entries of the TLBs."""
        return (*(size / CACHE_LINE for size in self.caches), *self.tlb)

    @property
    def level_cycles(self) -> tuple[float, ...]:
        """The cycles of a miss in each of these levels."""
        return (*self.fetch_cycles, *self.page_cycles)

    @staticmethod
    def of(target: Target, weights_are_cold: bool = False) -> Machine:
        """Return the CPU of a target.

        Times are measured ones if the target is this machine and was measured, else those of the
        CPU model.
        """
        speed = known_speed(target)
        core, caches = target.core, target.caches
        return Machine(
            target.vector_bits,
            target.vector_registers,
            target.updates_in_flight,
            (caches.l1, caches.l2, caches.l3),
            (L1_WAY if target.architecture == "x86_64" else L1_WAY_ELSEWHERE, L2_WAY),
            core.tlb,
            target.num_cores or 1,
            target.fma_units if speed is None else _round_to_halves(_FALLS_SHORT * speed.fma_units),
            target.fma_latency if speed is None else _round_to_halves(speed.fma_latency),
            core.vector_loads_per_cycle(target.vector_bits)
            if speed is None
            else _round_to_halves(_FALLS_SHORT * speed.loads),
            core.issue,
            core.fetch_cycles if speed is None else _fetch_cycles(speed),
            core.page_cycles if speed is None else _page_cycles(speed),
            core.forward_cycles if speed is None else _round_to_halves(speed.forward_cycles),
            _fork_cycles(target, speed),
            weights_are_cold,
        )


def weights_are_cold(nbytes: int, target: Target) -> bool:
    """Return True if each call of a model reads its weights of so many bytes from memory.

    Other data, and other processes, leave them half of the third cache.
    """
    return target.gpu is None and nbytes > target.caches.l3 / 2


def _fork_cycles(target: Target, speed: MachineSpeed | None) -> float:
    """Return the measured cycles of a parallel loop, or the typical cycles of OpenMP."""
    if speed is not None and speed.fork_seconds > 0:
        return speed.fork_seconds * speed.clock
    return _FORK_CYCLES + _JOIN_CYCLES * (target.num_cores or 1)


def _round_to_halves(value: float) -> float:
    """Return a measured number of units or cycles, rounded to halves."""
    return max(0.5, round(2 * value) / 2)


def _fetch_cycles(speed: MachineSpeed) -> tuple[float, float, float]:
    l1, l2, l3, memory = speed.line_cycles(CACHE_LINE)
    return max(0.0, l2 - l1), max(0.0, l3 - l2), max(0.0, memory - l3)


def _page_cycles(speed: MachineSpeed) -> tuple[float, float]:
    first, second = speed.page_cycles
    return first, max(0.0, second - first)
