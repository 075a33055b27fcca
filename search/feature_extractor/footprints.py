"""How many cache lines a nest touches at each depth, and how many each cache has to fetch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from search.feature_extractor.execution import Array, Execution, Nest


@dataclass(slots=True)
class Footprints:
    """Cache lines that a nest touches and fetches."""

    tile_bytes: Array
    """What one tile with its run touches [programs]."""
    total_bytes: Array
    """What the whole nest touches [programs]."""
    fetched: Array
    """Lines that each cache fetches in all, by access [accesses, caches, programs]."""
    entries: Array
    """How often what fits each cache is left for other data [caches, programs]."""


def footprints(nest: Nest, how: Execution, caches: Sequence[int], line: int) -> Footprints:
    """Count for caches of these sizes in bytes, smallest first."""
    count = nest.count
    inside = how.inner * how.lanes
    spans = [1 + (steps * (inside - 1)).sum(1) for steps in nest.steps]
    lines = [
        _lines(span, shape, size, line)
        for span, shape, size in zip(spans, nest.shapes, nest.item_bytes, strict=True)
    ]
    room = np.array(caches, np.float64)[:, None] / line
    fetched = [np.broadcast_to(one, (len(caches), count)) for one in lines]
    fits = np.ones((len(caches), count), bool)
    entries = np.ones((len(caches), count))
    total = np.sum(lines, axis=0)
    tile = total
    done = inside.copy()
    for part in (how.run, how.outer):
        for place in reversed(nest.loops):
            trips = part[place]
            if not (trips > 1).any():
                continue
            grown = done[place] * trips
            for k, steps in enumerate(nest.steps):
                moved = steps[:, place]
                if not moved.any():
                    continue
                spans[k] = spans[k] + moved * (grown - done[place])
                lines[k] = _lines(spans[k], nest.shapes[k], nest.item_bytes[k], line)
            done[place] = grown
            total = np.sum(lines, axis=0)
            still = fits
            fits = fits & (total <= room)
            entries = np.where(fits, 1, entries * trips)
            first = still & ~fits & (trips > 1)
            for k, strides in enumerate(nest.strides):
                stays = first & (strides[place] == 0)
                again = np.where(stays, 1, trips)
                fetched[k] = np.where(fits, lines[k], fetched[k] * again)
        if part is how.run:
            tile = total
    return Footprints(tile * line, total * line, np.array(fetched), entries)


def _lines(span: Array, shape: Array, item: int, line: int) -> Array:
    """Return how many lines a box of these extents covers."""
    span = np.minimum(span, shape)
    run = span[-1] * item if len(span) else np.full(span.shape[1], float(item))
    rows = np.ones(span.shape[1])
    whole = span[-1] >= shape[-1] if len(span) else np.ones(span.shape[1], bool)
    for dim in reversed(range(len(span) - 1)):
        run = np.where(whole, run * span[dim], run)
        rows = np.where(whole, rows, rows * span[dim])
        whole = whole & (span[dim] >= shape[dim])
    return rows * (1 + (run - item) / line)
