"""Templates as design spaces of the search, and design spaces as tasks for tuners."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, Final

from schedule import Schedule, ScheduleError, Trace, TraceError
from schedule.decisions.domain import MOST_LISTED, plain_decision
from schedule.random_state import RandomState
from search.compat.autotvm.config import Config, ConfigEntity
from search.compat.autotvm.config_space import ConfigSpace, random_below
from search.compat.autotvm.entities import OtherOptionEntity
from search.compat.autotvm.errors import (
    InstantiationError,
    KnobError,
    SpaceIndexError,
    TemplateError,
)
from search.compat.autotvm.task import Task, compute_flop
from search.context import TuneContext
from search.mutator.mutator import MutateDecision
from search.postproc.postproc import Postproc
from search.space_generator.design_space import DesignSpace
from search.space_generator.knobs import knob_names
from search.space_generator.space_generator import SpaceGenerator
from search.task import normalize_mod
from tensorir import structural_equal, structural_hash

if TYPE_CHECKING:
    from codegen import Target
    from search.space_generator.space_generator import SpaceArg
    from tensorir.function import IRModule, PrimFunc

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
        Raises TemplateError if the template results in no schedule, or in one of another program.
        """
        rng = RandomState(1 if self.context is None else self.context.fork_seed())
        made = self._make_schedules(rng)
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

    def _make_schedules(self, rng: RandomState) -> list[Schedule]:
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
                other = self._instantiate(point)
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
            sch = self._instantiate(point)
            if sch is not None:
                return sch
        return None

    def _instantiate(self, point: Sequence[int]) -> Schedule | None:
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


_SEED: Final = 1


class ScheduleTask(Task):
    """A program and a design space of it, as a task.

    Each sampling instruction of the space is an option whose values are the decisions; it has the
    name of the decision, numbered if several are equal. A decision that contradicts earlier ones is
    repaired, so that different indices may result in the same program.
    """

    def __init__(self, name: str, context: TuneContext, design: DesignSpace) -> None:
        assert context.mod is not None
        super().__init__(name, (f"{structural_hash(context.mod):016x}", design.index))
        self.target = context.target
        self.design = design
        self._context = context
        self._mod = context.mod
        self._names = knob_names(design.knobs)
        space = ConfigSpace()
        for label, site in zip(self._names, design.knobs, strict=True):
            if site.domain is None or site.domain.size > MOST_LISTED:
                raise KnobError(
                    f"{site.name} cannot be numbered: the primitive {site.inst.kind.method} "
                    f"declares no alternatives, or more than {MOST_LISTED}"
                )
            space.define_knob(label, [_as_json(decision) for decision in site.domain])
        self.config_space = space
        self.flop = compute_flop(context.mod)

    def instantiate(self, config: Config) -> Schedule:
        """Return the schedule of a configuration, completed by the postprocessors of the space.

        Raises InstantiationError if a primitive or a postprocessor refuses it.
        """
        assert self._mod is not None
        decisions = tuple(plain_decision(config[name].val) for name in self._names)
        generator = self._context.space_generator
        postprocs = [] if generator is None else generator.postprocs
        sch = Schedule(self._mod, seed=_SEED, error_render_level="none")
        try:
            self.design.trace_of(decisions).apply_to_schedule(sch, remove_postproc=True)
            if postprocs:
                sch.enter_postproc()
            for postproc in postprocs:
                if not postproc.apply(sch):
                    raise ValueError(f"{postproc} rejects it, {postproc.reason(sch)}")
        except (ScheduleError, TraceError, ValueError) as error:
            raise InstantiationError(f"{self} refuses {config}: {error}") from error
        return sch

    def config_of(self, sch_or_trace: Schedule | Trace) -> ConfigEntity:
        """Return the configuration of a trace; KnobError for a trace of another space."""
        trace = sch_or_trace.trace if isinstance(sch_or_trace, Schedule) else sch_or_trace
        decisions = self.design.decisions_of(trace)
        if decisions is None:
            raise KnobError(f"the trace is not one of {self}")
        named = zip(self._names, decisions, strict=True)
        return self.space.entity_of({name: OtherOptionEntity(_as_json(d)) for name, d in named})


def task_of_space(
    mod: IRModule | PrimFunc,
    target: str | Target,
    space: SpaceArg,
    *,
    task_name: str = "main",
    index: int | None = None,
    seed: int = _SEED,
) -> ScheduleTask:
    """Return a design space of a program as a task, for tuners that walk a `ConfigSpace`.

    `space` is the argument of `tune_tir`; `index` selects one if it generates several. `seed`
    determines the random decisions of the generator, and so alternatives that depend on others.
    Raises TemplateError for several spaces without an index, KnobError for a decision without a
    list of alternatives.
    """
    context = TuneContext(
        mod, target=target, space_generator=space, task_name=task_name, rand_state=seed
    )
    spaces = context.generate_design_space()
    chosen = 0 if index is None and len(spaces) == 1 else index
    if chosen is None or not 0 <= chosen < len(spaces):
        raise TemplateError(
            f"there are {len(spaces)} design spaces, index is {index}; choose one in "
            f"[0, {len(spaces)})"
        )
    return ScheduleTask(task_name, context, DesignSpace.of(spaces[chosen], chosen, context.mod))


def _as_json(decision: Any) -> Any:
    """Return a decision with lists for tuples, as in a log."""
    return list(map(_as_json, decision)) if isinstance(decision, tuple) else decision
