"""The alignment of memory that is allocated here: arrays, arenas, constants, allocations."""

from __future__ import annotations

from typing import Final

ALIGNMENT: Final = 64
"""Bytes: a cache line, and the widest vector of x86 and ARM."""


def align(nbytes: int) -> int:
    """Return the number of bytes, rounded up to the alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
