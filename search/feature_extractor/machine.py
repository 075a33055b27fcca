"""The processor of a target, as features suppose it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from codegen import Target
from codegen.machine import MachineSpeed, known_speed

CACHE_LINE: Final = 64
"""Bytes that x86 and most aarch64 CPUs fetch at once."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A CPU as features see it. Sizes are in bytes, times in cycles."""

    vector_bits: int
    vector_registers: int
    caches: tuple[int, int, int]
    """The sizes of the data caches of one core, smallest first."""
    line: int
    cores: int
    fma_units: float
    """Multiply-adds of whole vectors a cycle."""
    fma_latency: float
    loads: float
    """Loads of whole vectors a cycle; there is one store."""
    fetch_cycles: tuple[float, float, float]
    """What a line costs more that each cache gets from the next level, in loops that go through
    memory in order."""

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
            (caches.l1, caches.l2, caches.l3),
            CACHE_LINE,
            target.num_cores or 1,
            target.fma_units if speed is None else _halves(speed.fma_units),
            target.fma_latency if speed is None else _halves(speed.fma_latency),
            core.vector_loads(target.vector_bits) if speed is None else _halves(speed.loads),
            core.fetch_cycles if speed is None else _fetch_cycles(speed),
        )


def _halves(value: float) -> float:
    """Return a number of units or cycles without what a measurement is off by."""
    return max(0.5, round(2 * value) / 2)


def _fetch_cycles(speed: MachineSpeed) -> tuple[float, float, float]:
    l1, l2, l3, memory = speed.line_cycles(CACHE_LINE)
    return max(0.0, l2 - l1), max(0.0, l3 - l2), max(0.0, memory - l3)
