"""The numbers in the nests of a design space as expressions over decisions.

All points of a space that compute their blocks at the same places have the same loops. Extents and
strides are then factors of tiles, products of them, or what a window over two tiles spans. Which,
is found by replaying a few points and looking for the expressions that agree with all of them;
while several agree, the next point to be replayed is one for which they differ. After that a
thousand points take as long as one replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from schedule import Schedule, ScheduleError, TraceError
from schedule.random_state import RandomState
from search.decision_site import LOCATION, Site
from search.feature_extractor.nests import FIRST_EXTENT, Numbers, ProgramShape
from search.feature_extractor.number_expressions import Expressions, Factors, fitting
from search.feature_extractor.read_nests import read_nests
from tensorir.expr import PrimExpr

if TYPE_CHECKING:
    from search.design_space import Decisions, DesignSpace
    from tensorir.function import IRModule

Places = tuple[object, ...]
"""What the sites decide that the structure of the program depends on."""

_FIRST_PROBES: Final = 4
_MOST_PROBES: Final = 32
_POOL: Final = 256
"""Points for which expressions that fit are compared."""
_MOST_ATTEMPTS: Final = 400


@dataclass(frozen=True, slots=True)
class _Form:
    """The structure that points with the same places have, and its numbers."""

    program: ProgramShape
    numbers: Expressions


class CompiledSpace:
    """One design space of a program, for which numbers are computed without replaying traces."""

    def __init__(self, space: DesignSpace, mod: IRModule, seed: int = 1) -> None:
        self._space = space
        self._mod = mod
        self._rng = RandomState(seed)
        self._forms: dict[Places, _Form | None] = {}
        self._tiles: list[tuple[int, int]] = []
        """The sites that decide factors, and how many."""
        self._values: list[tuple[int, tuple[float, ...] | None]] = []
        """The sites that decide numbers: those of the alternatives, None if it is the decision."""
        self._structural: list[int] = []
        for k, site in enumerate(space.sites):
            self._sort(k, site)
        self._factors = Factors(tuple(n for _, n in self._tiles), len(self._values))
        self.replays = 0
        """How many traces were replayed to find the expressions."""

    def _sort(self, k: int, site: Site) -> None:
        decision = self._space.decisions[k]
        if isinstance(decision, tuple):
            self._tiles.append((k, len(decision)))
        elif not site.is_sampling:
            self._values.append((k, None))
        elif site.purpose != LOCATION and site.inst.kind.name == "SampleCategorical":
            candidates = site.inst.value_of("candidates")
            self._values.append((k, tuple(_number(c) for c in candidates)))
        else:
            self._structural.append(k)

    # -------------------------------------------------------------------------------------- points

    def numbers(
        self, points: Sequence[Decisions]
    ) -> list[tuple[ProgramShape, Numbers, NDArray[np.int64]]] | None:
        """Return structures, numbers [numbers, points] of each, and which points these are.

        None if points of the space cannot be described without replaying them.
        """
        groups: dict[Places, list[int]] = {}
        for k, point in enumerate(points):
            if any(decision is None for decision in point):
                return None
            groups.setdefault(self._places(point), []).append(k)
        found = []
        for places, members in groups.items():
            form = self._form(places)
            if form is None:
                return None
            values = self._entries([points[k] for k in members])
            found.append((form.program, form.numbers.at(values), np.array(members)))
        return found

    def withdraw(self, point: Decisions) -> None:
        """Give up on the points that have their blocks at the places of this one."""
        self._forms[self._places(point)] = None

    def _places(self, point: Decisions) -> Places:
        return tuple([point[k] for k in self._structural])

    def _entries(self, points: Sequence[Decisions]) -> NDArray[np.float64]:
        """Return the factors and numbers that points decide [entries, points]."""
        columns: list[NDArray[np.float64]] = []
        for k, _ in self._tiles:
            columns.extend(np.array([point[k] for point in points], np.float64).T)
        for k, alternatives in self._values:
            decided = [point[k] for point in points]
            if alternatives is not None:
                decided = [alternatives[index] for index in decided]
            columns.append(np.array(decided, np.float64))
        return np.array(columns).reshape(len(columns), len(points))

    # --------------------------------------------------------------------------------------- forms

    def _form(self, places: Places) -> _Form | None:
        if places not in self._forms:
            self._forms[places] = self._found(places)
        return self._forms[places]

    def _found(self, places: Places) -> _Form | None:
        """Replay points until one expression is left for each number."""
        pool: list[Decisions] = []
        for _ in range(_POOL):
            point = list(self._space.sample(self._rng))
            for k, place in zip(self._structural, places, strict=True):
                point[k] = place
            pool.append(tuple(point))
        values = self._entries(pool)
        program: ProgramShape | None = None
        probes: list[int] = []
        columns: list[NDArray[np.float64]] = []
        wanted = list(range(_FIRST_PROBES))
        tried: set[int] = set()
        while len(probes) < _MOST_PROBES and len(tried) < _POOL:
            for k in wanted:
                tried.add(k)
                read = self._replay(pool[k], places)
                if read is None:
                    continue
                if program is not None and read[0] != program:
                    return None
                program = read[0]
                probes.append(k)
                columns.append(read[1])
            if program is None or len(probes) < _FIRST_PROBES:
                wanted = [k for k in range(len(pool)) if k not in tried][:1]
                continue
            loops = program.loop_of_number
            expressions, doubt = fitting(
                self._factors, np.array(columns).T, values[:, probes], values, loops, FIRST_EXTENT
            )
            if expressions is None:
                return None
            doubt[list(tried)] = -1
            if doubt.max() <= 0:
                return _Form(program, expressions)
            wanted = [int(doubt.argmax())]
        return None

    def _replay(
        self, point: Decisions, places: Places
    ) -> tuple[ProgramShape, NDArray[np.float64]] | None:
        """Return a point's nests, None if it has its blocks elsewhere."""
        self.replays += 1
        sch = Schedule(self._mod, seed=1, error_render_level="none")
        try:
            self._space.trace_of(point).apply_to_schedule(sch, remove_postproc=True)
        except (ScheduleError, TraceError):
            return None
        made = self._space.decisions_of(sch.trace)
        if made is None or self._places(made) != places:
            return None
        return read_nests(sch.mod)


def _number(candidate: object) -> float:
    value = getattr(candidate, "value", candidate) if isinstance(candidate, PrimExpr) else candidate
    return float(value) if isinstance(value, (int, float)) else float("nan")
