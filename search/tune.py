"""Tuning programs: `tune_tir` and what it is made of."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, overload

import numpy as np

from codegen import Target
from schedule import Schedule
from search.builder import Builder
from search.context import TuneContext, normalize_mod
from search.cost_model.cost_model import CostModel
from search.database import Database, JSONDatabase, Workload
from search.errors import TuningError
from search.logs import Logs
from search.measure_callback import MeasureCallback
from search.mutator.mutator import Mutator
from search.postproc.postproc import Postproc
from search.progress_bar import progress_bar
from search.run_journal import RunJournal
from search.runner import Runner
from search.schedule_rule.schedule_rule import ScheduleRule
from search.search_strategy import SearchStrategy
from search.space_generator.space_generator import SpaceGenerator
from search.task_scheduler import TaskScheduler
from search.tune_config import TuneConfig
from tensorir.errors import IRTypeError
from tensorir.function import IRModule, PrimFunc

PathLike: TypeAlias = "str | os.PathLike[str]"
Space: TypeAlias = "SpaceGenerator | str | Callable[..., Any]"


@overload
def tune_tir(
    mod: IRModule | PrimFunc,
    target: str | Target,
    config: TuneConfig,
    work_dir: PathLike | None = None,
    *,
    builder: str | Builder | None = None,
    runner: str | Runner | None = None,
    database: str | Database | None = None,
    cost_model: str | CostModel | None = None,
    measure_callbacks: str | Sequence[MeasureCallback] | None = None,
    space: Space | None = None,
    blocks: Sequence[str] | None = None,
    sch_rules: Callable[[], Sequence[ScheduleRule]] | None = None,
    postprocs: Callable[[], Sequence[Postproc]] | None = None,
    mutator_probs: Callable[[], Mapping[Mutator, float]] | None = None,
    task_name: str = "main",
    num_threads: int | None = None,
    seed: int | None = None,
) -> Schedule | None: ...


@overload
def tune_tir(
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
    space: Space = "post-order-apply",
    strategy: str | SearchStrategy = "evolutionary",
    num_tuning_cores: int | str = "physical",
    seed: int | None = None,
    module_equality: str = "structural",
    special_space: Mapping[str, Space | None] | None = None,
) -> Database: ...


def tune_tir(*args: Any, **kwargs: Any) -> Any:
    """Search for the best schedules of a program.

    There are two forms. With a `TuneConfig`, `tune_tir(mod, target, config, work_dir, ...)` tunes
    the one function of `mod` and returns its best Schedule (None if no trial succeeded, or if
    `max_trials_global` is 0 and the database has none). With `max_trials_global`,
    `tune_tir(mod, target, work_dir, max_trials_global, ...)` tunes each function of `mod` and
    returns the database; `compile_tir` gets the schedules from it.

    `space` is a space generator, its short name, or a schedule function; without it schedules come
    from rules that suit the target. `blocks` restricts those to blocks of these names. `seed` makes
    the sampling reproducible, though measurements never are.

    Everything is kept in `work_dir`: the database, logs, and the cost model. A run that was
    interrupted (Ctrl-C keeps what was measured; so does a kill) goes on where it was when it is
    started again with the same arguments; another run on the same directory starts from what is
    known: its cost model learns from it, and it is not measured again.

    Raises TuningError for a program that cannot be built or measured and for arguments that make
    no sense, DatabaseError if `work_dir` holds files that are no database.
    """
    form = _tune_with_config if _has_config(args, kwargs) else _tune_functions
    return form(*args, **kwargs)


def _has_config(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    third = kwargs.get("config", args[2] if len(args) > 2 else None)
    if isinstance(third, TuneConfig):
        return True
    if "config" in kwargs:
        raise IRTypeError(f"config is a TuneConfig, got {type(third).__name__}")
    return False


def _tune_with_config(
    mod: IRModule | PrimFunc,
    target: str | Target,
    config: TuneConfig,
    work_dir: PathLike | None = None,
    *,
    builder: str | Builder | None = None,
    runner: str | Runner | None = None,
    database: str | Database | None = None,
    cost_model: str | CostModel | None = None,
    measure_callbacks: str | Sequence[MeasureCallback] | None = None,
    space: Space | None = None,
    blocks: Sequence[str] | None = None,
    sch_rules: Callable[[], Sequence[ScheduleRule]] | None = None,
    postprocs: Callable[[], Sequence[Postproc]] | None = None,
    mutator_probs: Callable[[], Mapping[Mutator, float]] | None = None,
    task_name: str = "main",
    num_threads: int | None = None,
    seed: int | None = None,
) -> Schedule | None:
    with contextlib.ExitStack() as stack:
        if work_dir is None:
            work_dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="tune_"))
        rules = None if sch_rules is None else sch_rules()
        processors = None if postprocs is None else postprocs()
        mutators = None if mutator_probs is None else mutator_probs()
        context = TuneContext(
            mod,
            target=target,
            space_generator=_space(space, blocks, rules, processors, mutators),
            search_strategy=SearchStrategy.create(
                config.strategy, **(config.search_strategy_config or {})
            ),
            task_name=task_name,
            rand_state=_seeds(seed, 1)[0],
            num_threads="physical" if num_threads is None else num_threads,
        )
        db = Database.create("json", work_dir=work_dir) if database is None else database
        if config.max_trials_global > 0:
            model = _cost_model(cost_model or "xgb", config)
            scheduler = TaskScheduler.create(
                config.task_scheduler, **(config.task_scheduler_config or {})
            )
            db = tune_tasks(
                tasks=[context],
                task_weights=[1.0],
                work_dir=work_dir,
                max_trials_global=config.max_trials_global,
                max_trials_per_task=config.max_trials_per_task,
                num_trials_per_iter=config.num_trials_per_iter,
                builder=builder or "local",
                runner=runner or "local",
                database=db,
                cost_model=model,
                measure_callbacks="default" if measure_callbacks is None else measure_callbacks,
                task_scheduler=scheduler,
            )
            if model is not None:
                model.save(Path(work_dir) / "cost_model.xgb")
        else:
            db = Database.create(db, **(_where(db, work_dir) if isinstance(db, str) else {}))
        return compile_tir(db, mod, target)


def _tune_functions(
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
    space: Space = "post-order-apply",
    strategy: str | SearchStrategy = "evolutionary",
    num_tuning_cores: int | str = "physical",
    seed: int | None = None,
    module_equality: str = "structural",
    special_space: Mapping[str, Space | None] | None = None,
) -> Database:
    functions = {"main": mod} if isinstance(mod, PrimFunc) else dict(mod.functions)
    tasks = []
    seeds = _seeds(seed, len(functions))
    for (name, func), task_seed in zip(sorted(functions.items()), seeds, strict=True):
        own_space = (special_space or {}).get(name, space)
        if own_space is None:
            continue
        context = TuneContext(
            func,
            target=target,
            space_generator=own_space,
            search_strategy=strategy,
            task_name=name,
            rand_state=task_seed,
            num_threads=num_tuning_cores,
        )
        tasks.append(context.clone())
    return tune_tasks(
        tasks=tasks,
        task_weights=[1.0] * len(tasks),
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
) -> Database:
    """Tune several tasks, sharing `max_trials_global` measurements; return the database.

    The search minimises the sum of latencies weighted by `task_weights`. Parts given by name are
    made with as many workers or threads as the first task says. For resuming and errors see
    `tune_tir`.
    """
    if not tasks:
        raise TuningError("there is nothing to tune: the list of tasks is empty")
    if len(tasks) != len(task_weights):
        raise TuningError(f"{len(tasks)} tasks need as many weights, got {len(task_weights)}")
    max_per_task = max_trials_global if max_trials_per_task is None else max_trials_per_task
    threads = tasks[0].num_threads
    progress = progress_bar(max_trials_global)
    with Logs(work_dir, [task.task_name for task in tasks], progress) as logs:
        logs.scheduler.info("Working directory: %s", work_dir)
        db = _database(database, work_dir, module_equality, logs)
        for task, logger in zip(tasks, logs.tasks, strict=True):
            task.logger = logger
        scheduler = TaskScheduler.create(task_scheduler)
        scheduler.logger, scheduler.progress = logs.scheduler, progress
        own: list[Builder | Runner] = []
        if not isinstance(builder, Builder):
            workers = {"max_workers": threads} if isinstance(builder, str) else {}
            builder = Builder.create(builder, **workers)
            own.append(builder)
        if not isinstance(runner, Runner):
            runner = Runner.create(runner)
            own.append(runner)
        if cost_model is not None:
            named = {"num_tuning_cores": threads} if cost_model == "xgb" else {}
            cost_model = CostModel.create(cost_model, **named)
        plan = _plan(tasks, max_trials_global, max_per_task)
        journal = RunJournal(work_dir)
        done = journal.begin(plan, _record_counts(tasks, db))
        trials_done = [done[_task_key(k, task)] for k, task in enumerate(tasks)]
        if sum(trials_done):
            logs.scheduler.info(
                "Resuming after %d of %d trials", sum(trials_done), max_trials_global
            )
        try:
            scheduler.tune(
                tasks,
                task_weights,
                max_trials_global,
                max_per_task,
                num_trials_per_iter,
                builder,
                runner,
                MeasureCallback.create(measure_callbacks),
                db,
                cost_model,
                trials_done,
            )
            if not scheduler.interrupted:
                journal.end()
        finally:
            for part in own:
                part.close()
            journal.close()
        return db


def compile_tir(
    database: Database, mod: IRModule | PrimFunc, target: str | Target
) -> Schedule | None:
    """Return the best schedule that a database has of a program, None without one."""
    return database.query_schedule(normalize_mod(mod), Target(target), workload_name="main")


# --------------------------------------------------------------------------------------- the parts


def _space(
    space: Space | None,
    blocks: Sequence[str] | None,
    rules: Sequence[ScheduleRule] | None,
    postprocs: Sequence[Postproc] | None,
    mutators: Mapping[Mutator, float] | None,
) -> SpaceGenerator:
    given = {"sch_rules": rules, "postprocs": postprocs, "mutator_probs": mutators}
    parts: dict[str, Any] = {name: part for name, part in given.items() if part is not None}
    if blocks is not None:
        if space is not None:
            raise TuningError("give either blocks, which filters the default space, or space")
        names = frozenset(blocks)
        return SpaceGenerator.create(
            "post-order-apply", f_block_filter=lambda block: block.name_hint in names, **parts
        )
    if space is None:
        return SpaceGenerator.create("post-order-apply", **parts)
    if isinstance(space, SpaceGenerator) and parts:
        raise TuningError(
            f"{', '.join(parts)} cannot be given beside a finished space generator; "
            "pass them to its constructor"
        )
    return SpaceGenerator.create(space, **parts)


def _cost_model(kind: str | CostModel, config: TuneConfig) -> CostModel | None:
    if isinstance(kind, str) and kind == "xgb" and config.adaptive_training is not None:
        return CostModel.create(kind, adaptive_training=config.adaptive_training)
    return CostModel.create(kind)


def _database(
    database: str | Database, work_dir: PathLike, module_equality: str, logs: Logs
) -> Database:
    if isinstance(database, str):
        where = _where(database, work_dir)
        database = Database.create(database, module_equality=module_equality, **where)
    database = Database.create(database)
    if isinstance(database, JSONDatabase):
        logs.scheduler.info(
            "Creating JSONDatabase. Workload at: %s. Tuning records at: %s",
            database.path_workload,
            database.path_tuning_record,
        )
    return database


def _where(database: str, work_dir: PathLike) -> dict[str, Any]:
    return {"work_dir": work_dir} if database == "json" else {}


def _seeds(seed: int | None, count: int) -> list[int]:
    if seed is None:
        return [-1] * count
    return [int(s) for s in np.random.RandomState(seed).randint(1, 2**30, size=count)]


def _plan(tasks: Sequence[TuneContext], max_trials: int, max_per_task: int) -> dict[str, Any]:
    return {
        "tasks": [
            [
                _task_key(k, task),
                str(task.target),
                type(task.space_generator).__name__,
                type(task.search_strategy).__name__,
            ]
            for k, task in enumerate(tasks)
        ],
        "max_trials_global": max_trials,
        "max_trials_per_task": max_per_task,
    }


def _record_counts(tasks: Sequence[TuneContext], database: Database) -> dict[str, int]:
    """Return how many records each task has; those with one program and target share theirs."""
    sharing: list[tuple[Workload, Target | None, list[str]]] = []
    for k, task in enumerate(tasks):
        assert task.mod is not None
        workload = database.commit_workload(task.mod)
        for other, target, names in sharing:
            if target == task.target and database.module_equality.equal(other.mod, workload.mod):
                names.append(_task_key(k, task))
                break
        else:
            sharing.append((workload, task.target, [_task_key(k, task)]))
    counts = {}
    for workload, target, names in sharing:
        records = database.tuning_records_of(workload)
        count = sum(record.target == target for record in records)
        for place, name in enumerate(names):
            counts[name] = (count + len(names) - 1 - place) // len(names)
    return counts


def _task_key(index: int, task: TuneContext) -> str:
    return f"{index} {task.task_name}"
