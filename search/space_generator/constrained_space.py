"""The part of a design space that a user's constraint on decisions allows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Final, TypeAlias

from schedule import Schedule
from schedule.random_state import RandomState
from search.errors import TuningError
from search.space_generator.design_space import Decisions, DesignSpace
from search.space_generator.named_decisions import (
    MissingDecisionError,
    NamedDecisions,
    decisions_of,
    named,
)

ConstraintFunction: TypeAlias = "Callable[[Mapping[str, Any]], object]"

_MOST_LISTED: Final = 10_000
"""Points of a space all of which are asked about."""
_MOST_DRAWN: Final = 20_000
"""Random points of a larger space that are asked about before it counts as empty."""
_HOPELESS: Final = 500
"""Of these, those without a decision that the constraint asks for, after which it is empty."""
_DRAWS: Final = 100
"""Random points that are tried for a sample before one is reached by steps from a known one."""
_STEPS: Final = 32
_MOST_KNOWN: Final = 1024
_SEED: Final = 1


class Constraint:
    """A function of the decisions of a schedule that says whether it may be tried.

    It is given `NamedDecisions`, and its result counts as true or false. A schedule without a
    decision that it asks for by `[]` is not allowed. TuningError for what cannot be called.
    """

    def __init__(self, function: ConstraintFunction) -> None:
        if not callable(function):
            raise TuningError(
                "constraint is a function of decisions, as in constraint=lambda decisions: "
                f'decisions["tile of loop 0 of C"][-1] <= 16, got {function!r}'
            )
        self.function = function
        self.asked = 0
        self.missing: dict[str, str] = {}
        """What was said of decisions that were asked for in vain, by their names."""

    def allows(self, decisions: NamedDecisions) -> bool:
        """Say whether decisions are allowed.

        TuningError, which names the constraint and what it was given, where it raises or returns
        None.
        """
        self.asked += 1
        try:
            answer = self.function(decisions)
        except MissingDecisionError as error:
            self.missing.setdefault(error.name, str(error))
            return False
        except Exception as error:
            raise TuningError(
                f"{self} raised {type(error).__name__}: {error}\nIt was given\n{decisions}"
            ) from error
        if answer is None:
            raise TuningError(
                f"{self} returned None: return True for what is allowed, else False\n"
                f"It was given\n{decisions}"
            )
        return bool(answer)

    def allows_schedule(self, sch: Schedule) -> bool:
        """Say whether the decisions of a schedule are allowed."""
        return self.allows(decisions_of(sch))

    @property
    def identity(self) -> str:
        """A text that two runs share if their constraints are written the same."""
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
    """The points of a space that a constraint allows; no others are drawn, and no steps lead out.

    Of a small space all points are listed. In a large one points are drawn until one is allowed,
    and where those are rare, reached by random steps from one that is known. A point with a
    decision that comes out only by replaying is asked about then.
    """

    def __init__(self, space: DesignSpace, constraint: Constraint) -> None:
        super().__init__(space.trace, space.sites, space.index)
        self.constraint = constraint

    def admitted(self, decisions: Decisions) -> Decisions | None:
        """Return an allowed point as it is, None for any other."""
        return decisions if self._allows(decisions) else None

    def _allows(self, decisions: Decisions) -> bool:
        return None in decisions or self.constraint.allows(named(self.sites, decisions))

    @property
    def _is_listed(self) -> bool:
        return self.num_points <= _MOST_LISTED

    @cached_property
    def known(self) -> list[Decisions]:
        """Allowed points: all of a small space, some of a large one. None were found if empty."""
        if self._is_listed:
            choices = [[None] if site.domain is None else site.domain for site in self.sites]
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
                return self._noted(point)
        point = self.known[rng.uniform_int(0, len(self.known))]
        for _ in range(_STEPS):
            step = super().neighbour(point, rng)
            if step is not None and self._allows(step):
                point = step
        return self._noted(point)

    def _noted(self, point: Decisions) -> Decisions:
        if len(self.known) < _MOST_KNOWN:
            self.known.append(point)
        return point

    def neighbour(
        self, decisions: Decisions, rng: RandomState, among: Sequence[int] | None = None
    ) -> Decisions | None:
        """Return an allowed point with another decision at one site, None if none was found."""
        for _ in range(_STEPS):
            point = super().neighbour(decisions, rng, among)
            if point is None or self._allows(point):
                return point
        return None


def constrained(spaces: Sequence[DesignSpace], constraint: Constraint) -> list[DesignSpace]:
    """Return the parts of spaces that a constraint allows, without those of which that is nothing.

    TuningError, which says how many points were tried, if nothing is left.
    """
    before = constraint.asked
    parts: list[DesignSpace] = [
        part for space in spaces if (part := ConstrainedSpace(space, constraint)).known
    ]
    if parts or not spaces:
        return parts
    points = sum(space.num_points for space in spaces)
    tried = constraint.asked - before
    count = f"all {tried} points are" if tried >= points else f"each of {tried} random points is"
    of = "" if tried >= points else f", of {points:.2g} that there are"
    unknown = "".join(f"\n{text}" for text in constraint.missing.values())
    raise TuningError(
        f"nothing can be searched: {count} refused by {constraint}{of}{unknown}\n"
        f"One of them decides\n{named(spaces[0].sites, spaces[0].decisions)}"
    )
