"""Options of single functions of a module, and the tasks of a search that have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from search.context import TuneContext
from search.errors import ArgumentError, TuningError
from search.kinds import suggestion
from search.models.extract_tasks import ExtractedTask
from search.runner.arguments import InputData
from search.runner.objective import ObjectiveArg
from search.search_strategy import SearchStrategy
from search.search_strategy.initial_schedules import InitialSchedules
from search.space_generator.restricted_space import ConstraintFunction
from search.space_generator.space_generator import SpaceArg

_SEEDS: Final = 1 << 32
"""The number of seeds of `numpy.random.RandomState`."""


@dataclass(frozen=True)
class TaskOverrides:
    """Options of `TuneContext` for single functions of a module, by their names.

    A constraint that is one function, and the objective, are for all functions. A function whose
    `special_space` is None is not tuned.
    """

    input_data: Mapping[str, InputData] | None = None
    initial_schedules: Mapping[str, InitialSchedules] | None = None
    constraint: Mapping[str, ConstraintFunction] | ConstraintFunction | None = None
    objective: ObjectiveArg = "seconds"
    special_space: Mapping[str, SpaceArg | None] | None = None

    def names_among(self, functions: Iterable[str]) -> set[str]:
        """Return the functions that have options; TuningError for other names."""
        known = sorted(functions)
        found: set[str] = set()
        for option in ("input_data", "initial_schedules", "constraint", "special_space"):
            given = getattr(self, option)
            if given is None or (option == "constraint" and callable(given)):
                continue
            if not isinstance(given, Mapping):
                raise TuningError(
                    f"{option} is for functions by name, as in {{{known[0] if known else ''!r}: "
                    f"...}}, got {type(given).__name__}"
                )
            for name in given:
                if name not in known:
                    raise TuningError(
                        f"{option} names {name!r}, which is not a function to tune; there are "
                        f"{', '.join(known)}{suggestion(name, known)}"
                    )
            found |= set(given)
        return found

    def contexts(
        self,
        tasks: Sequence[ExtractedTask],
        space: SpaceArg,
        strategy: str | SearchStrategy,
        num_threads: int | str,
        seed: int | None,
    ) -> tuple[list[TuneContext], list[float]]:
        """Return the contexts of the tasks to tune, and their weights."""
        contexts, weights = [], []
        constraint = self.constraint
        for task, task_seed in zip(tasks, seeds_of(seed, len(tasks)), strict=True):
            name = task.task_name
            own_space = (self.special_space or {}).get(name, space)
            if own_space is None:
                continue
            context = TuneContext(
                task.mod,
                target=task.target,
                space_generator=own_space,
                search_strategy=strategy,
                task_name=name,
                rand_state=task_seed,
                num_threads=num_threads,
                input_data=(self.input_data or {}).get(name),
                initial_schedules=(self.initial_schedules or {}).get(name),
                constraint=constraint.get(name) if isinstance(constraint, Mapping) else constraint,
                objective=self.objective,
            )
            contexts.append(context.clone())
            weights.append(float(task.weight))
        return contexts, weights


def seeds_of(seed: int | None, count: int) -> list[int]:
    """Return a seed for each of `count` tasks; without `seed` they are -1, for a random seed.

    Raises ArgumentError for a seed that is not an int from 0 to 4294967295.
    """
    if seed is None:
        return [-1] * count
    given: object = seed
    if not isinstance(given, (int, np.integer)) or not 0 <= given < _SEEDS:
        raise ArgumentError(
            f"seed is an int from 0 to {_SEEDS - 1}, got {seed!r}; leave it out for a random one"
        )
    return [int(s) for s in np.random.RandomState(seed).randint(1, 2**30, size=count)]
