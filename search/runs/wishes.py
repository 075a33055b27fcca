"""What a user knows or wants of the functions of a module, by their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from search.errors import TuningError
from search.kinds import nearest
from search.runner.arguments import InputData
from search.runner.objective import ObjectiveArg
from search.search_strategy.initial_schedules import InitialSchedules
from search.space_generator.constrained_space import ConstraintFunction
from search.space_generator.space_generator import SpaceArg


@dataclass(frozen=True)
class Wishes:
    """What `TuneContext` takes, for some functions of a module.

    One constraint may be for all functions, and one objective is.
    """

    input_data: Mapping[str, InputData] | None = None
    initial_schedules: Mapping[str, InitialSchedules] | None = None
    constraint: Mapping[str, ConstraintFunction] | ConstraintFunction | None = None
    objective: ObjectiveArg = "seconds"
    special_space: Mapping[str, SpaceArg | None] | None = None

    def of(self, name: str) -> dict[str, Any]:
        """Return the wishes for one function, as arguments of `TuneContext`."""
        constraint = self.constraint
        return {
            "input_data": (self.input_data or {}).get(name),
            "initial_schedules": (self.initial_schedules or {}).get(name),
            "constraint": constraint.get(name) if isinstance(constraint, Mapping) else constraint,
            "objective": self.objective,
        }

    def space_of(self, name: str, usual: SpaceArg) -> SpaceArg | None:
        """Return the design space of a function, None for one that is left out."""
        return (self.special_space or {}).get(name, usual)

    def names_among(self, functions: Iterable[str]) -> set[str]:
        """Return the functions of which something is wished; TuningError for one that is none."""
        known = sorted(functions)
        found: set[str] = set()
        for wish in ("input_data", "initial_schedules", "constraint", "special_space"):
            given = getattr(self, wish)
            if given is None or (wish == "constraint" and callable(given)):
                continue
            if not isinstance(given, Mapping):
                raise TuningError(
                    f"{wish} is for functions by name, as in {{{known[0] if known else ''!r}: "
                    f"...}}, got {type(given).__name__}"
                )
            for name in given:
                if name not in known:
                    raise TuningError(
                        f"{wish} names {name!r}, which is no function to tune; there are "
                        f"{', '.join(known)}{nearest(name, known)}"
                    )
            found |= set(given)
        return found
