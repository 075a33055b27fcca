"""The stores of a block, and the vectors that fit a loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from schedule.analysis.reducer import written_out
from tensorir.indices.accesses import only_stores
from tensorir.nodes.stmt import BufferStore, Stmt

SHORTEST_VECTOR: Final = 4
"""A vector fills at least this fraction of a register: 1/4."""
_VECTORS: Final = 4
"""The number of vectors of partial results whose updates hide most of each other's latency."""
_MANY: Final = 16
"""The number of vectors from which on it is rounded up to a multiple of `_VECTORS`."""


def update_stores(body: Stmt) -> tuple[BufferStore, ...]:
    """Return the stores of a body that is a store, or lets around stores; otherwise none.

    The lets are substituted. All values are computed before the first store.
    """
    return only_stores(written_out(body))


@dataclass(frozen=True)
class Lanes:
    """The vectors that a loop is split into."""

    count: int
    """The number of lanes of a vector."""
    multiple: int
    """The loop is padded to a multiple of this; 1 for no padding."""


def vector_lanes(extent: int, register: int, may_pad: bool) -> Lanes:
    """Return the vectors for a loop, with one lane if longer vectors are impossible.

    A register holds `register` elements. The best number of lanes is a power of two that divides
    the loop and fills half a register, because such vectors are aligned with rows. Other loops
    longer than a register are padded if `may_pad`, else get the longest vector that divides them.
    """
    whole = extent & -extent
    if 2 * whole >= register:
        lanes = min(whole, register)
    elif may_pad and extent > register:
        lanes = register
    else:
        lanes = max(n for n in range(1, register + 1) if extent % n == 0)
        return Lanes(lanes if lanes * SHORTEST_VECTOR >= register else 1, 1)
    vectors = -(-extent // lanes)
    few = all(vectors % n for n in range(_VECTORS, _MANY + 1))
    multiple = lanes * _VECTORS if may_pad and few and vectors >= _MANY else lanes
    return Lanes(lanes, 1 if extent % multiple == 0 else multiple)
