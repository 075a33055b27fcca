"""The alignment of the memory that this project allocates: arrays, arenas, constants."""

from __future__ import annotations

from typing import Final

ALIGNMENT: Final = 64
"""The alignment in bytes: a cache line, and the widest vector of x86 and ARM."""


def align(nbytes: int) -> int:
    """Return the number of bytes, rounded up to the alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
