"""The processor of a target, as features suppose it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from codegen import Target

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
    """The cost of a line that each cache gets from the next level, in loops that go through it in
    order."""

    @staticmethod
    def of(target: Target) -> Machine:
        """Return the CPU of a target."""
        core, caches = target.core, target.caches
        return Machine(
            target.vector_bits,
            target.vector_registers,
            (caches.l1, caches.l2, caches.l3),
            CACHE_LINE,
            target.num_cores or 1,
            target.fma_units,
            target.fma_latency,
            core.vector_loads(target.vector_bits),
            core.fetch_cycles,
        )
