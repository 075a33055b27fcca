"""The numbers in the loop nests of a design space, as expressions of decisions.

All points of a space with the same compute locations have the same loops. Their extents and strides
are factors of tiles, products of factors, or the extent of a window over two tiles. The expressions
are found by replaying a few points: candidates are all expressions that agree with the replayed
points, and the next point to replay is one for which candidates differ. Evaluating the expressions
for a thousand points then takes as long as one replay.
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
"""The program structure of points with the same structural decisions, and its numbers."""

Structure: TypeAlias = "tuple[Decision | None, ...]"
"""The structural decisions of a point, or the first few of them."""

_FIRST_PROBES: Final = 4
_MOST_PROBES: Final = 32
_POOL: Final = 64
"""The number of points for which fitting expressions are compared."""
_WORTH_A_SEARCH: Final = 8
"""The minimum number of points for a search of expressions, which costs some 8 replays."""
_WORTH_A_STRUCTURE: Final = 64
"""The same for one of several structures: a rare structure may never come again."""
_FREE_REPLAYS: Final = 8
_POINTS_A_REPLAY: Final = 64
_MOST_REPLAYS: Final = 64
"""The maximum number of replays: a space with many structures would need too many."""
_MOST_STRUCTURES: Final = 64
"""With more possible structures than this, too few points have the same structure."""
_MOST_DRAWS: Final = 4
"""The maximum number of times that `_POOL` points are drawn to find some of a structure."""


@dataclass(frozen=True, slots=True)
class ComputeAtScope:
    """The loops of a consumer and the possible locations, when a location is sampled."""

    kinds: tuple[int, ...]
    extents: NDArray[np.float64]
    locations: frozenset[int]

    @staticmethod
    def seen(sch: Schedule, block: BlockRV) -> ComputeAtScope:
        """Return the scope of a block before its location is sampled."""
        sref = sch.get_sref(block)
        loops = consumer_loops(sch.state, sref)
        extents = [float(e.value) if isinstance(e := s.loop.extent, IntImm) else 0.0 for s in loops]
        return ComputeAtScope(
            tuple(loop_iter_types(sch.state, loops)),
            np.array(extents),
            frozenset(location_domain(sch.state, sref).values),
        )

    @property
    def open(self) -> frozenset[int]:
        """The loops whose extents and kinds allow the block."""
        runs = self.extents[:, None] > 1
        return frozenset(int(k) for k in np.flatnonzero(open_places(self.kinds, runs)))


@dataclass(frozen=True, slots=True)
class ComputeAtRule:
    """The possible locations of a block, as a function of earlier decisions."""

    kinds: tuple[int, ...]
    extents: Expressions
    refused: frozenset[int]
    """The locations that are impossible for other reasons than extents."""

    @staticmethod
    def of(scopes: Sequence[ComputeAtScope], extents: Expressions) -> ComputeAtRule | None:
        """Return the rule that agrees with all scopes, None if there is none."""
        refused = frozenset[int]().union(*(s.open - s.locations for s in scopes))
        fixed = {INLINE_INDEX, ROOT_INDEX}
        if any(s.locations & refused or not s.locations - fixed <= s.open for s in scopes):
            return None
        inlined = {INLINE_INDEX in s.locations for s in scopes}
        if len(inlined) > 1:
            return None
        # The kind of a loop is known only if it has several iterations.
        kinds = [max(kinds) for kinds in zip(*(s.kinds for s in scopes), strict=True)]
        if inlined == {False}:
            refused |= {INLINE_INDEX}
        return ComputeAtRule(tuple(kinds), extents, refused)

    def repaired(
        self, decided: NDArray[np.int64], entries: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Return the locations after replaying points with these locations and entries."""
        possible = open_places(self.kinds, self.extents.at(entries) > 1)
        result = np.full(len(decided), ROOT_INDEX)
        for k, open_ in enumerate(possible):
            if k not in self.refused:
                result = np.where(open_ & (k <= decided), k, result)
        if INLINE_INDEX not in self.refused:
            result = np.where(decided == INLINE_INDEX, INLINE_INDEX, result)
        return result


@dataclass(frozen=True, slots=True)
class _Probe:
    """A replayed point."""

    point: Decisions
    structure: Structure
    program: ProgramShape
    numbers: NDArray[np.float64]
    scopes: dict[int, ComputeAtScope]
    """The scope for each knob that samples a location."""


class CompiledSpace:
    """A design space whose points' numbers are computed without replaying traces."""

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
        """The number of entries of each knob; tiles come first."""
        self._plain: set[int] = set()
        """The knobs whose decisions are the entries."""
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
        """The number of requested points."""
        self._requests: Counter[Structure] = Counter()
        """The number of requested points with each structure."""
        self._rule_requests: Counter[Structure] = Counter()
        """The number of requests for the rule after each prefix of a structure."""
        self._forms: dict[Structure, _Form | None] = {}
        self._rules: dict[Structure, ComputeAtRule | None] = {}
        """The rule for the next location, by the structural decisions before it."""

    @property
    def replays(self) -> int:
        """The number of replayed points."""
        return len(self._probes)

    # -------------------------------------------------------------------------------------- points

    def numbers(
        self, points: Sequence[Decisions]
    ) -> list[tuple[ProgramShape, Numbers, NDArray[np.int64]]]:
        """Return program structures, the numbers [numbers, points] of each, and their points.

        Points of rare structures, and of structures without expressions, are left out.
        """
        known = [k for k, point in enumerate(points) if None not in point]
        if not known or self._combinations > _MOST_STRUCTURES:
            return []
        members_of = np.array(known)
        decided = [points[k] for k in known]
        self._points += len(decided)
        entries = self._entries(decided)
        found = []
        for structure, members in self._by_structure(decided, entries).items():
            self._requests[structure] += len(members)
            if (form := self._form(structure)) is not None:
                program, numbers = form
                found.append((program, numbers.at(entries[:, members]), members_of[members]))
        return found

    def withdraw(self, point: Decisions) -> None:
        """Leave out all points with the structure of this point from now on."""
        groups = self._by_structure([point], self._entries([point]))
        self._forms.update(dict.fromkeys(groups, None))

    def _entries(self, points: Sequence[Decisions]) -> NDArray[np.float64]:
        """Return the factors of tiles and the other numbers of points [entries, points]."""
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

    def _by_structure(
        self, points: Sequence[Decisions], entries: NDArray[np.float64], knobs: int | None = None
    ) -> dict[Structure, NDArray[np.int64]]:
        """Return the points by the first `knobs` (None: all) structural decisions, after repair.

        Points for which a rule is missing are left out.
        """
        groups: dict[Structure, NDArray[np.int64]] = {(): np.arange(len(points))}
        for k in self._structural[:knobs]:
            # Locations are numbers; any other decision is numbered here.
            alternatives = sorted({point[k] for point in points}, key=repr)
            is_location = self._space.knobs[k].purpose == LOCATION
            codes = {d: d if is_location else code for code, d in enumerate(alternatives)}
            decided = np.array([codes[point[k]] for point in points])
            finer: dict[Structure, NDArray[np.int64]] = {}
            for before, members in groups.items():
                made = decided[members]
                if is_location:
                    self._rule_requests[before] += len(members)
                    rule = self._rule(before)
                    if rule is None:
                        continue
                    made = rule.repaired(made, entries[:, members])
                for code in np.unique(made):
                    decision = int(code) if is_location else alternatives[code]
                    finer[(*before, decision)] = members[made == code]
            groups = finer
        return groups

    # --------------------------------------------------------------------------------------- forms

    def _search_pays(self, requests: int) -> bool:
        """Return True if a search for expressions pays for this number of requests."""
        deserved = _FREE_REPLAYS + self._points // _POINTS_A_REPLAY
        least = _WORTH_A_STRUCTURE if self._structural else _WORTH_A_SEARCH
        affordable = self._budget.affords(_FIRST_PROBES, len(self._space.trace.insts))
        return affordable and requests >= least and self.replays < min(deserved, _MOST_REPLAYS)

    def _form(self, structure: Structure) -> _Form | None:
        if structure not in self._forms:
            if not self._search_pays(self._requests[structure]):
                return None
            found = self._search(structure, lambda probe: probe.numbers)
            program = None if found is None else _common_shape(found[1])
            self._forms[structure] = (program, found[0]) if found and program else None
        return self._forms[structure]

    def _rule(self, before: Structure) -> ComputeAtRule | None:
        if before not in self._rules:
            if not self._search_pays(self._rule_requests[before]):
                return None
            knob = self._structural[len(before)]
            found = self._search(before, lambda probe: probe.scopes[knob].extents)
            self._rules[before] = found and ComputeAtRule.of(
                [probe.scopes[knob] for probe in found[1]], found[0]
            )
        return self._rules[before]

    def _search(
        self, structure: Structure, numbers: Callable[[_Probe], NDArray[np.float64]]
    ) -> tuple[Expressions, list[_Probe]] | None:
        """Replay points of a structure until one expression is left for each number."""
        pool = self._pool(structure)
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
            if probe is not None and probe.structure[: len(structure)] == structure:
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

    def _pool(self, structure: Structure) -> list[Decisions]:
        """Return points of a structure, replayed ones first."""
        pool = [
            probe.point
            for probe in self._probes.values()
            if probe is not None and probe.structure[: len(structure)] == structure
        ]
        for _ in range(_MOST_DRAWS):
            points = []
            for _ in range(_POOL):
                point = list(self._space.sample(self._rng))
                for k, decision in zip(self._structural, structure, strict=False):
                    point[k] = decision
                points.append(tuple(point))
            groups = self._by_structure(points, self._entries(points), len(structure))
            pool += [points[k] for k in groups.get(structure, ())]
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
        scopes: dict[int, ComputeAtScope] = {}

        def look(
            sch: Schedule, inst: Instruction, inputs: Sequence[Any], _: Any, decision: Any
        ) -> Any:
            knob = knobs.get(inst)
            if knob is not None and self._space.knobs[knob].purpose == LOCATION:
                scopes[knob] = ComputeAtScope.seen(sch, inputs[0])
            return decision

        self._budget.spend(len(self._space.trace.insts))
        try:
            sch = self._replays.replay(
                self._space.trace_of(point), 1, lambda made: partial(look, made)
            )
        except (ScheduleError, TraceError):
            return None
        made = self._space.decisions_of_replay(sch.trace)
        if made is None:
            return None
        structure = tuple([made[k] for k in self._structural])
        return _Probe(point, structure, *read_nests(sch.mod), scopes)


def _common_shape(probes: Sequence[_Probe]) -> ProgramShape | None:
    """Return the common structure of several programs, None if their structures differ.

    The kind of a loop is known only if it has several iterations.
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
