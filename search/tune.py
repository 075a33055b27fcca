"""Tuning programs: `tune_tir` for one function, `tune_module` for many, `tune_tasks` for any."""

from __future__ import annotations

import contextlib
import inspect
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Never, Unpack

from codegen import Target
from schedule import Schedule
from search.builder import Builder
from search.context import TuneContext
from search.cost_model.cost_model import CostModel
from search.database import Database
from search.database.best_records import with_schedules
from search.errors import TuningError
from search.history.find_schedule import find_schedule, warn_if_untuned
from search.kinds import suggestion
from search.loop import tune_run
from search.measure_callback import MeasureCallback
from search.models.extract_tasks import tasks_of_functions
from search.options import OnInterrupt, TuneConfig, TuneOptions, listing_options
from search.reports.report import TaskReport
from search.run import Run, open_database
from search.runner import Runner
from search.runner.arguments import InputData
from search.runner.objective import SECONDS, ObjectiveArg
from search.runs.name_winner import best_for
from search.runs.task_overrides import TaskOverrides, seeds_of
from search.search_strategy import SearchStrategy
from search.search_strategy.initial_schedules import InitialSchedules
from search.space_generator import SpaceGenerator
from search.space_generator.restricted_space import ConstraintFunction
from search.space_generator.space_generator import (
    MutatorProbs,
    Postprocs,
    Rules,
    SpaceArg,
    space_from_parts,
)
from search.task import as_module, functions_to_tune
from tensorir.errors import IRTypeError
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.stmt import Block
from tensorir.paths import PathLike
from tensorir.rewriting.visit import walk


def tune_tir(
    mod: IRModule | PrimFunc,
    target: str | Target,
    config: TuneConfig | None = None,
    work_dir: PathLike | None = None,
    *,
    space: SpaceArg | None = None,
    blocks: Sequence[str] | None = None,
    sch_rules: Rules | None = None,
    postprocs: Postprocs | None = None,
    mutator_probs: MutatorProbs | None = None,
    task_name: str = "main",
    num_threads: int | str = "physical",
    seed: int | None = None,
    input_data: InputData | None = None,
    initial_schedules: InitialSchedules | None = None,
    constraint: ConstraintFunction | None = None,
    objective: ObjectiveArg = "seconds",
    builder: str | type[Builder] | Builder | None = None,
    runner: str | type[Runner] | Runner | None = None,
    database: str | Database | None = None,
    cost_model: str | CostModel | None = None,
    measure_callbacks: str | Sequence[MeasureCallback] | None = None,
    verbose: int | None = None,
    on_interrupt: OnInterrupt | None = None,
    **unknown: Never,
) -> TunedSchedule | None:
    """Search for the best schedule of a function and return it.

    `mod` is a function, or a module with one function to tune (next to graph functions). `config`
    has the budget of the search in trials, seconds, or both; with `max_trials_global` 0 nothing is
    measured. The result is None if no trial has succeeded, now or in an earlier run on `work_dir`.
    `print(best.report)` shows the time of a call before and after the search, and its fraction of
    the peak of this machine.

    `space` is a space generator, its short name, or a schedule function; by default schedules come
    from rules for the target. `blocks` restricts the rules to blocks of these names; `sch_rules`,
    `postprocs` and `mutator_probs` replace those of the space. `seed` makes the sampling
    reproducible, though measurements never are.

    Candidates are checked and measured on random arrays. Array elements that the program uses as
    indices are in bounds. `input_data` replaces some of the arrays, by the names of parameters or
    of their buffers (`{"indices": array}`), with the shapes and dtypes of the parameters. It may
    also be a function without parameters that returns such a mapping.

    `initial_schedules` are measured first, and the strategy breeds from them: schedules, traces,
    the JSON texts of traces, or records of a database. A point of the design spaces is
    postprocessed like any other; any other schedule, written by hand for example, is measured
    unchanged. `constraint` is a function of the decisions of a schedule by name (see
    `decisions_of`), which returns True if the schedule may be tried: `lambda decisions:
    decisions["tile of loop 0 of C"][-1] <= 16`. It is called before a candidate is built. The
    result satisfies the constraint, or is one of the `initial_schedules`. `objective` is minimised:
    `"seconds"` is the median of the runs of a trial, `"p90"` a percentile of 64 calls that are
    timed one by one, and `"energy"` the joules per call, if RAPL's counters can be read. A function
    of the seconds of the runs may return any other number. The records have the seconds.

    `work_dir` keeps everything: the database, the log of trials, text logs, and the cost model.
    Ctrl-C ends the search, keeps all measurements, and raises KeyboardInterrupt, so that a script
    ends too; with `on_interrupt="return"` the best schedule so far is returned. An interrupted or
    killed run resumes, with its cost model, when it is started again with the same program, target,
    space, seed, strategy and number of trials. Any other run on the same directory is a new one.
    Its cost model learns from the records there, and it measures none of them again.

    The parts of the search are those of `config`, unless they are passed as arguments.

    TVM has two functions of this name. Here the other function, `tune_tir(mod, target, work_dir,
    max_trials_global, ...) -> Database`, is `search.tir_integration.tune_tir`.

    Messages of the logger `tensorir.search` and a table of the progress go to standard error;
    `verbose=0` shows warnings only, `verbose=2` every message.

    Raises TuningError for a program that cannot be built or measured, invalid arguments, a
    `work_dir` that is not writable, an initial schedule that does not replay, and a constraint that
    allows nothing; DatabaseError if `work_dir` has files that are not a database; IRTypeError for
    unknown arguments, and if `config` is not a TuneConfig.
    """
    if not isinstance(config, TuneConfig) or unknown:
        raise IRTypeError(_refusal(config, unknown))
    mod = mod if isinstance(mod, PrimFunc) else as_module(mod)
    config = config.replacing(
        builder=builder,
        runner=runner,
        database=database,
        cost_model=cost_model,
        measure_callbacks=measure_callbacks,
        verbose=verbose,
        on_interrupt=on_interrupt,
    )
    generator = _space(mod, space, blocks, sch_rules, postprocs, mutator_probs)
    with contextlib.ExitStack() as stack:
        if work_dir is None:
            work_dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="tune_"))
        context = TuneContext(
            mod,
            target=target,
            space_generator=generator,
            search_strategy=config.made_strategy(),
            task_name=task_name,
            rand_state=seeds_of(seed, 1)[0],
            num_threads=num_threads,
            input_data=input_data,
            initial_schedules=initial_schedules,
            constraint=constraint,
            objective=objective,
        )
        if config.max_trials_global == 0:
            existing = open_database(config.database, work_dir)
            found = find_schedule(existing, mod, target)
            warn_if_untuned(existing, {"main": mod}, target, {"main": found})
            if found is None:
                return None
            seconds = found.record.median_seconds
            report = TaskReport(task_name, str(found.record.target), best=seconds)
            return TunedSchedule.of(found.schedule, report)
        with Run.open([context], [1.0], work_dir, config) as run:
            tune_run(run)
        (report,) = run.database.report or (TaskReport(task_name, str(context.target)),)
        best = _best_schedule(run, mod, context)
        return None if best is None else TunedSchedule.of(best, report)


def _refusal(config: object, unknown: Mapping[str, object]) -> str:
    """Return the error text for unknown arguments, or for a `config` that is not a TuneConfig."""
    name = next(iter(unknown), "")
    remedy = "use config=TuneConfig(max_trials_global=64)"
    if name in TuneConfig.__dataclass_fields__:
        others = "" if name == "max_trials_global" else f", {name}=..."
        text = f"tune_tir has no argument {name!r}; it is an option of TuneConfig"
        remedy = f"use config=TuneConfig(max_trials_global=64{others})"
    elif unknown:
        known = [one for one in inspect.signature(tune_tir).parameters if one != "unknown"]
        text = f"tune_tir has no argument {name!r}{suggestion(name, known)}"
        remedy = "" if isinstance(config, TuneConfig) else f"for the budget {remedy}"
    elif config is None:
        text = "tune_tir misses the argument config, which has the budget"
    else:
        text = f"the third argument of tune_tir is a TuneConfig, got {type(config).__name__}"
    if remedy:
        text += f"; {remedy}"
    if name == "max_trials_global" or isinstance(config, (str, os.PathLike)):
        text += (
            ". The tune_tir with a directory and a number of trials, which tunes every function of "
            "a module, is search.tir_integration.tune_tir"
        )
    return text


def _space(
    mod: IRModule | PrimFunc,
    space: SpaceArg | None,
    blocks: Sequence[str] | None,
    sch_rules: Rules | None,
    postprocs: Postprocs | None,
    mutator_probs: MutatorProbs | None,
) -> SpaceGenerator:
    """Return the space generator that the arguments describe; TuningError for unknown blocks."""
    if blocks is not None:
        if isinstance(blocks, str):
            raise TuningError(f"blocks is a list of names of blocks, got the string {blocks!r}")
        functions = {"main": mod} if isinstance(mod, PrimFunc) else functions_to_tune(mod)
        nodes = (node for func in functions.values() for node in walk(func.body))
        known = dict.fromkeys(node.name_hint for node in nodes if isinstance(node, Block))
        for name in blocks:
            if name not in known:
                raise TuningError(
                    f"unknown block {name!r} in blocks; the blocks are {', '.join(known)}"
                    f"{suggestion(name, known)}"
                )
    return space_from_parts(space, blocks, sch_rules, postprocs, mutator_probs)


def _best_schedule(run: Run, mod: IRModule | PrimFunc, context: TuneContext) -> Schedule | None:
    """Return the winner of a run of one task; without one, the best schedule in its database."""
    (task,) = run.tasks
    if task.winner is not None:
        return task.winner.record.schedule()
    if context.constraint is not None or context.objective is not SECONDS:
        ranked = with_schedules(best_for(context, run.database))
        return next((sch for _, sch in ranked if context.allows(sch)), None)
    found = find_schedule(run.database, mod, context.target)
    if found is None:  # the search has logged how the trials ended
        return None
    name = context.task_name or "main"
    warn_if_untuned(run.database, {name: mod}, context.target, {name: found})
    return found.schedule


class TunedSchedule(Schedule):
    """The best schedule that a search found: a `Schedule` with a report of the search.

    `print(best.report)` shows the time of the program before and after. A copy is a plain schedule,
    because the report does not apply to a changed schedule.
    """

    report: TaskReport

    @staticmethod
    def of(schedule: Schedule, report: TaskReport) -> TunedSchedule:
        """Return a schedule with a report; do not use `schedule` afterwards."""
        tuned = TunedSchedule.__new__(TunedSchedule)
        vars(tuned).update(vars(schedule), report=report)
        return tuned


@listing_options()
def tune_module(
    mod: IRModule | PrimFunc,
    target: str | Target,
    work_dir: PathLike,
    max_trials_global: int | None = None,
    *,
    space: SpaceArg = "post-order-apply",
    strategy: str | SearchStrategy = TuneConfig.strategy,
    num_tuning_cores: int | str = "physical",
    seed: int | None = None,
    special_space: Mapping[str, SpaceArg | None] | None = None,
    input_data: Mapping[str, InputData] | None = None,
    initial_schedules: Mapping[str, InitialSchedules] | None = None,
    constraint: Mapping[str, ConstraintFunction] | ConstraintFunction | None = None,
    objective: ObjectiveArg = "seconds",
    **options: Unpack[TuneOptions],
) -> Database:
    """Tune the functions of a module with one budget; `apply_database` applies the results.

    Equal functions are tuned once, and count by the number of times that the graph of the module
    runs them (`extract_tasks`; for a model use `tune_model`). Graph functions and functions with
    `tir.is_scheduled` are not tuned. `special_space` replaces the space of some functions; None
    leaves a function out. `input_data`, `initial_schedules` and `constraint` are those of
    `tune_tir`, by function; a single constraint applies to all. The search ends after
    `max_trials_global` trials or after `max_seconds`, whichever is first. Raises TuningError for
    unknown functions, and without a budget. The `options` are fields of `TuneConfig`; for the rest
    see `tune_tir`.
    """
    functions = {"main": mod} if isinstance(mod, PrimFunc) else functions_to_tune(mod)
    overrides = TaskOverrides(input_data, initial_schedules, constraint, objective, special_space)
    apart = overrides.names_among(functions)
    if isinstance(mod, PrimFunc):
        mod = IRModule(functions)
    equality = options.get("module_equality", TuneConfig.module_equality)
    found = tasks_of_functions(mod, target, equality, apart)
    found.sort(key=lambda task: task.task_name)
    tasks, weights = overrides.contexts(found, space, strategy, num_tuning_cores, seed)
    return tune_tasks(
        tasks=tasks,
        task_weights=weights,
        work_dir=work_dir,
        max_trials_global=max_trials_global,
        **options,
    )


@listing_options()
def tune_tasks(
    *,
    tasks: Sequence[TuneContext],
    task_weights: Sequence[float],
    work_dir: PathLike,
    max_trials_global: int | None = None,
    keep_going: bool = False,
    **options: Unpack[TuneOptions],
) -> Database:
    """Tune several tasks with one budget of `max_trials_global` trials; return the database.

    The search minimises the sum of latencies weighted by `task_weights`. Parts that are given by
    name get the number of workers or threads of the first task. `TuneConfig` describes the options,
    `tune_tir` resuming, errors and Ctrl-C. A task has its `input_data`, `initial_schedules` and
    `constraint` from `TuneContext`.
    """
    config = TuneConfig(max_trials_global, keep_going=keep_going, **options)
    with Run.open(tasks, task_weights, work_dir, config) as run:
        tune_run(run)
    return run.database


def compile_tir(
    database: Database, mod: IRModule | PrimFunc, target: str | Target
) -> Schedule | None:
    """Return the best schedule that a database has of a program for a target, None without one.

    See `find_schedule` for the records that it considers.
    """
    found = find_schedule(database, mod, target)
    warn_if_untuned(database, {"main": mod}, target, {"main": found})
    return None if found is None else found.schedule
