"""The cache lines and pages that a nest touches at each depth, and how many of them are fetched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from search.feature_extractor.execution import Execution
from search.feature_extractor.machine import CACHE_LINE, PAGE, Machine
from search.feature_extractor.nests import Array, Nest

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


def footprints(nest: Nest, how: Execution, machine: Machine) -> Footprints:
    """Count the lines and pages that each level of a machine fetches.

    A level keeps all data of a loop up to half its capacity, and nothing from 1.5 times its
    capacity on; the fraction falls linearly in between. The limit of real caches is not sharp
    either, because their replacement is not exactly LRU, and because they contain other data. Rows
    of an access that map to the same sets of a cache have only the capacity of these sets.
    """
    inside = how.inner * how.lanes
    spans = [1 + (steps * (inside - 1)).sum(1) for steps in nest.steps]
    boxes = [
        _Box(shape, item, packed, machine)
        for shape, item, packed in zip(nest.shapes, nest.item_bytes, nest.packed, strict=True)
    ]
    found = [box.measure(span) for box, span in zip(boxes, spans, strict=True)]
    touched = np.array([amounts for amounts, _ in found])
    crowded = np.array([sets for _, sets in found])
    still = np.array(nest.strides) == 0
    room = np.array(machine.rooms, np.float64)[:, None]
    levels, count = len(machine.rooms), nest.count
    kept = np.ones((len(boxes), levels, count))
    lost = np.zeros_like(kept)
    kept_entries = np.ones((levels, count))
    lost_entries = np.zeros((levels, count))
    tile, streams = touched[:, 0].sum(0), touched[:, 2].copy()
    done = inside.copy()
    for part in (how.run, how.outer):
        for place in np.flatnonzero((part > 1).any(1))[::-1]:
            trips = part[place]
            more = done[place] * (trips - 1)
            below = touched[:, _KIND]
            for k in np.flatnonzero(~still[:, place].all(1)):
                spans[k] = spans[k] + nest.steps[k][:, place] * more
                touched[k], crowded[k] = boxes[k].measure(spans[k])
            done[place] *= trips
            full = np.repeat((touched.sum(0)[_KIND] / room)[None], len(boxes), 0)
            left, kept_entries = (
                kept_entries,
                np.minimum(kept_entries, _fraction_that_stays(full[0])),
            )
            lost_entries = (lost_entries + left - kept_entries) * trips
            with_sets = full[:, : crowded.shape[1]]
            np.maximum(with_sets, crowded, out=with_sets)
            before, kept = kept, np.minimum(kept, _fraction_that_stays(full))
            # If this loop is the first whose data do not fit, accesses with stride 0 keep theirs.
            once = np.where(still[:, place, None], 1, trips)
            lost = lost * trips + (before - kept) * below * once
        if part is how.run:
            tile, streams = touched[:, 0].sum(0), touched[:, 2].copy()
    line = CACHE_LINE
    # Data that fit are still in the cache when a kernel runs again.
    total = touched[:, 0].sum(0)
    return Footprints(tile * line, streams, total * line, lost, kept_entries + lost_entries)


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
        """Return the amounts for a box of these extents.

        These are the numbers of lines, of pages and of runs in different pages [3, programs], and
        for the first two caches the fraction of the capacity of its sets [caches, programs].
        """
        span = np.minimum(span, self._shape)
        if self._packed:
            # Panels are contiguous in the order of reading.
            volume = span.prod(0) * self._item
            amounts = [np.maximum(1, volume / size) for size in (CACHE_LINE, PAGE)]
            return np.array([*amounts, np.ones_like(volume)]), np.zeros(
                (len(self._ways), span.shape[1])
            )
        row = np.ones(span.shape, bool)
        if len(span):
            # A dimension belongs to a row if the box has the full extent in all inner dimensions.
            row[:-1] = np.logical_and.accumulate((span >= self._shape)[:0:-1], 0)[::-1]
        run = np.where(row, span, 1).prod(0) * self._item
        rows = np.where(row, 1, span)
        count = rows.prod(0)
        width = 1 + (run - self._item) / CACHE_LINE
        lines = count * width
        extent = ((span - 1) * self._strides).sum(0)
        apart = 1 + extent / PAGE
        pages = np.minimum(count * (1 + (run - self._item) / PAGE), apart)
        reached = np.minimum(self._sets, width) * np.minimum(rows, self._places).prod(1)
        reached = np.maximum(np.minimum(self._sets, reached), 1)  # an access without lines
        taken = lines / (reached * self._ways)
        return np.array([lines, pages, np.minimum(count, apart)]), taken
