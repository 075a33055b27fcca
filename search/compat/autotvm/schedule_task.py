"""The space of a stochastic schedule as one that tuners walk by index."""

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
from search.space_generator.decision_site import site_names
from search.space_generator.design_space import DesignSpace
from tensorir import structural_hash

if TYPE_CHECKING:
    from codegen import Target
    from search.space_generator.space_generator import SpaceArg
    from tensorir.function import IRModule, PrimFunc

_SEED: Final = 1


class ScheduleTask(Task):
    """A program and a design space of it, as a task.

    Each sampling instruction of the space is a knob, an option whose values are the decisions; it
    has the name of the decision, numbered where several have the same. A decision that does not fit
    those before it is repaired, so that different indices may give the same program.
    """

    def __init__(self, name: str, context: TuneContext, design: DesignSpace) -> None:
        assert context.mod is not None
        super().__init__(name, (f"{structural_hash(context.mod):016x}", design.index))
        self.target = context.target
        self.design = design
        self._context = context
        self._mod = context.mod
        self._names = site_names(design.sites)
        space = ConfigSpace()
        for label, site in zip(self._names, design.sites, strict=True):
            if site.domain is None or site.domain.size > MOST_LISTED:
                raise KnobError(
                    f"{site.name} has no alternatives that can be numbered; the primitive "
                    f"{site.inst.kind.method} declares none, or more than {MOST_LISTED}"
                )
            space.define_knob(label, [_as_json(decision) for decision in site.domain])
        self.config_space = space
        self.flop = space.flop or compute_flop(context.mod)

    def instantiate(self, config: Config) -> Schedule:
        """Return the schedule of a configuration, completed by the postprocessors of the space.

        InstantiationError where a primitive or a postprocessor refuses it.
        """
        assert self._mod is not None
        decisions = tuple(plain_decision(config[name].val) for name in self._names)
        sch = Schedule(self._mod, seed=_SEED, error_render_level="none")
        try:
            self.design.trace_of(decisions).apply_to_schedule(sch, remove_postproc=True)
            refused = self._refused(sch)
        except (ScheduleError, TraceError, ValueError) as error:
            raise InstantiationError(f"{self} refuses {config}: {error}") from error
        if refused:
            raise InstantiationError(f"{self} refuses {config}: {refused}")
        return sch

    def _refused(self, sch: Schedule) -> str:
        generator = self._context.space_generator
        postprocs = [] if generator is None else generator.postprocs
        if postprocs:
            sch.enter_postproc()
        for postproc in postprocs:
            if not postproc.apply(sch):
                return f"{postproc} rejects it, {postproc.reason(sch)}"
        return ""

    def config_of(self, sch_or_trace: Schedule | Trace) -> ConfigEntity:
        """Return the configuration of a trace; KnobError for one of another space."""
        trace = sch_or_trace.trace if isinstance(sch_or_trace, Schedule) else sch_or_trace
        decisions = self.design.decisions_of(trace)
        if decisions is None:
            raise KnobError(f"the trace is not one of {self}")
        entities = {
            name: OtherOptionEntity(_as_json(decision))
            for name, decision in zip(self._names, decisions, strict=True)
        }
        index = self.space.index_of(entities)
        return ConfigEntity(-1 if index is None else index, None, entities, self.space)


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

    `space` is what `tune_tir` takes; `index` says which, where it generates several. `seed`
    determines the random decisions of the generator, and so alternatives that depend on others.
    TemplateError for several spaces without an index, KnobError for a decision whose alternatives
    are not known or too many.
    """
    context = TuneContext(
        mod, target=target, space_generator=space, task_name=task_name, rand_state=seed
    )
    spaces = context.generate_design_space()
    if index is None and len(spaces) != 1:
        raise TemplateError(
            f"there are {len(spaces)} design spaces; choose one with index=0 to {len(spaces) - 1}"
        )
    chosen = index or 0
    if not 0 <= chosen < len(spaces):
        raise TemplateError(f"there is no design space {chosen}, but {len(spaces)}")
    return ScheduleTask(task_name, context, DesignSpace.of(spaces[chosen], chosen, context.mod))


def _as_json(decision: Any) -> Any:
    """Return a decision with lists for tuples, as logs have it."""
    return list(map(_as_json, decision)) if isinstance(decision, tuple) else decision
