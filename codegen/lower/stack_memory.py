"""The local memory of a function that is in the stack frame; the rest comes from the heap."""

from __future__ import annotations

import math
from typing import Final

from tensorir.nodes.expr import IntImm
from tensorir.nodes.stmt import Allocate

MOST_BYTES: Final = 1 << 62
"""Bytes that no allocation exceeds."""
STACK_LIMIT: Final = 32 << 10
"""The maximum size of one allocation on the stack in bytes; threads may have small stacks."""
STACK_TOTAL: Final = 256 << 10
"""Bytes up to which all allocations of a function together go on the stack."""


def constant_bytes(node: Allocate) -> int | None:
    """Return how many bytes an allocation takes, None if that is known when it runs only."""
    sizes = [int(n) for n in node.extents if type(n) is IntImm]
    if len(sizes) < len(node.extents):
        return None
    return max(1, math.prod(sizes) * node.dtype.nbytes)


def stack_bytes(node: Allocate, used: int) -> int | None:
    """Return the bytes of an allocation on a stack with `used` bytes taken, None for the heap."""
    nbytes = constant_bytes(node)
    if nbytes is None or nbytes > STACK_LIMIT or used + nbytes > STACK_TOTAL:
        return None
    return nbytes
