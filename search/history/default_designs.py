"""Schedules chosen by estimates alone, or from the choice for a program of the same structure.

Choosing a schedule takes some tenths of a second, most of it for finding good design spaces and
compute locations. Programs that differ in integers only, such as the convolutions of a network,
share these: `choose` starts from the choice for one of them and compares tile sizes only.
"""

from __future__ import annotations

import gc
import logging
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from codegen import Target
from codegen.target import as_target
from schedule import Schedule, Trace
from schedule.decisions.domain import CandidatesDomain
from search.context import TuneContext
from search.cost_model.cost_model import CostModel
from search.cost_model.xgb_model import XGBModel
from search.history.adapted_replay import ReplayError, block_names, replay_like, schedule_of
from search.history.any_size import schedule_for_any_size
from search.history.symbolic_sizes import open_sizes, representative_sizes, with_sizes
from search.search_strategy.evolution import first_designs, is_described, promising_spaces
from search.search_strategy.individual import Individual
from search.search_strategy.trace_application import TraceApplication
from search.space_generator.design_space import DesignSpace
from search.space_generator.replays import ReplayBudget
from search.space_generator.restricted_space import ConstraintFunction
from search.space_generator.space_generator import SpaceArg
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.node import Node
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import walk

_SPACES_BY_BLOCKS: Final = 64
"""The number of compared design spaces of a program, times its blocks."""
_LEAST_SPACES: Final = 4
_INSTRUCTIONS: Final = 3300
_INSTRUCTIONS_LIKE: Final = 600
_NODES: Final = 600
"""The budget of instructions for a new choice, and for a choice like another one. An instruction
runs in a fraction of a millisecond. A program with `_NODES` nodes gets half of the budget, because
its instructions are twice as slow.
"""
_MUCH_SLOWER: Final = 0.3
"""The difference of scores, which are about logs of speeds. A program is searched itself if the
schedule that it would get from another program has a score that is lower by more than this."""

logger = logging.getLogger("tensorir.search")


@dataclass(frozen=True)
class Choice:
    """The schedule chosen for a program, to be reused for programs of the same structure."""

    blocks: tuple[str, ...]
    """The names of the blocks of the program, in order."""
    trace: Trace
    """The trace without postprocessing."""
    score: float
    """The score of the schedule, relative to the arithmetic of the program."""

    def as_json(self) -> list[Any]:
        """Return the choice as data for JSON."""
        return [list(self.blocks), self.trace.as_json(), self.score]

    @staticmethod
    def from_json(data: Any) -> Choice:
        """Return the choice of `as_json`; TraceError for a trace that cannot be read."""
        blocks, trace, score = data
        return Choice(tuple(map(str, blocks)), Trace.from_json(trace), float(score))


@contextmanager
def _without_collection() -> Iterator[None]:
    """Disable the collection of cyclic garbage while a block of code runs.

    Programs are trees, which are freed by reference counting. Other garbage of a choice is a few
    megabytes, and its collection would take a fifth of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def default_schedule(
    mod: IRModule | PrimFunc,
    target: str | Target | None = None,
    space: SpaceArg = "post-order-apply",
    constraint: ConstraintFunction | None = None,
) -> Schedule:
    """Return the schedule of a function by the rules, with decisions of the analytic model.

    Nothing is built or measured: some hundred points of the most promising design spaces are
    scored, and the best of a short evolution is replayed and postprocessed, or the next best if a
    postprocessor rejects it. The same function and target give the same schedule. It takes some
    tenths of a second for a matrix product, and longer if many locations of blocks are compared. Of
    many design spaces only some are used.

    `mod` is a function, or a module of one; for several see `apply_default_schedules`. `space` and
    `constraint` are those of `tune_tir`. A target without `num-cores` gets the number of cores of
    this machine; None is the current target, else this machine. A function with symbolic sizes gets
    the schedule of one number for each size (128, or 1 if that schedule does not apply to all
    sizes); `apply_default_schedules` gives it several. If all points are rejected, the program is
    unscheduled.

    Raises TuningError unless the module has one function, and for a constraint that allows nothing.
    """
    return _choose(mod, target, space, constraint, None, False)[0]


def choose(
    program: IRModule,
    target: Target,
    like: Choice | None = None,
    *,
    is_same: bool = False,
    cold: bool = False,
) -> tuple[Schedule, Choice | None]:
    """Return the `default_schedule` of a program, and the choice; None for an unscheduled one.

    With `like`, the choice for a program that differs in integers only, only tile sizes and other
    numbers are compared, which takes a third of the time. If it is the choice for this program
    itself (`is_same`), it is applied unchanged. A `like` that does not apply, or suits this program
    less, is ignored. With `cold`, weights are in no cache when the program begins.
    """
    return _choose(program, target, "post-order-apply", None, like, is_same, cold)


@_without_collection()
def _choose(
    mod: IRModule | PrimFunc,
    target: str | Target | None,
    space: SpaceArg,
    constraint: ConstraintFunction | None,
    like: Choice | None,
    is_same: bool,
    cold: bool = False,
) -> tuple[Schedule, Choice | None]:
    context = TuneContext(
        mod, target=as_target(target), space_generator=space, rand_state=1, constraint=constraint
    )
    context.weights_are_cold = cold
    program, chosen = context.program, context.known_target
    func = program.prim_func("main")
    for sizes in reversed(representative_sizes(func)) if open_sizes(func) else ():
        static, choice = _choose(
            with_sizes(func, sizes), chosen, space, constraint, like, is_same, cold
        )
        try:
            return schedule_for_any_size(program, static, {}), choice
        except ReplayError as error:
            logger.info("The schedule of %s does not fit all sizes: %s", sizes, error)
    if open_sizes(func):
        return Schedule(program), None
    if like is not None and is_same:
        sch = _same_design(context, like)
        if sch is not None:
            return sch, like
    found = iter(()) if like is None or is_same else _designs_like(context, like)
    best = next(found, None)
    if best is None or like is None or best.score < like.score - _MUCH_SLOWER:
        searched = next(default_designs(context, XGBModel.of(chosen)), None)
        if searched is not None and (best is None or searched.score > best.score):
            best = searched
    if best is None:
        return Schedule(program), None
    trace = best.sch.trace.simplified(remove_postproc=True)
    return best.sch, Choice(block_names(program), trace, best.score)


class Scored(NamedTuple):
    """A postprocessed schedule with its score."""

    sch: Schedule
    score: float


def default_designs(context: TuneContext, model: CostModel) -> Iterator[Scored]:
    """Yield the postprocessed schedules of a task, best score of a model first."""
    nodes = _limit_replays(context, _INSTRUCTIONS)
    blocks = sum(isinstance(node, Block) for node in nodes)
    most = max(_LEAST_SPACES, _SPACES_BY_BLOCKS // blocks)
    samples: dict[int, list[Schedule]] = defaultdict(list)
    designs = context.generate_design_space(most)
    described = [sch for sch in designs if is_described(sch.trace)]
    spaces = context.points_of(described or designs, lambda index, sch: samples[index].append(sch))
    context.budget.spend(sum(len(sch.trace.insts) for made in samples.values() for sch in made))
    scored: list[Individual] = []
    if model.reads_drafts and context.constraint is None:
        spaces, scored = promising_spaces(context, spaces, samples, model)
    yield from _best_first(context, spaces, model, scored)


def _same_design(context: TuneContext, choice: Choice) -> Schedule | None:
    """Return the schedule of a choice for the program itself; None if it does not apply."""
    sch = _replayed(context, choice)
    return sch if sch is not None and TraceApplication(context).postprocess(sch) else None


def _replayed(context: TuneContext, choice: Choice) -> Schedule | None:
    sch = schedule_of(context.program)
    sch.keeps_domains = True
    try:
        replay_like(sch, choice.blocks, choice.trace)
    except ReplayError as error:
        logger.debug("A choice for the same structure does not apply: %s", error)
        return None
    return sch


def _designs_like(context: TuneContext, like: Choice) -> Iterator[Scored]:
    """Yield the schedules that have the design space and structure of a choice, best score first.

    There are none if its trace does not apply.
    """
    sch = _replayed(context, like)
    if sch is None:
        return
    _limit_replays(context, _INSTRUCTIONS_LIKE)
    space = DesignSpace.of(sch)
    knobs = list(space.knobs)
    for k in space.structural_knobs:
        domain, decision = knobs[k].domain, space.decisions[k]
        if domain is not None and decision is not None:
            knobs[k] = replace(knobs[k], domain=CandidatesDomain(domain, (decision,)))
    assert context.space_generator is not None
    part = context.space_generator.part_of(DesignSpace(space.trace, knobs))
    yield from _best_first(context, [part], XGBModel.of(context.known_target), [])


def _limit_replays(context: TuneContext, instructions: int) -> list[Node]:
    """Set the budget of a task by the size of its program, and return the number of its nodes."""
    nodes = list(walk(context.program.prim_func("main").body))
    context.budget = ReplayBudget(instructions / (1 + len(nodes) / _NODES))
    return nodes


def _best_first(
    context: TuneContext, spaces: list[DesignSpace], model: CostModel, scored: list[Individual]
) -> Iterator[Scored]:
    """Yield the postprocessed schedules of design spaces, best score first."""
    application = TraceApplication(context)
    for design in first_designs(context, spaces, application, model, scored):
        sch = application.apply(design.trace)
        if sch is not None:
            yield Scored(sch, float(design.mean))
