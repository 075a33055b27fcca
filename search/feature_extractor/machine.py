"""The processor of a target, as features suppose it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from codegen import Target

CACHES: Final = (32 << 10, 512 << 10, 16 << 20)
"""Data caches in bytes where a target does not tell: what CPUs of the last ten years have at least
for each core, and of the last level together."""
CACHE_LINE: Final = 64
"""Bytes that x86 and most aarch64 CPUs fetch at once."""
MULTIPLY_ADD_UNITS: Final = 2
MULTIPLY_ADD_LATENCY: Final = 4
LOADS: Final = 2
"""Vector loads a cycle; there is one store. These three are the same for most cores since 2013
(Fog, "Instruction tables")."""
FETCH_CYCLES: Final = (2.0, 6.0, 20.0)
"""About how many cycles a line from the next level costs each cache, prefetched."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A CPU as features see it. Sizes are in bytes."""

    vector_bits: int
    vector_registers: int
    caches: tuple[int, int, int]
    """The sizes of the data caches of one core, smallest first."""
    line: int
    cores: int

    @staticmethod
    def of(target: Target) -> Machine:
        """Return the CPU of a target; what the target does not tell is what CPUs commonly have."""
        known = target.caches
        sizes = (known.l1, known.l2, known.l3)
        l1, l2, l3 = (size or common for size, common in zip(sizes, CACHES, strict=True))
        return Machine(
            target.vector_bits,
            target.vector_registers,
            (l1, max(l1, l2), max(l1, l2, l3)),
            CACHE_LINE,
            target.num_cores or 1,
        )
