"""The alignment of memory that the toolkit lays out: arrays, arenas, constants, allocations."""

from __future__ import annotations

from typing import Final

ALIGNMENT: Final = 64
"""Bytes: a cache line, and the widest vector of x86 and ARM."""


def aligned(nbytes: int) -> int:
    """Return the least multiple of the alignment that is not less."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
