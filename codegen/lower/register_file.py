"""How many vector registers there are to keep values in."""

from __future__ import annotations

from codegen.target import Target


def vector_registers(target: Target) -> int:
    """Return how many vector registers the target has."""
    return 32 if target.features & {"avx512f", "neon"} else 16
