"""The place of a block that a sampled place comes to, for many points at once.

A place that is not possible becomes the nearest smaller one. Which are depends on the loops of the
consumer that run, and so on the tiles decided before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schedule import Schedule
from schedule.analysis.bindings import loop_iter_types
from schedule.handles import BlockRV
from schedule.primitives.sample_compute_location import (
    INLINE_INDEX,
    ROOT_INDEX,
    consumer_loops,
    location_domain,
    open_places,
)
from search.feature_extractor.number_expressions import Expressions
from tensorir.nodes.expr import IntImm


@dataclass(frozen=True, slots=True)
class Reach:
    """The loops of a consumer as they were when a place was sampled."""

    kinds: tuple[int, ...]
    extents: NDArray[np.float64]
    places: frozenset[int]
    """The places that were possible."""

    @staticmethod
    def seen(sch: Schedule, block: BlockRV) -> Reach:
        """Return it for a block that a place is about to be sampled for."""
        sref = sch.get_sref(block)
        loops = consumer_loops(sch.state, sref)
        extents = [float(e.value) if isinstance(e := s.loop.extent, IntImm) else 0.0 for s in loops]
        return Reach(
            tuple(loop_iter_types(sch.state, loops)),
            np.array(extents),
            frozenset(location_domain(sch.state, sref).values),
        )

    @property
    def open(self) -> frozenset[int]:
        """The loops at which only something else than their extents can forbid the block."""
        runs = self.extents[:, None] > 1
        return frozenset(int(k) for k in np.flatnonzero(open_places(self.kinds, runs)))


@dataclass(frozen=True, slots=True)
class PlaceRule:
    """The places that are possible, by the decisions before."""

    kinds: tuple[int, ...]
    extents: Expressions
    refused: frozenset[int]
    """The places that other things than extents forbid."""

    @staticmethod
    def of(reaches: Sequence[Reach], extents: Expressions) -> PlaceRule | None:
        """Return the rule behind what was seen, None if there is no one rule."""
        refused = frozenset[int]().union(*(r.open - r.places for r in reaches))
        fixed = {INLINE_INDEX, ROOT_INDEX}
        if any(r.places & refused or not r.places - fixed <= r.open for r in reaches):
            return None
        inlined = {INLINE_INDEX in r.places for r in reaches}
        if len(inlined) > 1:
            return None
        # What loops drive shows only while they run.
        kinds = [max(kinds) for kinds in zip(*(r.kinds for r in reaches), strict=True)]
        if inlined == {False}:
            refused |= {INLINE_INDEX}
        return PlaceRule(tuple(kinds), extents, refused)

    def repaired(self, asked: NDArray[np.int64], entries: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the places that the asked ones become where points decide `entries`."""
        possible = open_places(self.kinds, self.extents.at(entries) > 1)
        result = np.full(len(asked), ROOT_INDEX)
        for k, open_ in enumerate(possible):
            if k not in self.refused:
                result = np.where(open_ & (k <= asked), k, result)
        if INLINE_INDEX not in self.refused:
            result = np.where(asked == INLINE_INDEX, INLINE_INDEX, result)
        return result
