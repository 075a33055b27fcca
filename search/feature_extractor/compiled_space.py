"""The numbers in the nests of a design space as expressions over decisions.

All points of a space that compute their blocks at the same places have the same loops. Extents and
strides are then factors of tiles, products of them, or what a window over two tiles spans. Which,
is found by replaying a few points and looking for the expressions that agree with all of them;
while several agree, the next point to be replayed is one for which they differ. After that a
thousand points take as long as one replay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from schedule import Instruction, Schedule, ScheduleError, TraceError
from schedule.analysis.bindings import loop_iter_types
from schedule.decisions.domain import Decision
from schedule.handles import BlockRV
from schedule.primitives.sample_compute_location import (
    INLINE_INDEX,
    ROOT_INDEX,
    consumer_loops,
    location_domain,
    open_places,
)
from schedule.random_state import RandomState
from search.feature_extractor.nests import FIRST_EXTENT, Numbers, ProgramShape
from search.feature_extractor.number_expressions import Expressions, Factors, Fitting
from search.feature_extractor.read_nests import read_nests
from search.space_generator.design_space import Decisions, DesignSpace
from search.space_generator.knobs import LOCATION
from search.space_generator.replays import ReplayBudget, Replays
from tensorir.function import IRModule
from tensorir.nodes.expr import IntImm

_Form: TypeAlias = tuple[ProgramShape, Expressions]
"""The structure that points with the same places have, and its numbers."""

Places: TypeAlias = "tuple[Decision | None, ...]"
"""The decisions of the knobs that the structure of the program depends on."""

_FIRST_PROBES: Final = 4
_MOST_PROBES: Final = 32
_POOL: Final = 256
"""Points for which expressions that fit are compared."""
_WORTH_A_SEARCH: Final = 8
_WORTH_A_PLACE: Final = 64
"""The number of points that make a search worth its cost, of some 8 replays; and of points with
certain places, since a place that is rare now may not be asked for again."""
_FREE_REPLAYS: Final = 8
_POINTS_A_REPLAY: Final = 64
_MOST_REPLAYS: Final = 64
"""A space with many places would be replayed for longer than all its points take to be measured."""
_MOST_PLACES: Final = 64
"""With more combinations of places than this, hardly any two points have the same."""
_MOST_DRAWS: Final = 4
"""The factor by which more points are drawn to find some with certain places."""


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


@dataclass(frozen=True, slots=True)
class _Probe:
    """A point that was replayed."""

    point: Decisions
    places: Places
    """The places of its blocks."""
    program: ProgramShape
    numbers: NDArray[np.float64]
    reaches: dict[int, Reach]
    """The reach at each knob that samples a place."""


class CompiledSpace:
    """One design space of a program, for which numbers are computed without replaying traces."""

    def __init__(
        self,
        space: DesignSpace,
        mod: IRModule,
        seed: int = 1,
        budget: ReplayBudget | None = None,
    ) -> None:
        self._budget = budget or ReplayBudget()
        self._space = space
        self._replays = Replays(mod)
        self._rng = RandomState(seed)
        self._counts: dict[int, int] = {}
        """The count of numbers that each knob decides; knobs that decide most come first."""
        self._plain: set[int] = set()
        """The knobs whose decisions are the numbers."""
        self._structural = space.structural_knobs
        for k, knob in enumerate(space.knobs):
            numbers = knob.numbers(space.decisions[k])
            if numbers is not None:
                self._counts[k] = len(numbers)
                if numbers is space.decisions[k]:
                    self._plain.add(k)
        self._counts = dict(sorted(self._counts.items(), key=lambda entry: entry[1] == 1))
        self._combinations = prod(space.knobs[k].size or 1 for k in self._structural)
        self._factors = Factors(tuple(self._counts.values()))
        self._probes: dict[Decisions, _Probe | None] = {}
        self._points = 0
        """The number of points in all."""
        self._asked: Counter[Places] = Counter()
        """The number of points with each combination of places."""
        self._asked_after: Counter[Places] = Counter()
        """The number of points for which the place after these was to be found."""
        self._forms: dict[Places, _Form | None] = {}
        self._rules: dict[Places, PlaceRule | None] = {}
        """The rule for a place, by the places of the knobs before."""

    @property
    def replays(self) -> int:
        """The number of traces that were replayed to find the expressions."""
        return len(self._probes)

    # -------------------------------------------------------------------------------------- points

    def numbers(
        self, points: Sequence[Decisions]
    ) -> list[tuple[ProgramShape, Numbers, NDArray[np.int64]]]:
        """Return structures, numbers [numbers, points] of each, and which points these are.

        Points with places that few have asked for, or for which no expressions were found, are left
        out.
        """
        known = [k for k, point in enumerate(points) if None not in point]
        if not known or self._combinations > _MOST_PLACES:
            return []
        members_of = np.array(known)
        asked = [points[k] for k in known]
        self._points += len(asked)
        entries = self._entries(asked)
        found = []
        for places, members in self._by_places(asked, entries).items():
            self._asked[places] += len(members)
            if (form := self._form(places)) is not None:
                program, numbers = form
                found.append((program, numbers.at(entries[:, members]), members_of[members]))
        return found

    def withdraw(self, point: Decisions) -> None:
        """Give up on the points that have their blocks at the places of this one."""
        groups = self._by_places([point], self._entries([point]))
        self._forms.update(dict.fromkeys(groups, None))

    def _entries(self, points: Sequence[Decisions]) -> NDArray[np.float64]:
        """Return the factors and numbers that points decide [entries, points]."""
        rows: list[NDArray[np.float64]] = []
        by_site = list(zip(*points, strict=True))
        for k in self._counts:
            decided: Sequence[Any] = by_site[k]
            if k not in self._plain:
                knob = self._space.knobs[k]
                numbers = {decision: knob.numbers(decision) for decision in set(decided)}
                decided = [numbers[decision] for decision in decided]
            rows.extend(np.array(decided, np.float64).T)
        return np.array(rows, np.float64).reshape(len(rows), len(points))

    def _by_places(
        self, points: Sequence[Decisions], entries: NDArray[np.float64], knobs: int | None = None
    ) -> dict[Places, NDArray[np.int64]]:
        """Return the points by the places of the first `knobs` (None: all) structural knobs.

        Those of which it is not known where they have their blocks are left out.
        """
        groups: dict[Places, NDArray[np.int64]] = {(): np.arange(len(points))}
        for k in self._structural[:knobs]:
            # Places of blocks are numbers; what else is decided is told apart by its own number.
            alternatives = sorted({point[k] for point in points}, key=repr)
            by_number = self._space.knobs[k].purpose == LOCATION
            codes = {d: d if by_number else code for code, d in enumerate(alternatives)}
            asked = np.array([codes[point[k]] for point in points])
            finer: dict[Places, NDArray[np.int64]] = {}
            for before, members in groups.items():
                made = asked[members]
                if by_number:
                    self._asked_after[before] += len(members)
                    rule = self._rule(before)
                    if rule is None:
                        continue
                    made = rule.repaired(made, entries[:, members])
                for code in np.unique(made):
                    place = int(code) if by_number else alternatives[code]
                    finer[(*before, place)] = members[made == code]
            groups = finer
        return groups

    # --------------------------------------------------------------------------------------- forms

    def _worth_a_search(self, asked: int) -> bool:
        """Return True if another search for expressions pays, with so many points that ask for it."""
        deserved = _FREE_REPLAYS + self._points // _POINTS_A_REPLAY
        least = _WORTH_A_PLACE if self._structural else _WORTH_A_SEARCH
        affordable = self._budget.affords(_FIRST_PROBES, len(self._space.trace.insts))
        return affordable and asked >= least and self.replays < min(deserved, _MOST_REPLAYS)

    def _form(self, places: Places) -> _Form | None:
        if places not in self._forms:
            if not self._worth_a_search(self._asked[places]):
                return None
            found = self._search(places, lambda probe: probe.numbers)
            program = None if found is None else _common(found[1])
            self._forms[places] = (program, found[0]) if found and program else None
        return self._forms[places]

    def _rule(self, before: Places) -> PlaceRule | None:
        if before not in self._rules:
            if not self._worth_a_search(self._asked_after[before]):
                return None
            knob = self._structural[len(before)]
            found = self._search(before, lambda probe: probe.reaches[knob].extents)
            self._rules[before] = found and PlaceRule.of(
                [probe.reaches[knob] for probe in found[1]], found[0]
            )
        return self._rules[before]

    def _search(
        self, places: Places, numbers: Callable[[_Probe], NDArray[np.float64]]
    ) -> tuple[Expressions, list[_Probe]] | None:
        """Replay points with these first places until one expression is left for each number."""
        pool = self._pool(places)
        if not pool:
            return None
        entries = self._entries(pool)
        tried: list[int] = []
        probes: list[_Probe] = []
        fitting: Fitting | None = None
        wanted = 0
        while len(tried) < len(pool) and len(probes) < _MOST_PROBES:
            tried.append(wanted)
            probe = self._probe(pool[wanted])
            if probe is not None and probe.places[: len(places)] == places:
                probes.append(probe)
                column = numbers(probe)
                if fitting is None:
                    loops = probe.program.loop_of_number
                    if len(loops) != len(column):
                        loops = np.full(len(column), -1)
                    fitting = Fitting(self._factors, entries, loops, FIRST_EXTENT)
                if len(column) != fitting.count:
                    return None
                fitting.add(column, wanted)
            if fitting is None or len(probes) < _FIRST_PROBES:
                wanted = len(tried)
                continue
            doubt = fitting.doubt()
            if doubt is None:
                return None
            doubt[tried] = 0
            if doubt.max() == 0:
                return fitting.expressions(), probes
            wanted = int(doubt.argmax())
        return None

    def _pool(self, places: Places) -> list[Decisions]:
        """Return points with these first places, first those that were replayed."""
        pool = [
            probe.point
            for probe in self._probes.values()
            if probe is not None and probe.places[: len(places)] == places
        ]
        for _ in range(_MOST_DRAWS):
            points = []
            for _ in range(_POOL):
                point = list(self._space.sample(self._rng))
                for k, place in zip(self._structural, places, strict=False):
                    point[k] = place
                points.append(tuple(point))
            groups = self._by_places(points, self._entries(points), len(places))
            pool += [points[k] for k in groups.get(places, ())]
            if len(pool) >= _POOL // 4:
                break
        return pool

    def _probe(self, point: Decisions) -> _Probe | None:
        """Replay a point; None if that fails."""
        if point not in self._probes:
            self._probes[point] = self._replayed(point)
        return self._probes[point]

    def _replayed(self, point: Decisions) -> _Probe | None:
        knobs = {self._space.knobs[k].inst: k for k in self._structural}
        reaches: dict[int, Reach] = {}

        def look(
            sch: Schedule, inst: Instruction, inputs: Sequence[Any], _: Any, decision: Any
        ) -> Any:
            knob = knobs.get(inst)
            if knob is not None and self._space.knobs[knob].purpose == LOCATION:
                reaches[knob] = Reach.seen(sch, inputs[0])
            return decision

        self._budget.spend(len(self._space.trace.insts))
        try:
            sch = self._replays.replay(
                self._space.trace_of(point), 1, lambda made: partial(look, made)
            )
        except (ScheduleError, TraceError):
            return None
        made = self._space.decisions_of(sch.trace)
        if made is None:
            return None
        places = tuple([made[k] for k in self._structural])
        return _Probe(point, places, *read_nests(sch.mod), reaches)


def _common(probes: Sequence[_Probe]) -> ProgramShape | None:
    """Return the structure of several programs, None if they have several.

    What a loop drives shows only where it has several iterations.
    """
    first = probes[0].program
    drives = list(first.drives)
    for probe in probes:
        for k, kind in enumerate(probe.program.drives):
            if probe.numbers[FIRST_EXTENT + k] > 1:
                drives[k] = kind
    common = replace(first, drives=tuple(drives))
    if any(replace(probe.program, drives=common.drives) != common for probe in probes):
        return None
    return common
