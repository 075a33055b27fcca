"""The cache lines and pages that a nest touches at each depth, and how many of them are fetched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from search.feature_extractor.execution import Execution
from search.feature_extractor.machine import CACHE_LINE, PAGE, Machine
from search.feature_extractor.nests import Array, Mask, Nest

CACHES: Final = slice(0, 3)
"""The caches among the levels."""
PAGES: Final = slice(3, 5)
"""The TLBs among the levels."""
_KIND: Final = [0, 0, 0, 1, 1]
"""For each level, 0 for a cache and 1 for a TLB."""


@dataclass(slots=True)
class Footprints:
    """The lines and pages of a nest in the levels: three caches and two TLBs."""

    tile_bytes: Array
    """The bytes that one tile with its run touches [programs]."""
    streams: Array
    """The contiguous runs in different pages of a tile with its run [accesses, programs]."""
    total_bytes: Array
    """The bytes that the whole nest touches [programs]."""
    fetched: Array
    """The number of lines or pages that each level fetches [accesses, levels, programs]."""
    entries: Array
    """The number of times that the data in each level are replaced [levels, programs]."""
    weights: list[ColdWeight]
    """The weights that the nest loads, if they are in no cache when it begins."""


@dataclass(slots=True)
class ColdWeight:
    """A weight, which is in no cache when a model calls a kernel."""

    fetched: Array
    """The lines that each cache fetches for that reason [caches, programs]."""
    chunks: Array
    """The parts of the weight that are used again before the next part is loaded [programs]."""
    uses: Array
    """The number of times that the iterations go over the weight [programs]."""
    shares: Array
    """The number of parts of the weight that different iterations of the parallel loop load
    [programs]."""


def footprints(nest: Nest, how: Execution, machine: Machine) -> Footprints:
    """Count the lines and pages that each level of a machine fetches.

    A level keeps all data of a loop up to half its capacity, and nothing from 1.5 times its
    capacity on; the fraction falls linearly in between. The limit of real caches is not sharp
    either, because their replacement is not exactly LRU, and because they contain other data. Rows
    of an access that map to the same sets of a cache have only the capacity of these sets.
    """
    loops = [
        (place, part[place])
        for part in (how.run, how.outer)
        for place in np.flatnonzero((part > 1).any(1))[::-1]
    ]
    """The loops around a vector of the tile, innermost first, with their iterations."""
    inside = how.inner * how.lanes
    done, more = inside.copy(), []
    for place, trips in loops:
        more.append(done[place] * (trips - 1))
        done[place] *= trips
    still = np.array(nest.strides) == 0
    found = []
    for k, steps in enumerate(nest.steps):
        spans = [1 + (steps * (inside - 1)).sum(1)]
        for (place, _), moved in zip(loops, more, strict=True):
            rests = still[k, place].all()
            spans.append(spans[-1] if rests else spans[-1] + steps[:, place] * moved)
        box = _Box(nest.shapes[k], nest.item_bytes[k], nest.packed[k], machine)
        found.append(box.measure(np.array(spans)))
    touched = np.array([amounts for amounts, _ in found])
    crowded = np.array([sets for _, sets in found])
    room = np.array(machine.rooms, np.float64)[:, None]
    levels, count = len(machine.rooms), nest.count
    full = np.repeat((touched.sum(0)[:, _KIND] / room)[None], len(found), 0)
    stays_entry = _fraction_that_stays(full[0])
    with_sets = full[:, :, : crowded.shape[2]]
    np.maximum(with_sets, crowded, out=with_sets)
    stays = _fraction_that_stays(full)
    kept = np.ones((len(found), levels, count))
    lost = np.zeros_like(kept)
    kept_entries = np.ones((levels, count))
    lost_entries = np.zeros((levels, count))
    for depth, (place, trips) in enumerate(loops):
        left, kept_entries = kept_entries, np.minimum(kept_entries, stays_entry[depth + 1])
        lost_entries = (lost_entries + left - kept_entries) * trips
        before, kept = kept, np.minimum(kept, stays[:, depth + 1])
        # If this loop is the first whose data do not fit, accesses with stride 0 keep theirs.
        once = np.where(still[:, place, None], 1, trips)
        lost = lost * trips + (before - kept) * touched[:, depth, _KIND] * once
    tile = touched[:, int((how.run > 1).any(1).sum())]
    line = CACHE_LINE
    # Data that fit are still in the cache when a kernel runs again.
    total = touched[:, -1, 0].sum(0)
    return Footprints(
        tile[:, 0].sum(0) * line,
        tile[:, 2],
        total * line,
        lost,
        kept_entries + lost_entries,
        [
            _cold_weight(touched[k, :, 0], kept[k, CACHES], still[k], loops, nest, how)
            for k in range(1, len(found))
            if machine.weights_are_cold and nest.free[k]
        ],
    )


def _cold_weight(
    touched: Array,
    kept: Array,
    still: Mask,
    loops: Sequence[tuple[int, Array]],
    nest: Nest,
    how: Execution,
) -> ColdWeight:
    """Describe the first loads of a weight, from the lines that it has inside of each loop.

    `kept` is the fraction that a cache would keep until the next call, `still` is True for loops
    that use the same elements again.
    """
    lines = touched[-1]
    chunk, uses = lines, np.ones(nest.count)
    for depth, (place, trips) in reversed([*enumerate(loops)]):
        again = still[place] & (trips > 1)
        chunk = np.where(again, touched[depth], chunk)
        uses = np.where(again, uses * trips, uses)
    shares = np.where(how.threaded & ~still, nest.extents, 1).prod(0)
    return ColdWeight(lines * kept, lines / np.maximum(1, chunk) * kept[-1], uses, shares)


def _fraction_that_stays(full: Array) -> Array:
    """Return the fraction of data that stays in a level, for data of `full` times its capacity."""
    return np.clip(1.5 - full, 0, 1)


class _Box:
    """The elements of a buffer that an access touches, as a box."""

    def __init__(self, shape: Array, item: int, packed: bool, machine: Machine) -> None:
        self._shape = shape
        self._item = item
        self._packed = packed
        sizes = np.concatenate([shape[1:], np.ones((min(1, len(shape)), shape.shape[-1]))])
        self._strides: Array = sizes[::-1].cumprod(0)[::-1] * item
        """The stride of each dimension in bytes."""
        ways = np.array(machine.way_bytes)
        common = np.gcd(self._strides.astype(np.int64), ways[:, None, None])
        self._places: Array = ways[:, None, None] / common
        """The number of different positions in a way of a cache along each dimension."""
        self._sets: Array = (ways / CACHE_LINE)[:, None]
        self._ways: Array = np.array(machine.rooms)[: len(ways), None] / self._sets

    def measure(self, span: Array) -> tuple[Array, Array]:
        """Return the amounts for boxes of these extents [boxes, dims, programs].

        These are the numbers of lines, of pages and of runs in different pages
        [boxes, 3, programs], and for the first two caches the fraction of the capacity of its sets
        [boxes, caches, programs].
        """
        span = np.minimum(span, self._shape)
        if self._packed:
            # Panels are contiguous in the order of reading.
            volume = span.prod(1) * self._item
            amounts = [np.maximum(1, volume / size) for size in (CACHE_LINE, PAGE)]
            none = np.zeros((len(span), len(self._ways), span.shape[2]))
            return np.stack([*amounts, np.ones_like(volume)], 1), none
        row = np.ones(span.shape, bool)
        if span.shape[1]:
            # A dimension belongs to a row if the box has the full extent in all inner dimensions.
            full = (span >= self._shape)[:, :0:-1]
            row[:, :-1] = np.logical_and.accumulate(full, 1)[:, ::-1]
        run = np.where(row, span, 1).prod(1) * self._item
        rows = np.where(row, 1, span)
        count = rows.prod(1)
        width = 1 + (run - self._item) / CACHE_LINE
        lines = count * width
        extent = ((span - 1) * self._strides).sum(1)
        apart = 1 + extent / PAGE
        pages = np.minimum(count * (1 + (run - self._item) / PAGE), apart)
        reached = np.minimum(rows[:, None], self._places).prod(2)
        reached = np.minimum(self._sets, width[:, None]) * reached
        reached = np.maximum(np.minimum(self._sets, reached), 1)  # an access without lines
        taken = lines[:, None] / (reached * self._ways)
        return np.stack([lines, pages, np.minimum(count, apart)], 1), taken
