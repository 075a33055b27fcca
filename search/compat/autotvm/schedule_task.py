"""The design space of a stochastic schedule as a task, so that tuners can walk it by index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from schedule import Schedule, ScheduleError, Trace, TraceError
from schedule.decisions.domain import MOST_LISTED, plain_decision
from search.compat.autotvm.config import Config, ConfigEntity
from search.compat.autotvm.config_space import ConfigSpace
from search.compat.autotvm.entities import OtherOptionEntity
from search.compat.autotvm.errors import InstantiationError, KnobError, TemplateError
from search.compat.autotvm.task import Task, compute_flop
from search.context import TuneContext
from search.space_generator.design_space import DesignSpace
from search.space_generator.knobs import knob_names
from tensorir import structural_hash

if TYPE_CHECKING:
    from codegen import Target
    from search.space_generator.space_generator import SpaceArg
    from tensorir.function import IRModule, PrimFunc

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

        InstantiationError if a primitive or a postprocessor refuses it.
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
    TemplateError for several spaces without an index, KnobError for a decision without a list of
    alternatives.
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
