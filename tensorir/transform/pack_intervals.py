"""Offsets of tensors in one arena, such that those held at the same time do not overlap.

The method is greedy by size (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
Inference", 2020): the largest tensor first, each into the smallest gap between those it meets that
is large enough. It is repeated with tensors in the order of their first use, which is better for
some chains, and the smaller arena is taken. Offsets are aligned.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tensorir.memory.alignment import aligned

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class Packing(Generic[T]):
    """Offsets in bytes; `size` is that of the arena, `lower_bound` the most bytes held at once."""

    offsets: Mapping[T, int]
    size: int
    lower_bound: int


def pack(sizes: Mapping[T, int], held: Sequence[Iterable[T]]) -> Packing[T]:
    """Place tensors of `sizes` bytes; `held` says which hold their contents at each point.

    A tensor that occupies no bytes is at 0.
    """
    rounded = {tensor: aligned(size) for tensor, size in sizes.items()}
    when = dict.fromkeys(rounded, 0)
    lower_bound = 0
    for point, tensors in enumerate(held):
        together = 0
        for tensor in tensors:
            if tensor in when:
                when[tensor] |= 1 << point
                together += rounded[tensor]
        lower_bound = max(lower_bound, together)
    by_size = sorted(rounded, key=lambda tensor: -rounded[tensor])
    by_time = sorted(rounded, key=lambda tensor: when[tensor] & -when[tensor])
    best: Packing[T] | None = None
    for order in (by_size, by_time):
        offsets, size = _placed(order, rounded, when)
        if best is None or size < best.size:
            best = Packing(offsets, size, lower_bound)
        if size == lower_bound:
            break
    assert best is not None
    return best


def _placed(
    order: Sequence[T], sizes: Mapping[T, int], when: Mapping[T, int]
) -> tuple[dict[T, int], int]:
    offsets: dict[T, int] = {}
    placed: list[tuple[int, int, int]] = []
    """Start, end and points of those that are placed."""
    for tensor in order:
        size, points = sizes[tensor], when[tensor]
        if not size:
            offsets[tensor] = 0
            continue
        top, found, smallest = 0, -1, 0
        for start, end in sorted((a, b) for a, b, others in placed if others & points):
            gap = start - top
            if gap >= size and (found < 0 or gap < smallest):
                found, smallest = top, gap
            top = max(top, end)
        at = offsets[tensor] = top if found < 0 else found
        placed.append((at, at + size, points))
    return offsets, max((end for _, end, _ in placed), default=0)
