"""Offsets of tensors in one arena; tensors that are live at the same time do not overlap.

The method is greedy by size (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
Inference", 2020): the largest tensor first, each in the smallest sufficient gap between the tensors
that are live at the same time. A second attempt places tensors in the order of their first use,
which is better for some chains; the smaller arena is used. Offsets are aligned.

If nearly all tensors are live at the same time, this needs quadratic time. In that case memory is
allocated and freed in order of time, as by a best-fit allocator.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Final, Generic, TypeAlias, TypeVar

from tensorir.memory.alignment import ALIGNMENT

T = TypeVar("T", bound=Hashable)

Span: TypeAlias = tuple[int, int]
"""The first and the last point of time at which a tensor is live."""

_MAX_PAIRS: Final = 8
"""The greedy method is used up to this number of pairs of tensors that are live together, in units
of n log n for n tensors, plus:
"""
_FEW: Final = 100_000


@dataclass(frozen=True)
class Packing(Generic[T]):
    """Offsets in bytes, the size of the arena, and the maximum of bytes that are live at once."""

    offsets: Mapping[T, int]
    size: int
    lower_bound: int


def pack(
    sizes: Mapping[T, int], live_spans: Mapping[T, Sequence[Span]], alignment: int = ALIGNMENT
) -> Packing[T]:
    """Place tensors of `sizes` bytes, each live during its spans in `live_spans`.

    The spans of a tensor are in order and do not touch. A tensor of 0 bytes gets the offset 0.
    """
    rounded = {tensor: -(-size // alignment) * alignment for tensor, size in sizes.items()}
    placed = {tensor: size for tensor, size in rounded.items() if size and live_spans.get(tensor)}
    lower_bound, meetings = _peak_bytes(placed, live_spans)
    by_time = sorted(placed, key=lambda tensor: live_spans[tensor][0])
    if meetings > _FEW + _MAX_PAIRS * len(placed) * log2(len(placed) + 1):
        offsets, size = _allocate_best_fit(by_time, placed, live_spans)
    else:
        overlapping = _overlapping_tensors(placed, live_spans)
        by_size = sorted(placed, key=lambda tensor: -placed[tensor])
        offsets, size = _place_smallest_gap(by_size, placed, overlapping)
        if size != lower_bound:
            other, least = _place_smallest_gap(by_time, placed, overlapping)
            if least < size:
                offsets, size = other, least
    return Packing({tensor: offsets.get(tensor, 0) for tensor in sizes}, size, lower_bound)


def _events(
    tensors: Iterable[T], live_spans: Mapping[T, Sequence[Span]]
) -> list[tuple[int, int, T]]:
    """Return the starts (1) and ends (0) of spans in order.

    An end is one point after the last point.
    """
    found = [(first, 1, tensor) for tensor in tensors for first, _ in live_spans[tensor]]
    found += [(last + 1, 0, tensor) for tensor in tensors for _, last in live_spans[tensor]]
    found.sort(key=lambda event: event[:2])
    return found


def _peak_bytes(sizes: Mapping[T, int], live_spans: Mapping[T, Sequence[Span]]) -> tuple[int, int]:
    """Return the maximum of bytes live at once, and an upper bound of the pairs that are live
    together.
    """
    most = together = meetings = count = 0
    for _, begins, tensor in _events(sizes, live_spans):
        if begins:
            meetings += count
            count += 1
            together += sizes[tensor]
            most = max(most, together)
        else:
            count -= 1
            together -= sizes[tensor]
    return most, meetings


def _overlapping_tensors(
    tensors: Iterable[T], live_spans: Mapping[T, Sequence[Span]]
) -> dict[T, set[T]]:
    """Return for each tensor the tensors that are live at the same time."""
    events = _events(tensors, live_spans)
    overlapping: dict[T, set[T]] = {tensor: set() for _, _, tensor in events}
    active: set[T] = set()
    for _, begins, tensor in events:
        if begins:
            overlapping[tensor] |= active
            for other in active:
                overlapping[other].add(tensor)
            active.add(tensor)
        else:
            active.remove(tensor)
    return overlapping


def _place_smallest_gap(
    order: Sequence[T], sizes: Mapping[T, int], overlapping: Mapping[T, set[T]]
) -> tuple[dict[T, int], int]:
    """Return offsets: each tensor in order gets the smallest sufficient gap."""
    offsets: dict[T, int] = {}
    spans: dict[T, tuple[int, int]] = {}
    for tensor in order:
        size = sizes[tensor]
        top, found, smallest = 0, -1, 0
        for start, end in sorted(spans[other] for other in overlapping[tensor] if other in spans):
            gap = start - top
            if gap >= size and (found < 0 or gap < smallest):
                found, smallest = top, gap
            top = max(top, end)
        at = offsets[tensor] = top if found < 0 else found
        spans[tensor] = at, at + size
    return offsets, max((end for _, end in spans.values()), default=0)


def _allocate_best_fit(
    order: Sequence[T], sizes: Mapping[T, int], live_spans: Mapping[T, Sequence[Span]]
) -> tuple[dict[T, int], int]:
    """Return the offsets of a best-fit allocator.

    A span is a range of steps in which a tensor is used. Each tensor is live from the first step of
    its first span to the last step of its last one.
    """
    whole = {tensor: [(live_spans[tensor][0][0], live_spans[tensor][-1][1])] for tensor in order}
    offsets: dict[T, int] = {}
    gaps = _Gaps()
    for _, begins, tensor in _events(order, whole):
        if begins:
            offsets[tensor] = gaps.allocate(sizes[tensor])
        else:
            gaps.free(offsets[tensor], sizes[tensor])
    return offsets, gaps.top


class _Gaps:
    """The free parts of memory below `top`, by size and by address."""

    def __init__(self) -> None:
        self.top = 0
        self._by_size: list[tuple[int, int]] = []
        """Size and start of each gap."""
        self._size_at: dict[int, int] = {}
        self._start_of_end: dict[int, int] = {}

    def allocate(self, size: int) -> int:
        """Allocate bytes in the smallest sufficient gap, or else at the top; return their start."""
        k = bisect_left(self._by_size, (size, 0))
        if k < len(self._by_size):
            gap, start = self._by_size[k]
            self._remove(start)
            if gap > size:
                self._add(start + size, gap - size)
            return start
        last = self._start_of_end.get(self.top, self.top)
        if last != self.top:
            self._remove(last)
        self.top = last + size
        return last

    def free(self, start: int, size: int) -> None:
        """Free bytes, and merge them with adjacent free bytes."""
        before = self._start_of_end.get(start)
        if before is not None:
            size += self._size_at[before]
            self._remove(before)
            start = before
        behind = self._size_at.get(start + size)
        if behind is not None:
            self._remove(start + size)
            size += behind
        self._add(start, size)

    def _add(self, start: int, size: int) -> None:
        insort(self._by_size, (size, start))
        self._size_at[start] = size
        self._start_of_end[start + size] = start

    def _remove(self, start: int) -> None:
        size = self._size_at.pop(start)
        del self._start_of_end[start + size]
        self._by_size.pop(bisect_left(self._by_size, (size, start)))
