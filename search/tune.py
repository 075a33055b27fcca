"""Tuning programs: `tune_tir` for one function, `tune_module` for many, `tune_tasks` for any."""

from __future__ import annotations

import contextlib
import inspect
import tempfile
from collections.abc import Mapping, Sequence
from typing import Never

import numpy as np

from codegen import Target
from schedule import Schedule
from search.builder import Builder
from search.context import TuneContext
from search.cost_model.cost_model import CostModel
from search.database import Database
from search.database.best_records import with_schedules
from search.errors import TuningError
from search.history.find_schedule import find_schedule, say_if_missing
from search.kinds import nearest
from search.loop import tune_run
from search.measure_callback import MeasureCallback
from search.models.extract_tasks import ExtractedTask, tasks_of_functions
from search.options import TuneConfig
from search.reports.interrupts import OnInterrupt
from search.reports.report import TaskReport
from search.run import PathLike, Run, open_database
from search.runner import Runner
from search.runner.arguments import InputData
from search.runner.objective import SECONDS, ObjectiveArg
from search.runs.name_winner import best_for
from search.runs.tuned_schedule import TunedSchedule
from search.runs.wishes import Wishes
from search.search_strategy import SearchStrategy
from search.search_strategy.initial_schedules import InitialSchedules
from search.space_generator import SpaceGenerator
from search.space_generator.constrained_space import ConstraintFunction
from search.space_generator.space_generator import (
    MutatorProbs,
    Postprocs,
    Rules,
    SpaceArg,
    space_from_parts,
)
from search.task import functions_to_tune
from search.task_scheduler import TaskScheduler
from tensorir.errors import IRTypeError
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.stmt import Block
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

    `mod` is a function, or a module with one to tune (beside those of a graph). `config` says how
    much to search, in trials, seconds, or both; with `max_trials_global` 0 nothing is measured. The
    result is None if no trial has succeeded, now or in an earlier run on `work_dir`.
    `print(best.report)` says what a call took before and takes now, and which share of what the
    machine can do that is.

    `space` is a space generator, its short name, or a schedule function; without it schedules come
    from rules that suit the target. `blocks` restricts those to blocks of these names; `sch_rules`,
    `postprocs` and `mutator_probs` take the place of theirs. `seed` makes the sampling
    reproducible, though measurements never are.

    Candidates are checked and measured on arrays that are made up: numbers that the program uses as
    indices lie inside of what they index. `input_data` has arrays of your own in place of some, by
    the names of parameters or their buffers (`{"indices": array}`), of the shapes and dtypes of the
    parameters; or it is a function without parameters that returns them.

    `initial_schedules` are measured first, and the strategy goes on from them: schedules, traces,
    the JSON texts of traces, or records of a database. One that is a point of the design spaces is
    completed as any other; one that is not is measured as it is given, a schedule by hand say.
    `constraint` is a function of the decisions of a schedule by name (`decisions_of` has an
    example) that says whether it may be tried: `lambda decisions: decisions["tile of loop 0 of
    C"][-1] <= 16`. It is asked before anything is built, and what is returned satisfies it, or is
    one of the `initial_schedules`. `objective` is what is minimised: `"seconds"` is the median of
    the runs of a trial, `"p90"` a percentile of 64 calls that are timed one by one, and a function
    of the seconds of the runs is any other number; `"energy"` are joules, where RAPL's counters can
    be read. The records have the seconds.

    Everything is kept in `work_dir`: the database, the log of trials, text logs, and the cost
    model. Ctrl-C ends the search: what was measured is kept, and KeyboardInterrupt is raised again,
    so that a script ends too; with `on_interrupt="return"` the best so far is returned. A run that
    was interrupted, or killed, goes on where it was, and with the model that it had, when it is
    started again with the same program, target, space, seed, strategy and number of trials. Another
    run on the same directory starts anew beside it, from what is known: its cost model learns from
    it, and it is not measured again.

    What `config` says of the parts of the search holds where nothing else is given here.

    TVM calls two functions by this name. Its other one, `tune_tir(mod, target, work_dir,
    max_trials_global, ...) -> Database`, is `search.tir_integration.tune_tir` here.

    Messages of the logger `tensorir.search` and a table of the progress go to standard error;
    `verbose=0` leaves warnings alone, `verbose=2` shows every message.

    Raises TuningError for a program that cannot be built or measured, for arguments that make no
    sense, a `work_dir` that cannot be written to, an initial schedule that does not replay and a
    constraint that allows nothing; DatabaseError if `work_dir` holds files that
    are no database; IRTypeError for a `config` that is none, and arguments that there are not.
    """
    if not isinstance(config, TuneConfig) or unknown:
        raise _no_call_of_tune_tir(config, list(unknown))
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
            known = open_database(config.database, work_dir)
            found = find_schedule(known, mod, target)
            say_if_missing(known, mod, target, "main", found)
            return None if found is None else TunedSchedule.of_record(found, task_name)
        with Run.open([context], [1.0], work_dir, config) as run:
            tune_run(run)
        (task,) = run.tasks
        (report,) = run.database.report or (TaskReport(task_name, str(context.target)),)
        if task.winner is not None:
            return TunedSchedule.of(task.winner.record.schedule(), report)
        if context.constraint is not None or context.objective is not SECONDS:
            best = _best_allowed(run.database, context)
            return None if best is None else TunedSchedule.of(best, report)
        found = find_schedule(run.database, mod, context.target)
        if found is None:  # the search has said how the trials ended
            return None
        say_if_missing(run.database, mod, context.target, task_name or "main", found)
        return TunedSchedule.of(found.schedule, report)


def _no_call_of_tune_tir(config: object, unknown: Sequence[str]) -> IRTypeError:
    """Return the error for a call with other arguments, as TVM's other `tune_tir` takes them."""
    own = inspect.signature(tune_tir).parameters
    if unknown and not any(name in inspect.signature(tune_module).parameters for name in unknown):
        name = unknown[0]
        return IRTypeError(f"tune_tir does not take {name}{nearest(name, own)}")
    wrong = (
        f"tune_tir does not take {', '.join(unknown)}; how much to search stands in its config"
        if unknown
        else f"the third argument of tune_tir is a TuneConfig, got {type(config).__name__}"
    )
    return IRTypeError(
        f"{wrong}, as in config=TuneConfig(max_trials_global=64). The tune_tir that takes a "
        "directory and a number of trials, and tunes every function of a module, is "
        "search.tir_integration.tune_tir"
    )


def _space(
    mod: IRModule | PrimFunc,
    space: SpaceArg | None,
    blocks: Sequence[str] | None,
    sch_rules: Rules | None,
    postprocs: Postprocs | None,
    mutator_probs: MutatorProbs | None,
) -> SpaceGenerator:
    """Return the space that the arguments describe; TuningError for blocks that there are not."""
    if blocks is not None:
        if isinstance(blocks, str):
            raise TuningError(f"blocks is a list of names of blocks, got the text {blocks!r}")
        functions = {"main": mod} if isinstance(mod, PrimFunc) else functions_to_tune(mod)
        nodes = (node for func in functions.values() for node in walk(func.body))
        known = dict.fromkeys(node.name_hint for node in nodes if isinstance(node, Block))
        for name in blocks:
            if name not in known:
                raise TuningError(
                    f"blocks has {name!r}, and no block is called so; there are "
                    f"{', '.join(known)}{nearest(name, known)}"
                )
    return space_from_parts(space, blocks, sch_rules, postprocs, mutator_probs)


def _best_allowed(database: Database, context: TuneContext) -> Schedule | None:
    """Return the schedule of a database that the constraint allows and the objective ranks best."""
    ranked = with_schedules(best_for(context, database))
    return next((sch for _, sch in ranked if context.allows(sch)), None)


def tune_module(
    mod: IRModule | PrimFunc,
    target: str | Target,
    work_dir: PathLike,
    max_trials_global: int | None = None,
    *,
    max_trials_per_task: int | None = None,
    num_trials_per_iter: int = TuneConfig.num_trials_per_iter,
    max_seconds: float | None = None,
    num_confirmed: int = TuneConfig.num_confirmed,
    early_stopping: int | None = None,
    early_stopping_per_task: int | None = None,
    builder: str | type[Builder] | Builder = TuneConfig.builder,
    runner: str | type[Runner] | Runner = TuneConfig.runner,
    database: str | Database = TuneConfig.database,
    cost_model: str | CostModel | None = TuneConfig.cost_model,
    measure_callbacks: str | Sequence[MeasureCallback] = TuneConfig.measure_callbacks,
    task_scheduler: str | TaskScheduler = TuneConfig.task_scheduler,
    module_equality: str = TuneConfig.module_equality,
    verbose: int = TuneConfig.verbose,
    on_interrupt: OnInterrupt = TuneConfig.on_interrupt,
    space: SpaceArg = "post-order-apply",
    strategy: str | SearchStrategy = TuneConfig.strategy,
    num_tuning_cores: int | str = "physical",
    seed: int | None = None,
    special_space: Mapping[str, SpaceArg | None] | None = None,
    input_data: Mapping[str, InputData] | None = None,
    initial_schedules: Mapping[str, InitialSchedules] | None = None,
    constraint: Mapping[str, ConstraintFunction] | ConstraintFunction | None = None,
    objective: ObjectiveArg = "seconds",
) -> Database:
    """Tune each function of a module, sharing the trials; `apply_database` puts the results in.

    Functions that are the same are tuned once, and count as often as the graph of the module runs
    them (`extract_tasks`; `tune_model` does more for a model). Functions of a graph and those with
    `tir.is_scheduled` are left alone. `special_space` names spaces for some functions; those with
    None are left out. `input_data`, `initial_schedules` and `constraint` have for some functions
    what they are for `tune_tir`; one constraint may be for all. The search ends after
    `max_trials_global` trials, after `max_seconds`, or where the first of both is used up.
    Otherwise as `tune_tir`. TuningError for names of other functions, and without a budget.
    """
    functions = {"main": mod} if isinstance(mod, PrimFunc) else functions_to_tune(mod)
    wishes = Wishes(input_data, initial_schedules, constraint, objective, special_space)
    apart = wishes.names_among(functions)
    if isinstance(mod, PrimFunc):
        mod = IRModule(functions)
    found = tasks_of_functions(mod, target, module_equality, apart)
    found.sort(key=lambda task: task.task_name)
    tasks, weights = contexts_of(found, wishes, space, strategy, num_tuning_cores, seed)
    return tune_tasks(
        tasks=tasks,
        task_weights=weights,
        work_dir=work_dir,
        max_trials_global=max_trials_global,
        max_trials_per_task=max_trials_per_task,
        num_trials_per_iter=num_trials_per_iter,
        max_seconds=max_seconds,
        num_confirmed=num_confirmed,
        early_stopping=early_stopping,
        early_stopping_per_task=early_stopping_per_task,
        builder=builder,
        runner=runner,
        database=database,
        cost_model=cost_model,
        measure_callbacks=measure_callbacks,
        task_scheduler=task_scheduler,
        module_equality=module_equality,
        verbose=verbose,
        on_interrupt=on_interrupt,
    )


def tune_tasks(
    *,
    tasks: Sequence[TuneContext],
    task_weights: Sequence[float],
    work_dir: PathLike,
    max_trials_global: int | None = None,
    max_trials_per_task: int | None = None,
    num_trials_per_iter: int = TuneConfig.num_trials_per_iter,
    max_seconds: float | None = None,
    num_confirmed: int = TuneConfig.num_confirmed,
    early_stopping: int | None = None,
    early_stopping_per_task: int | None = None,
    keep_going: bool = False,
    builder: str | type[Builder] | Builder = TuneConfig.builder,
    runner: str | type[Runner] | Runner = TuneConfig.runner,
    database: str | Database = TuneConfig.database,
    cost_model: str | CostModel | None = TuneConfig.cost_model,
    measure_callbacks: str | Sequence[MeasureCallback] = TuneConfig.measure_callbacks,
    task_scheduler: str | TaskScheduler = TuneConfig.task_scheduler,
    module_equality: str = TuneConfig.module_equality,
    verbose: int = TuneConfig.verbose,
    on_interrupt: OnInterrupt = TuneConfig.on_interrupt,
) -> Database:
    """Tune several tasks, sharing `max_trials_global` measurements; return the database.

    The search minimises the sum of latencies weighted by `task_weights`. Parts given by name are
    made with as many workers or threads as the first task says. For `num_confirmed`, `max_seconds`,
    `keep_going` and when the search or a task ends early see `TuneConfig`, for resuming, errors and
    Ctrl-C `tune_tir`; a task has its `input_data`, `initial_schedules` and `constraint` from
    `TuneContext`.
    """
    config = TuneConfig(
        max_trials_global=max_trials_global,
        max_trials_per_task=max_trials_per_task,
        num_trials_per_iter=num_trials_per_iter,
        max_seconds=max_seconds,
        num_confirmed=num_confirmed,
        early_stopping=early_stopping,
        early_stopping_per_task=early_stopping_per_task,
        keep_going=keep_going,
        builder=builder,
        runner=runner,
        database=database,
        cost_model=cost_model,
        measure_callbacks=measure_callbacks,
        task_scheduler=task_scheduler,
        module_equality=module_equality,
        verbose=verbose,
        on_interrupt=on_interrupt,
    )
    with Run.open(tasks, task_weights, work_dir, config) as run:
        tune_run(run)
    return run.database


def contexts_of(
    found: Sequence[ExtractedTask],
    wishes: Wishes,
    space: SpaceArg,
    strategy: str | SearchStrategy,
    num_tuning_cores: int | str,
    seed: int | None,
) -> tuple[list[TuneContext], list[float]]:
    """Return tasks to tune and their weights, without those whose `special_space` is None."""
    contexts, weights = [], []
    for task, task_seed in zip(found, seeds_of(seed, len(found)), strict=True):
        own_space = wishes.space_of(task.task_name, space)
        if own_space is None:
            continue
        context = TuneContext(
            task.mod,
            target=task.target,
            space_generator=own_space,
            search_strategy=strategy,
            task_name=task.task_name,
            rand_state=task_seed,
            num_threads=num_tuning_cores,
            **wishes.of(task.task_name),
        )
        contexts.append(context.clone())
        weights.append(float(task.weight))
    return contexts, weights


def compile_tir(
    database: Database, mod: IRModule | PrimFunc, target: str | Target
) -> Schedule | None:
    """Return the best schedule that a database has of a program for a target, None without one.

    `find_schedule` says what is searched for, and how what it returns was found.
    """
    found = find_schedule(database, mod, target)
    say_if_missing(database, mod, target, "main", found)
    return None if found is None else found.schedule


def seeds_of(seed: int | None, count: int) -> list[int]:
    """Return the seeds of so many tasks, -1 for any where none is given."""
    if seed is None:
        return [-1] * count
    return [int(s) for s in np.random.RandomState(seed).randint(1, 2**30, size=count)]
