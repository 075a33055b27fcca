"""Schedules of programs without records: the most promising one, or the best of a few.

A function with symbolic shapes is scheduled with the smallest values of its symbolic sizes, usually
1. The trace is replayed on the function itself: a loop over a symbolic size is split like a loop of
one iteration, so all its iterations are in the outermost part, and the other loops get the same
tiles. Most often the symbolic size is a batch, so this is a schedule for any number of elements.
"""

from __future__ import annotations

import gc
import logging
import os
import tempfile
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from codegen import Target
from codegen.history import without_history
from codegen.target import as_target
from schedule import LoopRV, Schedule, Trace
from schedule.instruction import Instruction
from schedule.trace import translate
from search.arg_info import ArgInfo
from search.builder import Builder
from search.context import TuneContext
from search.cost_model.cost_model import CostModel
from search.cost_model.measurements import OutdatedModelError
from search.cost_model.xgb_model import XGBModel
from search.database.keyed_database import MemoryDatabase
from search.database.records import TuningRecord, Workload
from search.errors import TuningError
from search.history.adapted_replay import AdaptedReplay, ReplayError, schedule_of, space_for
from search.loop import tune_run
from search.options import TuneConfig
from search.postproc import DisallowDynamicLoop
from search.run import Run
from search.runner import Runner
from search.search_strategy.evolution import first_designs, is_described, promising_spaces
from search.search_strategy.evolutionary_search import EvolutionarySearch
from search.search_strategy.individual import Individual
from search.search_strategy.trace_application import TraceApplication
from search.space_generator.replays import ReplayBudget
from search.space_generator.restricted_space import ConstraintFunction
from search.space_generator.space_generator import SpaceArg
from search.task import normalize_mod
from tensorir.arith import Analyzer
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.ops import const
from tensorir.nodes.stmt import Block, For
from tensorir.rewriting.visit import collect_vars, substitute, walk

_SPACES_BY_BLOCKS: Final = 64
"""The number of compared design spaces of a program, times its blocks."""
_LEAST_SPACES: Final = 4
_INSTRUCTIONS: Final = 3300
_NODES: Final = 600
"""The budget of instructions for one choice, each of which runs in a fraction of a millisecond; for
a program with `_NODES` nodes it is half of that, as each takes twice as long."""

logger = logging.getLogger("tensorir.search")


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


@_without_collection()
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
    this machine; None is the current target, else this machine. A function with symbolic shapes is
    scheduled with the smallest sizes for which no loop is empty, usually 1, and runs all elements
    in its outermost loops. If all points are rejected, the program is unscheduled.

    TuningError unless the module has one function, and for a constraint that allows nothing.
    """
    context = TuneContext(
        mod,
        target=as_target(target),
        space_generator=space,
        rand_state=1,
        constraint=constraint,
    )
    assert context.mod is not None
    assert context.target is not None
    if open_sizes(context.mod.prim_func("main")):
        single = default_schedule(
            with_smallest_sizes(context.mod), context.target, space, constraint
        )
        try:
            return schedule_by_single(context.mod, single.trace, context.target)
        except ReplayError as error:
            logger.info("The schedule of single elements does not fit symbolic sizes: %s", error)
            return Schedule(context.mod)
    for sch in default_designs(context, XGBModel()):
        return sch
    return Schedule(context.mod)


def default_designs(context: TuneContext, model: CostModel) -> Iterator[Schedule]:
    """Yield the postprocessed schedules of a task, best score of a model first."""
    assert context.mod is not None
    nodes = list(walk(context.mod.prim_func("main").body))
    context.budget = ReplayBudget(_INSTRUCTIONS / (1 + len(nodes) / _NODES))
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
    application = TraceApplication(context)
    for design in first_designs(context, spaces, application, model, scored):
        sch = application.apply(design.trace)
        if sch is not None:
            yield sch


class Sampler(ABC):
    """Samples schedules of programs without records."""

    @abstractmethod
    def sample(self, mod: IRModule, target: Target, task_name: str = "main") -> TuningRecord | None:
        """Return a record of a schedule of a module of one function, or None.

        It has times only if it was measured.
        """


@dataclass(frozen=True)
class SampleOnMiss(Sampler):
    """Samples a schedule of a program without a record.

    It is the schedule of `default_schedule`: the best score of a cost model among many points of
    the design spaces. With `num_measure` above 0 this number of points is measured, most by their
    scores and some at random, and the fastest is chosen.

    `cost_model` is a model, or the path of a saved `XGBModel`; the default is an untrained
    `XGBModel`, whose scores are analytic estimates. A model that is given learns from the
    measurements. The same `seed` measures the same programs.
    """

    cost_model: CostModel | str | os.PathLike[str] | None = None
    num_measure: int = -1
    seed: int = 1
    builder: str | Builder = "local"
    runner: str | Runner = "local"

    def sample(self, mod: IRModule, target: Target, task_name: str = "main") -> TuningRecord | None:
        """Return the record of the chosen schedule; None if none could be measured.

        None, too, for a program without random arguments: one with symbolic shapes or scalar
        parameters.
        """
        try:
            arguments = ArgInfo.from_entry_func(mod)
        except TuningError as error:
            logger.info('Function "%s" is not sampled: %s', task_name, error)
            return None
        context = TuneContext(
            mod,
            target=target,
            space_generator="post-order-apply",
            search_strategy=EvolutionarySearch(first_batch=max(1, self.num_measure)),
            task_name=task_name,
            rand_state=self.seed,
        )
        if self.num_measure > 0:
            with without_history():
                return self._measured(context)
        for sch in default_designs(context, self._model()):
            assert context.mod is not None
            return TuningRecord(
                sch.trace, Workload(context.mod), target=context.target, args_info=arguments
            )
        return None

    def _measured(self, context: TuneContext) -> TuningRecord | None:
        """Return the record of the fastest of the most promising schedules."""
        assert context.mod is not None
        database = MemoryDatabase()
        config = TuneConfig(
            self.num_measure,
            self.num_measure,
            builder=self.builder,
            runner=self.runner,
            database=database,
            cost_model=self._model(),
        )
        with (
            tempfile.TemporaryDirectory(prefix="sample_") as folder,
            Run.open([context], [1.0], folder, config) as run,
        ):
            try:
                tune_run(run)
            except TuningError as error:
                logger.warning("Sampling ended early: %s", error)
        return database.query_tuning_record(context.mod, context.target)

    def _model(self) -> CostModel:
        if isinstance(self.cost_model, CostModel):
            return self.cost_model
        model = XGBModel()
        if self.cost_model is not None:
            try:
                model.load(self.cost_model)
            except OutdatedModelError as error:
                logger.warning("Sampling orders candidates by estimates: %s", error)
        return model


_LARGEST: Final = 1 << 16
"""The maximum value of a symbolic size."""


def open_sizes(func: PrimFunc) -> list[Var]:
    """Return the variables in shapes of parameters, and the parameters in extents, in order."""
    shapes = (extent for buffer in func.buffer_map.values() for extent in buffer.shape)
    given = set(func.params)
    found = [var for extent in shapes for var in collect_vars(extent)]
    found += [var for extent in _extents(func) for var in collect_vars(extent) if var in given]
    return list(dict.fromkeys(found))


def with_smallest_sizes(mod: IRModule) -> IRModule:
    """Return a module of one function with a number for each of its symbolic sizes.

    The number is the smallest power of two for which all loops and buffers are nonempty.
    """
    func = mod.prim_func("main")
    sizes = dict.fromkeys(open_sizes(func), 1)
    shapes = [extent for buffer in func.buffer_map.values() for extent in buffer.shape]
    extents = [*shapes, *_extents(func)]
    while empty := [extent for extent in extents if _value(extent, sizes) < 1]:
        larger = {
            var: 2 * sizes[var]
            for extent in empty
            for var in collect_vars(extent)
            if sizes.get(var, _LARGEST) < _LARGEST
            and _value(extent, sizes) <= _value(extent, {**sizes, var: 2 * sizes[var]})
        }
        if not larger:
            break
        sizes.update(larger)
    return normalize_mod(func.specialize(sizes))


def _extents(func: PrimFunc) -> Iterator[PrimExpr]:
    """Yield the extents of the loops of a function, and of the buffers that it allocates."""
    for node in walk(func.body):
        if isinstance(node, For):
            yield node.extent
        elif isinstance(node, Block):
            for buffer in node.alloc_buffers:
                yield from buffer.shape


def _value(extent: PrimExpr, sizes: Mapping[Var, int]) -> int:
    """Return an extent for some sizes; 1 if it depends on other values."""
    numbers = {var: const(size, var.dtype) for var, size in sizes.items()}
    value = Analyzer().simplify(substitute(extent, numbers))
    return value.value if isinstance(value, IntImm) else 1


def schedule_by_single(mod: IRModule, trace: Trace, target: Target) -> Schedule:
    """Return a schedule of `mod` from a trace of `with_smallest_sizes(mod)`.

    ReplayError if the trace does not apply to symbolic sizes.
    """
    sch = schedule_of(mod)
    _OverOpenSizes(sch, "main", lambda block: block).apply(trace)
    sch.enter_postproc()
    for postproc in space_for(mod, target).postprocs:
        if not isinstance(postproc, DisallowDynamicLoop) and not postproc.apply(sch):
            raise ReplayError(f"{postproc} rejects the schedule: {postproc.reason(sch)}")
    return sch


class _OverOpenSizes(AdaptedReplay):
    """Replays a trace of a program with the smallest sizes on the program with symbolic sizes.

    Tiles of loops over symbolic sizes are not sampled: the outermost part has all iterations.
    """

    def _applied(self, inst: Instruction, decision: Any) -> list[Any]:
        if inst.kind.name in ("SamplePerfectTile", "SamplePartitionedTile"):
            loop = translate(inst.values[0], self._made)
            if not self._is_known(loop):
                return [None, *[1] * (len(decision) - 1)]
        return super()._applied(inst, decision)

    def _covering(self, loop: LoopRV, factors: tuple[Any, ...]) -> tuple[Any, ...]:
        if self._is_known(loop):
            return super()._covering(loop, factors)
        return (None, *(1 if factor is None else factor for factor in factors[1:]))

    def _is_known(self, loop: LoopRV) -> bool:
        return isinstance(self._sch.get(loop).extent, IntImm)
