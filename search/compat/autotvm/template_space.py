"""A template as a design space of the search: `tune_tir` accepts it as `space`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Final

from schedule import Schedule
from schedule.random_state import RandomState
from search.compat.autotvm.config_space import ConfigSpace, random_below
from search.compat.autotvm.errors import InstantiationError, SpaceIndexError, TemplateError
from search.compat.autotvm.task import Task
from search.mutator.mutator import MutateDecision
from search.postproc.postproc import Postproc
from search.space_generator.design_space import DesignSpace
from search.space_generator.space_generator import SpaceGenerator
from search.task import normalize_mod
from tensorir import structural_equal

if TYPE_CHECKING:
    from tensorir.function import IRModule

logger = logging.getLogger("autotvm")

_MOST_SPACES: Final = 64
_MOST_TRIES: Final = 16
_MOST_PROBED: Final = 4


class TemplateSpace(SpaceGenerator):
    """The schedules of a template's task.

        search.tune_tir(task.mod, target, config, work_dir, space=autotvm.TemplateSpace(task))

    A knob that is only applied is a decision of the trace, which the search may change. Knobs whose
    values Python reads (`cfg["x"].val`, or the length of a loop that was split, which is detected
    by trying some values) are fixed in a trace: the template runs once for each combination of
    their values, up to 64 of them, and each is a design space.

    Candidates are what `task.instantiate` returns: the only postprocessor rejects configurations by
    the filter of the space. The only mutator changes any knob.
    """

    def __init__(self, task: Task) -> None:
        super().__init__([], [WithinFilter(task.space)], {MutateDecision(): 1.0})
        self.task = task

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """Return a schedule for each combination of the knobs that Python reads.

        If such a knob changes the program itself, only the schedules of `mod` are returned.
        TemplateError if the template results in no schedule, or in one of another program.
        """
        rng = RandomState(1 if self.context is None else self.context.fork_seed())
        made = self._made(rng)
        same: list[Schedule] = []
        for sch in made:
            if structural_equal(normalize_mod(sch.initial_mod), mod):
                replay = Schedule(mod, seed=rng.fork())
                sch.trace.apply_to_schedule(replay, remove_postproc=False)
                same.append(replay)
        if not same:
            raise TemplateError(
                f"{self.task} schedules another program than the one to tune; pass task.mod"
                if made
                else f"{self.task} refuses every configuration that was tried"
            )
        if len(same) < len(made):
            logger.warning(
                "%s computes other programs for other values of %s: %d of %d design spaces are "
                "skipped; the tuners of autotvm would search them",
                self.task,
                ", ".join(sorted(self.task.space.reads)),
                len(made) - len(same),
                len(made),
            )
        return same

    def _made(self, rng: RandomState) -> list[Schedule]:
        """Return the schedules; start again while the template turns out to read more knobs."""
        space = self.task.space
        while True:
            known = set(space.reads)
            attempts = (self._attempt(fixed, rng) for fixed in _combinations(space, rng))
            made = [sch for sch in attempts if sch is not None]
            for sch in made[:_MOST_PROBED] if space.reads == known else ():
                self._probe(sch, rng)
            if space.reads == known:
                return made

    def _probe(self, sch: Schedule, rng: RandomState) -> None:
        """Count a knob as read if other values of it result in other instructions.

        The template may depend on a loop that the knob has split, for example.
        """
        space = self.task.space
        design = DesignSpace.of(sch)
        base = space.point2knob(self.task.config_of(sch).index)
        for position, (name, dim) in enumerate(zip(space.space_map, space.dims, strict=True)):
            if name in space.reads:
                continue
            for digit in sorted({0, dim - 1, random_below(rng, dim), random_below(rng, dim)}):
                point = [*base[:position], digit, *base[position + 1 :]]
                other = self._instantiated(point)
                if other is not None and design.decisions_of(other.trace) is None:
                    space.reads.add(name)
                    break

    def _attempt(self, fixed: Mapping[int, int], rng: RandomState) -> Schedule | None:
        """Return a schedule with given values for some knobs, None if all attempts are refused."""
        space = self.task.space
        point = [0] * len(space.dims)
        for attempt in range(_MOST_TRIES):
            if attempt > 0:
                point = [random_below(rng, dim) for dim in space.dims]
            for position, digit in fixed.items():
                point[position] = digit
            sch = self._instantiated(point)
            if sch is not None:
                return sch
        return None

    def _instantiated(self, point: Sequence[int]) -> Schedule | None:
        """Return the schedule of a configuration, None if it is refused or filtered out."""
        space = self.task.space
        try:
            return self.task.instantiate(space.get(space.knob2point(point)))
        except (InstantiationError, SpaceIndexError):
            return None


class WithinFilter(Postproc):
    """Rejects configurations by the filter over several knobs of a space."""

    def __init__(self, space: ConfigSpace) -> None:
        self.space = space

    def apply(self, sch: Schedule) -> bool:
        """Return True if the filter accepts the decisions of the trace."""
        return self.space.allows(self.space.config_of(sch).entity_map)

    def reason(self, sch: Schedule) -> str:
        """Return a sentence that names the configuration."""
        return f"the filter of the template rejects {self.space.config_of(sch)}"


def _combinations(space: ConfigSpace, rng: RandomState) -> Iterator[dict[int, int]]:
    """Yield values, by position, for the knobs that Python reads: all, or a random sample."""
    positions = [k for k, name in enumerate(space.space_map) if name in space.reads]
    dims = [space.dims[k] for k in positions]
    if prod(dims) <= _MOST_SPACES:
        for digits in product(*map(range, dims)):
            yield dict(zip(positions, digits, strict=True))
        return
    drawn: set[tuple[int, ...]] = set()
    while len(drawn) < _MOST_SPACES:
        drawn.add(tuple(random_below(rng, dim) for dim in dims))
    for digits in sorted(drawn):
        yield dict(zip(positions, digits, strict=True))
