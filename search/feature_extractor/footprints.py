"""The cache lines that a nest touches at each depth, and the lines that each cache has to fetch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from search.feature_extractor.execution import Execution
from search.feature_extractor.nest_arrays import Array, Nest


@dataclass(slots=True)
class Footprints:
    """Cache lines that a nest touches and fetches."""

    tile_bytes: Array
    """The bytes that one tile with its run touches [programs]."""
    total_bytes: Array
    """The bytes that the whole nest touches [programs]."""
    fetched: Array
    """Lines that each cache fetches in all, by access [accesses, caches, programs]."""
    entries: Array
    """The number of times that what fits each cache is left for other data [caches, programs]."""


def footprints(nest: Nest, how: Execution, caches: Sequence[int], line: int) -> Footprints:
    """Count for caches of these sizes in bytes, smallest first.

    A cache keeps a loop's data where they take half of it, and loses them where they take half as
    much again as it has; between the two, what stays is taken to fall with their size. Real caches
    show no sharp bound either: what they replace is not the oldest, and other data are in them.
    """
    inside = how.inner * how.lanes
    spans = [1 + (steps * (inside - 1)).sum(1) for steps in nest.steps]
    sizes = list(zip(nest.shapes, nest.item_bytes, nest.packed, strict=True))
    lines = np.array([_lines(s, *size, line) for s, size in zip(spans, sizes, strict=True)])
    still = np.array(nest.strides) == 0
    room = np.array(caches, np.float64)[:, None] / line
    kept = np.ones(room.shape[:1] + lines.shape[1:])
    lost_lines = np.zeros(lines.shape[:1] + kept.shape)
    lost_entries = np.zeros(kept.shape)
    tile = lines.sum(0)
    done = inside.copy()
    for part in (how.run, how.outer):
        for place in np.flatnonzero((part > 1).any(1))[::-1]:
            trips = part[place]
            more = done[place] * (trips - 1)
            below = lines[:, None].copy()
            for k in np.flatnonzero(~still[:, place].all(1)):
                spans[k] = spans[k] + nest.steps[k][:, place] * more
                lines[k] = _lines(spans[k], *sizes[k], line)
            done[place] *= trips
            before = kept
            kept = np.minimum(before, np.clip(1.5 - lines.sum(0) / room, 0, 1))
            lost = before - kept
            lost_entries = (lost_entries + lost) * trips
            # Where a loop is the first whose data do not fit, what it does not move stays.
            once = np.where(still[:, place, None], 1, trips)
            lost_lines = lost_lines * trips + lost * below * once
        if part is how.run:
            tile = lines.sum(0)
    # What fits as a whole is there already when a kernel runs again.
    return Footprints(tile * line, lines.sum(0) * line, lost_lines, kept + lost_entries)


def _lines(span: Array, shape: Array, item: int, packed: bool, line: int) -> Array:
    """Return how many lines a box of these extents covers."""
    span = np.minimum(span, shape)
    if packed:
        return np.asarray(np.maximum(span.prod(0) * (item / line), 1))
    run = span[-1] * item if len(span) else np.full(span.shape[1], float(item))
    rows = np.ones(span.shape[1])
    whole = span[-1] >= shape[-1] if len(span) else np.ones(span.shape[1], bool)
    for dim in reversed(range(len(span) - 1)):
        run = np.where(whole, run * span[dim], run)
        rows = np.where(whole, rows, rows * span[dim])
        whole = whole & (span[dim] >= shape[dim])
    return rows * (1 + (run - item) / line)
