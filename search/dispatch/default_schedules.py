"""Schedules without a search: the rules, decided by what a model expects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from codegen.target import as_target
from schedule import Schedule
from search.context import TuneContext
from search.cost_model.xgb_model import XGBModel
from search.search_strategy.evolution import first_designs
from search.search_strategy.trace_application import TraceApplication
from search.spaces.design_space import DesignSpace

if TYPE_CHECKING:
    from codegen import Target
    from search.cost_model.cost_model import CostModel
    from search.space_generator.space_generator import SpaceArg
    from tensorir.function import IRModule, PrimFunc


def default_schedule(
    mod: IRModule | PrimFunc,
    target: str | Target | None = None,
    space: SpaceArg = "post-order-apply",
) -> Schedule:
    """Return the schedule that the rules give a function with decisions from the analytic model.

    Nothing is built or measured: some hundred points of each design space are scored at once, the
    best of a short evolution is replayed and postprocessed, and where a postprocessor rejects it
    the next best is. The same function and target give the same schedule. It takes about a tenth
    of a second for a matrix product, longer where many places of blocks are to be compared, and is
    what the search of the same program measures first.

    `mod` is a function, or a module with one to schedule; for a module of several see
    `apply_default_schedules`. `space` is what `tune_tir` takes. A target that does not say
    `num-cores` gets the number of cores of this machine, None is the current one, else this
    machine. Where all points are rejected the schedule is that of the program as it is.

    TuningError for a module of several functions, or of none.
    """
    context = TuneContext(mod, target=as_target(target), space_generator=space, rand_state=1)
    assert context.mod is not None
    for sch in default_designs(context, XGBModel()):
        return sch
    return Schedule(context.mod)


def default_designs(context: TuneContext, model: CostModel) -> Iterator[Schedule]:
    """Yield the schedules that a model prefers of a task, postprocessed, the best first."""
    assert context.mod is not None
    made = context.generate_design_space()
    spaces = [DesignSpace.of(sch, k, context.mod) for k, sch in enumerate(made)]
    application = TraceApplication(context)
    for design in first_designs(context, spaces, application, model):
        sch = application.apply(design.trace)
        if sch is not None:
            yield sch
