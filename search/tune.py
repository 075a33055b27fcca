"""Tuning programs: `tune_tir` for one function, `tune_module` for many, `tune_tasks` for any."""

from __future__ import annotations

import contextlib
import inspect
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Final, TypedDict, Unpack

import numpy as np

from codegen import Target
from schedule import Schedule
from search.builder import Builder
from search.context import TuneContext, functions_to_tune
from search.cost_model.cost_model import CostModel
from search.database import Database
from search.dispatch.find_schedule import find_schedule, say_if_missing
from search.errors import TuningError
from search.kinds import nearest
from search.measure_callback import MeasureCallback
from search.networks.extract_tasks import tasks_of_functions
from search.reports.interrupts import OnInterrupt, checked_on_interrupt
from search.runner import Runner
from search.runner.arguments import InputData
from search.runs.tuned_schedule import TunedSchedule
from search.runs.tuning_run import PathLike, TuningRun, open_database
from search.search_strategy import SearchStrategy
from search.space_generator import SpaceGenerator
from search.space_generator.space_generator import (
    MutatorProbs,
    Postprocs,
    Rules,
    SpaceArg,
    space_from_parts,
)
from search.task_scheduler import TaskScheduler
from search.tune_config import TuneConfig
from tensorir.errors import IRTypeError
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import walk


class ModuleOptions(TypedDict, total=False):
    """The options that `tune_module` takes and `tune_tir` does not."""

    max_trials_global: int
    max_trials_per_task: int | None
    num_trials_per_iter: int
    task_scheduler: str | TaskScheduler
    strategy: str | SearchStrategy
    num_tuning_cores: int | str
    module_equality: str
    special_space: Mapping[str, SpaceArg | None] | None
    num_confirmed: int
    early_stopping: int | None
    early_stopping_per_task: int | None


_OF_TUNE_MODULE: Final = frozenset(ModuleOptions.__annotations__)


def tune_tir(
    mod: IRModule | PrimFunc,
    target: str | Target,
    config: TuneConfig | None = None,
    work_dir: PathLike | None = None,
    *,
    builder: str | Builder = "local",
    runner: str | Runner = "local",
    database: str | Database = "json",
    cost_model: str | CostModel = "xgb",
    measure_callbacks: str | Sequence[MeasureCallback] = "default",
    space: SpaceArg | None = None,
    blocks: Sequence[str] | None = None,
    sch_rules: Rules | None = None,
    postprocs: Postprocs | None = None,
    mutator_probs: MutatorProbs | None = None,
    task_name: str = "main",
    num_threads: int | str = "physical",
    seed: int | None = None,
    input_data: InputData | None = None,
    on_interrupt: OnInterrupt = "raise",
    **options_of_tune_module: Unpack[ModuleOptions],
) -> TunedSchedule | None:
    """Search for the best schedule of a function and return it.

    `mod` is a function, or a module with one to tune (beside those of a graph). `config` says how
    much to search; with `max_trials_global` 0 nothing is measured. The result is None if no trial
    has succeeded, now or in an earlier run on `work_dir`. `print(best.report)` says what a call
    took before and takes now, and which share of what the machine can do that is.

    `space` is a space generator, its short name, or a schedule function; without it schedules come
    from rules that suit the target. `blocks` restricts those to blocks of these names; `sch_rules`,
    `postprocs` and `mutator_probs` take the place of theirs. `seed` makes the sampling
    reproducible, though measurements never are.

    Candidates are checked and measured on arrays that are made up: numbers that the program uses as
    indices lie inside of what they index. `input_data` has arrays of your own in place of some, by
    the names of parameters or their buffers (`{"indices": array}`), of the shapes and dtypes of the
    parameters; or it is a function without parameters that returns them.

    Everything is kept in `work_dir`: the database, the log of trials, text logs, and the cost
    model. Ctrl-C ends the search: what was measured is kept, and KeyboardInterrupt is raised again,
    so that a script ends too; with `on_interrupt="return"` the best so far is returned. A run that
    was interrupted, or killed, goes on where it was, and with the model that it had, when it is
    started again with the same program, target, space, seed, strategy and number of trials. Another
    run on the same directory starts anew beside it, from what is known: its cost model learns from
    it, and it is not measured again.

    TVM calls two functions by this name. Its other one, `tune_tir(mod, target, work_dir,
    max_trials_global, ...) -> Database`, is `tune_module` here, and a call like that ends up there.

    Raises TuningError for a program that cannot be built or measured, for arguments that make no
    sense and a `work_dir` that cannot be written to; DatabaseError if `work_dir` holds files that
    are no database; IRTypeError for arguments that there are not.
    """
    checked_on_interrupt(on_interrupt)
    module_call = _call_of_tune_module(config, work_dir, options_of_tune_module)
    if module_call is not None:
        if task_name != "main":
            raise IRTypeError(
                "tune_module calls each task by the name of its function: leave out task_name, or "
                "pass a TuneConfig to tune one function"
            )
        options_of_tune_module.setdefault("num_tuning_cores", num_threads)
        return tune_module(  # type: ignore[return-value]  # a call that type checkers refuse
            mod,
            target,
            *module_call,
            builder=builder,
            runner=runner,
            database=database,
            cost_model=cost_model,
            measure_callbacks=measure_callbacks,
            space=_space(mod, space, blocks, sch_rules, postprocs, mutator_probs),
            seed=seed,
            input_data=None if input_data is None else {_only_function(mod): input_data},
            on_interrupt=on_interrupt,
            **options_of_tune_module,
        )
    assert config is not None
    with contextlib.ExitStack() as stack:
        if work_dir is None:
            work_dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="tune_"))
        context = TuneContext(
            mod,
            target=target,
            space_generator=_space(mod, space, blocks, sch_rules, postprocs, mutator_probs),
            search_strategy=SearchStrategy.create(
                config.strategy, **(config.search_strategy_config or {})
            ),
            task_name=task_name,
            rand_state=seeds_of(seed, 1)[0],
            num_threads=num_threads,
            input_data=input_data,
        )
        if config.max_trials_global == 0:
            known = open_database(database, work_dir)
            found = find_schedule(known, mod, target)
            say_if_missing(known, mod, target, "main", found)
            return None if found is None else TunedSchedule.of_record(found, task_name)
        with TuningRun.open(
            [context],
            [1.0],
            work_dir,
            config,
            builder=builder,
            runner=runner,
            database=database,
            cost_model=cost_model,
            measure_callbacks=measure_callbacks,
        ) as run:
            run.tune(on_interrupt)
        winners = [task.winner for task in run.scheduler.tasks if task.winner is not None]
        if winners:
            return TunedSchedule.of(winners[0].record.schedule(), run.report[0])
        found = find_schedule(run.database, mod, context.target)
        if found is None:  # the scheduler has said how the trials ended
            return None
        say_if_missing(run.database, mod, context.target, task_name or "main", found)
        if not run.report:
            return TunedSchedule.of_record(found, task_name)
        return TunedSchedule.of(found.schedule, run.report[0])


def _call_of_tune_module(
    config: object, work_dir: object, options: ModuleOptions
) -> tuple[PathLike, int] | None:
    """Return directory and trials of a call of `tune_tir` that means `tune_module`, else None.

    Such a call has a path where `config` is and the trials after it, or gives them by name.
    IRTypeError, with what to write instead, for a call that is neither.
    """
    misspelt = [name for name in options if name not in _OF_TUNE_MODULE]
    if misspelt:
        known = [*inspect.signature(tune_tir).parameters, *_OF_TUNE_MODULE]
        raise IRTypeError(
            f"tune_tir does not take {', '.join(misspelt)}{nearest(misspelt[0], known)}"
        )
    if isinstance(config, TuneConfig):
        if options:
            raise IRTypeError(
                f"tune_tir does not take {', '.join(options)}: say it in TuneConfig(...), or call "
                "tune_module(mod, target, work_dir, max_trials_global, ...)"
            )
        return None
    by_name = options.pop("max_trials_global", None)
    folder, trials = (work_dir, by_name) if config is None else (config, work_dir or by_name)
    if isinstance(folder, (str, os.PathLike)) and isinstance(trials, int):
        return folder, trials
    remedy = "say how much to search, as in config=TuneConfig(max_trials_global=64); " * (
        config is None
    )
    raise IRTypeError(
        f"the third argument of tune_tir is a TuneConfig, got {type(config).__name__}; {remedy}to "
        "tune every function of a module call tune_module(mod, target, work_dir, "
        "max_trials_global, ...)"
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


def _only_function(mod: IRModule | PrimFunc) -> str:
    """Return the name of the one function to tune, for `input_data`."""
    names = ["main"] if isinstance(mod, PrimFunc) else sorted(functions_to_tune(mod))
    if len(names) != 1:
        raise TuningError(
            f"input_data is for one function, and the module has {names}: call tune_module with "
            "input_data={function: {parameter: array}}"
        )
    return names[0]


def tune_module(
    mod: IRModule | PrimFunc,
    target: str | Target,
    work_dir: PathLike,
    max_trials_global: int,
    *,
    max_trials_per_task: int | None = None,
    num_trials_per_iter: int = 64,
    builder: str | Builder = "local",
    runner: str | Runner = "local",
    database: str | Database = "json",
    cost_model: str | CostModel = "xgb",
    measure_callbacks: str | Sequence[MeasureCallback] = "default",
    task_scheduler: str | TaskScheduler = "gradient",
    space: SpaceArg = "post-order-apply",
    strategy: str | SearchStrategy = "evolutionary",
    num_tuning_cores: int | str = "physical",
    seed: int | None = None,
    module_equality: str = "structural",
    special_space: Mapping[str, SpaceArg | None] | None = None,
    num_confirmed: int = 4,
    early_stopping: int | None = None,
    early_stopping_per_task: int | None = None,
    input_data: Mapping[str, InputData] | None = None,
    on_interrupt: OnInterrupt = "raise",
) -> Database:
    """Tune each function of a module, sharing the trials; `apply_database` puts the results in.

    Functions that are the same are tuned once, and count as often as the graph of the module runs
    them (`extract_tasks`; `tune_model` does more for a model). Functions of a graph and those with
    `tir.is_scheduled` are left alone. `special_space` names spaces for some functions; those with
    None are left out. `input_data` has for some functions what it is for `tune_tir`. Otherwise as
    `tune_tir`. TuningError for names of other functions.
    """
    functions = {"main": mod} if isinstance(mod, PrimFunc) else functions_to_tune(mod)
    for argument, named in (("special_space", special_space), ("input_data", input_data)):
        for name in named or {}:
            if name not in functions:
                raise TuningError(
                    f"{argument} names {name!r}, which is no function to tune; there are "
                    f"{', '.join(sorted(functions))}{nearest(name, functions)}"
                )
    if isinstance(mod, PrimFunc):
        mod = IRModule(functions)
    apart = {*(special_space or ()), *(input_data or ())}
    found = tasks_of_functions(mod, target, module_equality, apart)
    found.sort(key=lambda task: task.task_name)
    tasks, weights = [], []
    for task, task_seed in zip(found, seeds_of(seed, len(found)), strict=True):
        own_space = (special_space or {}).get(task.task_name, space)
        if own_space is None:
            continue
        context = TuneContext(
            task.mod,
            target=target,
            space_generator=own_space,
            search_strategy=strategy,
            task_name=task.task_name,
            rand_state=task_seed,
            num_threads=num_tuning_cores,
            input_data=(input_data or {}).get(task.task_name),
        )
        tasks.append(context.clone())
        weights.append(float(task.weight))
    return tune_tasks(
        tasks=tasks,
        task_weights=weights,
        work_dir=work_dir,
        max_trials_global=max_trials_global,
        max_trials_per_task=max_trials_per_task,
        num_trials_per_iter=num_trials_per_iter,
        builder=builder,
        runner=runner,
        database=database,
        cost_model=cost_model,
        measure_callbacks=measure_callbacks,
        task_scheduler=task_scheduler,
        module_equality=module_equality,
        num_confirmed=num_confirmed,
        early_stopping=early_stopping,
        early_stopping_per_task=early_stopping_per_task,
        on_interrupt=on_interrupt,
    )


def tune_tasks(
    *,
    tasks: Sequence[TuneContext],
    task_weights: Sequence[float],
    work_dir: PathLike,
    max_trials_global: int,
    max_trials_per_task: int | None = None,
    num_trials_per_iter: int = 64,
    builder: str | type[Builder] | Builder = "local",
    runner: str | Runner = "local",
    database: str | Database = "json",
    cost_model: str | CostModel | None = "xgb",
    measure_callbacks: str | Sequence[MeasureCallback] = "default",
    task_scheduler: str | TaskScheduler = "gradient",
    module_equality: str = "structural",
    num_confirmed: int = 4,
    early_stopping: int | None = None,
    early_stopping_per_task: int | None = None,
    max_seconds: float | None = None,
    keep_going: bool = False,
    on_interrupt: OnInterrupt = "raise",
) -> Database:
    """Tune several tasks, sharing `max_trials_global` measurements; return the database.

    The search minimises the sum of latencies weighted by `task_weights`. Parts given by name are
    made with as many workers or threads as the first task says. For `num_confirmed`, `max_seconds`,
    `keep_going` and when the search or a task ends early see `TuneConfig`, for resuming, errors and
    Ctrl-C `tune_tir`; a task has its `input_data` from `TuneContext`.
    """
    checked_on_interrupt(on_interrupt)
    with TuningRun.open(
        tasks,
        task_weights,
        work_dir,
        TuneConfig(
            max_trials_global,
            num_trials_per_iter,
            max_trials_per_task,
            num_confirmed=num_confirmed,
            early_stopping=early_stopping,
            early_stopping_per_task=early_stopping_per_task,
            max_seconds=max_seconds,
            keep_going=keep_going,
        ),
        builder=builder,
        runner=runner,
        database=database,
        cost_model=cost_model,
        measure_callbacks=measure_callbacks,
        task_scheduler=task_scheduler,
        module_equality=module_equality,
    ) as run:
        run.tune(on_interrupt)
    return run.database


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
