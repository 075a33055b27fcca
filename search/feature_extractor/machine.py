"""The processor of a target, as features suppose it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from codegen import Target
from codegen.machine import MachineSpeed, known_speed

CACHE_LINE: Final = 64
"""Bytes that x86 and most aarch64 CPUs fetch at once."""
PAGE: Final = 4 << 10
"""Bytes of a page: arrays in pages of 2 MiB are the exception."""
L1_WAY: Final = PAGE
"""A first cache of x86 finds lines by the part of their address that is the same in all pages."""
L1_WAY_ELSEWHERE: Final = 16 << 10
L2_WAY: Final = 64 << 10
"""Of most second caches, from 256 KiB in 4 ways to 1 MiB in 16."""
_FORK_CYCLES: Final = 1500.0
_JOIN_CYCLES: Final = 250.0
"""What each thread adds to the cycles of a parallel loop."""
_FALLS_SHORT: Final = 1.05
"""A rate that is measured is lower than what a core can do, where it is not the same."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A CPU as features see it. Sizes are in bytes, times in cycles."""

    vector_bits: int
    vector_registers: int
    updates_in_flight: int
    """The accumulators that hide the latency of multiply-adds."""
    caches: tuple[int, int, int]
    """The sizes of the data caches of one core, smallest first."""
    way_bytes: tuple[int, int]
    """The sizes of a way of the first two: addresses so far apart share a set."""
    tlb: tuple[int, int]
    """The pages whose addresses are at hand, and those that the second table has."""
    cores: int
    fma_units: float
    """Multiply-adds of whole vectors a cycle."""
    fma_latency: float
    loads: float
    """Loads of whole vectors a cycle; there is one store."""
    issue: float
    """Instructions a cycle."""
    fetch_cycles: tuple[float, float, float]
    """What a line costs more that each cache gets from the next level, in loops that go through
    memory in order."""
    page_cycles: tuple[float, float]
    """What a load from a page costs more whose address is not at hand, or not in the second
    table."""
    forward_cycles: float
    """From one update of a sum that lies in memory to the next."""
    fork_cycles: float
    """What a parallel loop costs: waking the other threads, and waiting for the last of them."""

    def is_worth_a_fork(self, cycles: float) -> bool:
        """Return True if so many cycles of work are done earlier if all cores share them."""
        return cycles * (1 - 1 / self.cores) > self.fork_cycles

    @property
    def rooms(self) -> tuple[float, ...]:
        """What each level holds: lines of the caches, then pages of the tables of addresses."""
        return (*(size / CACHE_LINE for size in self.caches), *self.tlb)

    @property
    def level_cycles(self) -> tuple[float, ...]:
        """What each of these levels needs for a line or a page that it does not hold."""
        return (*self.fetch_cycles, *self.page_cycles)

    @staticmethod
    def of(target: Target) -> Machine:
        """Return the CPU of a target.

        Where it is this machine, and that was measured, the times are what was measured; else they
        are those of the CPU model.
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
            target.fma_units if speed is None else _halves(_FALLS_SHORT * speed.fma_units),
            target.fma_latency if speed is None else _halves(speed.fma_latency),
            core.vector_loads(target.vector_bits)
            if speed is None
            else _halves(_FALLS_SHORT * speed.loads),
            core.issue,
            core.fetch_cycles if speed is None else _fetch_cycles(speed),
            core.page_cycles if speed is None else _page_cycles(speed),
            core.forward_cycles if speed is None else _halves(speed.forward_cycles),
            _fork_cycles(target, speed),
        )


def _fork_cycles(target: Target, speed: MachineSpeed | None) -> float:
    """Return what was measured, where several cores were; else what runtimes of OpenMP take."""
    if speed is not None and speed.fork_seconds > 0:
        return speed.fork_seconds * speed.clock
    return _FORK_CYCLES + _JOIN_CYCLES * (target.num_cores or 1)


def _halves(value: float) -> float:
    """Return a number of units or cycles without what a measurement is off by."""
    return max(0.5, round(2 * value) / 2)


def _fetch_cycles(speed: MachineSpeed) -> tuple[float, float, float]:
    l1, l2, l3, memory = speed.line_cycles(CACHE_LINE)
    return max(0.0, l2 - l1), max(0.0, l3 - l2), max(0.0, memory - l3)


def _page_cycles(speed: MachineSpeed) -> tuple[float, float]:
    first, second = speed.page_cycles
    return first, max(0.0, second - first)
