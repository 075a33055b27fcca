"""Parts of design spaces: the points that a user's constraint allows, or that were measured."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from schedule import Schedule
from schedule.random_state import RandomState
from search.errors import TuningError
from search.space_generator.design_space import Decisions, DesignSpace
from search.space_generator.knobs import (
    MissingDecisionError,
    NamedDecisions,
    decisions_of,
    named,
)
from search.space_generator.space_generator import PostprocsArg, SpaceGenerator
from tensorir.function import IRModule

ConstraintFunction: TypeAlias = "Callable[[Mapping[str, Any]], object]"

_MOST_LISTED: Final = 10_000
"""The size of the largest space whose points are all checked."""
_MOST_DRAWN: Final = 20_000
"""The number of random points of a larger space to check before it counts as empty."""
_HOPELESS: Final = 500
"""The same number if the constraint has looked up a decision that the space does not have."""
_DRAWS: Final = 100
"""The number of random points to try for a sample before walking from an allowed point."""
_STEPS: Final = 32
_MOST_KNOWN: Final = 1024
_SEED: Final = 1


class Constraint:
    """A user's function that returns True for the decisions of an allowed schedule.

    Its argument is a `NamedDecisions`. A schedule is not allowed if the function looks up a
    decision by `[]` that the schedule does not have. Raises TuningError if the function is not
    callable.
    """

    def __init__(self, function: ConstraintFunction) -> None:
        if not callable(function):
            raise TuningError(
                "constraint is a function of decisions, as in constraint=lambda decisions: "
                f'decisions["tile of loop 0 of C"][-1] <= 16, got {function!r}'
            )
        self.function = function
        self.calls = 0
        self.missing: dict[str, str] = {}
        """The error texts for missing decisions, by the name of the decision."""

    def allows(self, decisions: NamedDecisions) -> bool:
        """Return True if decisions are allowed.

        Raises TuningError, with the decisions, if the function raises or returns None.
        """
        self.calls += 1
        try:
            answer = self.function(decisions)
        except MissingDecisionError as error:
            self.missing.setdefault(error.name, str(error))
            return False
        except Exception as error:
            raise TuningError(
                f"{self} raised {type(error).__name__}: {error}\nIts argument was\n{decisions}"
            ) from error
        if answer is None:
            raise TuningError(
                f"{self} returned None; return True for allowed decisions, else False\n"
                f"Its argument was\n{decisions}"
            )
        return bool(answer)

    def allows_schedule(self, sch: Schedule) -> bool:
        """Return True if the decisions of a schedule are allowed."""
        return self.allows(decisions_of(sch))

    @property
    def identity(self) -> str:
        """A text that is equal in two runs whose constraints have the same code and constants."""
        code = getattr(self.function, "__code__", None)
        if code is None:
            return type(self.function).__qualname__
        cells = [cell.cell_contents for cell in getattr(self.function, "__closure__", None) or ()]
        values = [v for v in (*code.co_consts, *cells) if isinstance(v, (int, float, str, tuple))]
        return repr((code.co_code, code.co_names, values))

    def __str__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        called = "" if name == "<lambda>" else f" {name}"
        try:
            path = inspect.getsourcefile(self.function)
            line = inspect.getsourcelines(self.function)[1]
        except (OSError, TypeError):
            return f"the constraint{called}"
        return f"the constraint{called} ({Path(path or '').name}, line {line})"


class ConstrainedSpace(DesignSpace):
    """The points of a space that a constraint allows, for drawing and for steps.

    All points of a small space are listed. In a large space, random points are drawn until one is
    allowed; if allowed points are rare, they are reached by random steps from an allowed point. A
    point with undecided knobs is checked once it was replayed.
    """

    def __init__(self, space: DesignSpace, constraint: Constraint) -> None:
        super().__init__(space.trace, space.knobs, space.index)
        self.constraint = constraint

    def admitted(self, decisions: Decisions) -> Decisions | None:
        """Return the point if it is allowed, else None."""
        return decisions if self._allows(decisions) else None

    def _allows(self, decisions: Decisions) -> bool:
        return None in decisions or self.constraint.allows(named(self.knobs, decisions))

    @property
    def _is_listed(self) -> bool:
        return self.num_points <= _MOST_LISTED

    @cached_property
    def known(self) -> list[Decisions]:
        """Allowed points: all of a small space, some of a large one."""
        if self._is_listed:
            choices = [[None] if knob.domain is None else knob.domain for knob in self.knobs]
            return [point for point in product(*choices) if self._allows(point)]
        found: list[Decisions] = [self.decisions] if self._allows(self.decisions) else []
        rng = RandomState(_SEED)
        for drawn in range(1, _MOST_DRAWN):
            if found or (drawn == _HOPELESS and self.constraint.missing):
                break
            point = super().sample(rng)
            found += [point] if self._allows(point) else []
        return found

    def sample(self, rng: RandomState) -> Decisions:
        """Return a random allowed point; TuningError if none is known."""
        if not self.known:
            raise TuningError(f"{self.constraint} allows no point of {self!r}")
        if self._is_listed:
            return self.known[rng.uniform_int(0, len(self.known))]
        for _ in range(_DRAWS):
            point = super().sample(rng)
            if self._allows(point):
                return self._note(point)
        point = self.known[rng.uniform_int(0, len(self.known))]
        for _ in range(_STEPS):
            step = super().neighbour(point, rng)
            if step is not None and self._allows(step):
                point = step
        return self._note(point)

    def _note(self, point: Decisions) -> Decisions:
        if len(self.known) < _MOST_KNOWN:
            self.known.append(point)
        return point

    def neighbour(
        self, decisions: Decisions, rng: RandomState, among: Sequence[int] | None = None
    ) -> Decisions | None:
        """Return an allowed point that differs in one decision, None if none was found."""
        for _ in range(_STEPS):
            point = super().neighbour(decisions, rng, among)
            if point is None or self._allows(point):
                return point
        return None


def constrain_spaces(spaces: Sequence[DesignSpace], constraint: Constraint) -> list[DesignSpace]:
    """Return the allowed parts of spaces, without empty ones.

    TuningError, with the number of checked points, if all are empty.
    """
    before = constraint.calls
    parts: list[DesignSpace] = [
        part for space in spaces if (part := ConstrainedSpace(space, constraint)).known
    ]
    if parts or not spaces:
        return parts
    points = sum(space.num_points for space in spaces)
    tried = constraint.calls - before
    points_tried = f"all {tried}" if tried >= points else f"{tried} random points of {points:.2g}"
    unknown = "".join(f"\n{text}" for text in constraint.missing.values())
    raise TuningError(
        f"{constraint} refuses all points of the design spaces (checked {points_tried})"
        f"{unknown}\nOne of them is\n{named(spaces[0].knobs, spaces[0].decisions)}"
    )


_NEAR: Final = 4
"""The number of nearest points that a step chooses from."""


class RecordedSpace(DesignSpace):
    """Some points of a design space.

    Random points are drawn from them. A step leads to one of the nearest other points, by the
    number of different decisions, and a crossover to the nearest point.
    """

    def __init__(self, space: DesignSpace, points: Sequence[Decisions]) -> None:
        super().__init__(space.trace, space.knobs, space.index)
        self.points = list(dict.fromkeys(points))
        self._codes: list[dict[Any, int]] = [{} for _ in self.knobs]
        rows = [self._code(point) for point in self.points]
        self._table = np.array(rows, np.int64).reshape(len(self.points), len(self.knobs))

    def _code(self, point: Decisions) -> list[int]:
        return [
            codes.setdefault(decision, len(codes))
            for codes, decision in zip(self._codes, point, strict=True)
        ]

    @property
    def num_points(self) -> int:
        """The number of points that were measured."""
        return len(self.points)

    def sample(self, rng: RandomState) -> Decisions:
        """Return one of the points."""
        return self.points[rng.uniform_int(0, len(self.points))]

    def admitted(self, decisions: Decisions) -> Decisions:
        """Return the nearest point, the first one of equally near points."""
        return self.points[int(self._differences(decisions, range(len(self.knobs))).argmin())]

    def neighbour(
        self, decisions: Decisions, rng: RandomState, among: Sequence[int] | None = None
    ) -> Decisions | None:
        """Return a near point that differs in the decision of a knob in `among`, None if none."""
        knobs = range(len(self.knobs))
        far = self._differences(decisions, knobs).astype(np.float64)
        changed = self._differences(decisions, knobs if among is None else among)
        far[changed == 0] = np.inf
        order = np.argsort(far, kind="stable")
        near = order[: min(_NEAR, int(np.isfinite(far).sum()))]
        return self.points[int(near[rng.uniform_int(0, len(near))])] if len(near) else None

    def _differences(self, decisions: Decisions, knobs: Sequence[int]) -> Any:
        """Return for each point the number of the given knobs whose decision differs."""
        row = np.array(self._code(decisions), np.int64)
        columns = list(knobs)
        return (self._table[:, columns] != row[columns]).sum(1)


class RecordedSpaces(SpaceGenerator):
    """Generates the design spaces of measured schedules, restricted to their measured points."""

    def __init__(
        self,
        schedules: Sequence[Schedule],
        points: Sequence[Sequence[Decisions]],
        postprocs: PostprocsArg = None,
    ) -> None:
        super().__init__(sch_rules=[], postprocs=postprocs)
        self.schedules = list(schedules)
        self.points = list(points)

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """Return a schedule of each space; `mod` is ignored."""
        return self.schedules

    def part_of(self, space: DesignSpace) -> DesignSpace:
        """Return the points of a space that were measured."""
        return RecordedSpace(space, self.points[space.index])
