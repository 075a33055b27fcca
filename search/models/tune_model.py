"""Tuning a model as a whole: `tune_model`."""

from __future__ import annotations

import contextlib
import logging
import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from codegen import Target, why_not_here
from codegen.history import is_small
from search.arg_info import ArgInfo
from search.builder import Builder
from search.cost_model.cost_model import CostModel
from search.database import Database
from search.database.target_key import differ_in_cores, same_target
from search.errors import ArgumentError, TuningError
from search.loop import tune_run
from search.measure_callback import MeasureCallback
from search.models.check_model import leave_untuned_what_differs
from search.models.extract_tasks import ExtractedTask, extract_tasks
from search.options import TuneConfig
from search.reports.interrupts import OnInterrupt, checked_on_interrupt
from search.run import PathLike, Run, open_database
from search.runner import Runner
from search.runner.arguments import InputData
from search.runner.flops import estimate_tir_flops
from search.runner.objective import ObjectiveArg
from search.runs.report_task import report_of_run
from search.runs.wishes import Wishes
from search.search_strategy import SearchStrategy
from search.search_strategy.initial_schedules import InitialSchedules
from search.space_generator.constrained_space import ConstraintFunction
from search.space_generator.space_generator import SpaceArg
from search.task_scheduler import TaskScheduler
from search.tune import contexts_of
from tensorir import transform
from tensorir.function import BaseFunc, IRModule, PrimFunc
from tensorir.relax.expr import GraphVar

logger = logging.getLogger("tensorir.search")

_LARGEST_BATCH: Final = 64
_BATCH_BY_TIME: Final = 16
_FIRST_ROUNDS: Final = 2
"""A task gets its share of the trials in so many batches or more: the second knows the first."""

_CHECK_SECONDS: Final = 0.5
"""The seconds that the check of a model takes for each of its kernels, which is built twice."""
_MOST_OF_TIME: Final = 0.25
"""The share of a bounded time that the check may take."""


def tune_model(
    mod: IRModule | BaseFunc,
    target: str | Mapping[str, Any] | Target | None = None,
    work_dir: PathLike | None = None,
    *,
    max_trials_global: int | None = None,
    params: Mapping[str, Any] | None = None,
    op_names: Sequence[str] | None = None,
    include_compatible: bool = False,
    check: bool = True,
    max_trials_per_task: int | None = None,
    num_trials_per_iter: int | None = None,
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
    """Search for schedules of all kernels of a model; return the database with what was found.

        database = search.tune_model(mod, "llvm", "./tuned", max_trials_global=400)
        executable = codegen.vm_build(mod, "llvm", database=database)

    The tasks are those of `extract_tasks`: each kernel once, which counts as often as the model
    runs it; `params` are bound to `main` first, and with `op_names` only tasks are tuned in whose
    names one of these occurs. The budget is `max_trials_global` measurements, `max_seconds`, or the
    first of both that is used up, and goes where the scheduler expects a call of the model to gain
    most. A batch has `num_trials_per_iter` trials; by default each task can have two of them.

    A table shows of each task what it takes in a call of the model and what that gained since the
    first schedule, the default one. A task that fails, by a rule or because it cannot be built or
    measured, is left out, and named in the log; so are kernels with symbolic shapes, and small
    ones, which have nothing to gain. The others go on.

    At the end the model is built with and without what was found, and run on random inputs.
    Schedules that change its results beyond rounding are named, and entered into the database as
    failed, so that no build uses them. The log compares the time of a call with the sum of its
    kernels. That takes as long as building the model twice, and is part of `max_seconds`: it is
    left out where it would take more than a quarter of them, and with `check=False`.

    Everything is in `work_dir`; without one nothing is kept but what is returned. A run that was
    interrupted goes on when it is started again as it was (see `tune_tir`, also for `seed`,
    `on_interrupt` and the parts of the search); `max_seconds` are those of one call. Records of any
    model that are in the database count: what they know is not measured again.

    Before anything runs, TuningError is raised for no budget, one of fewer trials than tasks, a
    model without kernels to tune, and a database whose records of these kernels are all for another
    CPU.
    """
    began = time.monotonic()
    if max_trials_global is None and max_seconds is None:
        raise ArgumentError(
            "say how much to search: max_trials_global, as in 20 for each kernel, or max_seconds"
        )
    checked_on_interrupt(on_interrupt)
    if params:
        named: dict[str | GraphVar, Any] = dict(params.items())
        mod = transform.BindParams("main", named)(_module(mod))
    tasks = _worth_tuning(
        extract_tasks(
            mod, target, module_equality=module_equality, include_compatible=include_compatible
        ),
        op_names,
    )
    wishes = Wishes(input_data, initial_schedules, constraint, objective, special_space)
    wishes.names_among([task.task_name for task in tasks])
    if max_trials_global is not None and max_trials_global < len(tasks):
        raise ArgumentError(
            f"max_trials_global is {max_trials_global}, and the model has {len(tasks)} kernels to "
            f"tune: give at least one trial to each, better 20 ({20 * len(tasks)} in all), or "
            "name with op_names (--only of the command line) those that matter"
        )
    with contextlib.ExitStack() as stack:
        if work_dir is None:
            work_dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="tune_model_"))
            database = "memory" if database == "json" else database
        opened = open_database(database, work_dir, module_equality=module_equality)
        _refuse_records_of_another_cpu(opened, tasks)
        config = TuneConfig(
            max_trials_global=max_trials_global,
            max_trials_per_task=max_trials_per_task,
            num_trials_per_iter=num_trials_per_iter or _batch_size(max_trials_global, len(tasks)),
            max_seconds=max_seconds,
            num_confirmed=num_confirmed,
            early_stopping=early_stopping,
            early_stopping_per_task=early_stopping_per_task,
            keep_going=True,
            builder=builder,
            runner=runner,
            database=opened,
            cost_model=cost_model,
            measure_callbacks=measure_callbacks,
            task_scheduler=task_scheduler,
            module_equality=module_equality,
            verbose=verbose,
            on_interrupt=on_interrupt,
        )
        contexts, weights = contexts_of(tasks, wishes, space, strategy, num_tuning_cores, seed)
        for_check = _CHECK_SECONDS * len(_module(mod).prim_funcs()) if check else 0.0
        is_short = config.max_seconds is not None and for_check > _MOST_OF_TIME * config.max_seconds
        run = stack.enter_context(
            Run.open(
                contexts,
                weights,
                work_dir,
                config,
                began=began,
                seconds_after=0.0 if is_short else for_check,
            )
        )
        if is_short:
            run.log.info(
                "The tuned model will not be compared with the untuned one: that would take about "
                "%.0f of the %g seconds",
                for_check,
                config.max_seconds,
            )
        tune_run(run, _check(run, mod, tasks[0].target, check and not is_short))
    return opened


def _check(
    run: Run, mod: IRModule | BaseFunc, target: Target, is_wanted: bool
) -> Callable[[], None]:
    def compare() -> None:
        if not len(run.database):
            run.log.warning(
                "Nothing was measured in the time that there was: the model stays as it is; give "
                "it more seconds"
            )
        elif not is_wanted or not _module(mod).graph_funcs():
            return
        elif (reason := why_not_here(target)) is not None:  # other machines have measured
            run.log.info("The tuned model is not run here to be compared: %s", reason)
        else:
            run.progress.phase("comparing the tuned model with the untuned one")
            leave_untuned_what_differs(
                _module(mod), run.database, target, run.log, report_of_run(run).best
            )

    return compare


def _module(mod: IRModule | BaseFunc) -> IRModule:
    return mod if isinstance(mod, IRModule) else IRModule.from_expr(mod)


def _worth_tuning(
    tasks: Sequence[ExtractedTask], op_names: Sequence[str] | None
) -> list[ExtractedTask]:
    """Return the tasks to tune, those first that compute most; TuningError if there are none."""
    if isinstance(op_names, str):
        raise ArgumentError(f"op_names is a list of parts of names, got the text {op_names!r}")
    chosen = [
        task
        for task in tasks
        if op_names is None or any(part in name for part in op_names for name in task.names)
    ]
    if op_names is not None and not chosen:
        raise ArgumentError(
            f"no kernel has a name with one of {list(op_names)} in it; there are "
            f"{', '.join(task.task_name for task in tasks)}"
        )
    kept = []
    for task in chosen:
        reason = _why_not(task.mod.prim_func("main"))
        if reason is None:
            kept.append(task)
        else:
            logger.info('Function "%s" is not tuned: %s', task.task_name, reason)
    if not kept:
        raise TuningError(
            "the model has no kernel to tune: all are scheduled, small, or of symbolic shapes "
            "(to tune for certain lengths give them to the front end, as in "
            'from_onnx(path, {"x": (1, 3, 224, 224)}), or to the command line, as in '
            "--shape x=1,3,224,224)"
        )
    return sorted(kept, key=lambda task: -task.weight * estimate_tir_flops(task.mod))


def _why_not(func: PrimFunc) -> str | None:
    try:
        ArgInfo.from_prim_func(func)
    except TuningError as error:
        return str(error)
    return "it is too small to gain anything" if is_small(func) else None


def _batch_size(trials: int | None, tasks: int) -> int:
    if trials is None:
        return _BATCH_BY_TIME
    return max(1, min(_LARGEST_BATCH, math.ceil(trials / tasks / _FIRST_ROUNDS)))


def _refuse_records_of_another_cpu(database: Database, tasks: Sequence[ExtractedTask]) -> None:
    """Raise TuningError if a database has records of the tasks, and none that serves the target."""
    targets: dict[str, Target] = {}
    for task in tasks:
        if not database.has_workload(task.mod):
            continue
        for record in database.tuning_records_of(database.commit_workload(task.mod)):
            asked, of_record = task.target, record.target
            if of_record is None:
                continue
            if same_target(of_record, asked) or differ_in_cores(of_record, asked):
                return
            targets[str(of_record)] = of_record
    if targets:
        raise TuningError(
            f"{database.place} has records of these kernels for {', '.join(sorted(targets))}, and "
            f"none for {tasks[0].target}, which cannot use them: give another work_dir or "
            "database, or the target that they are for"
        )
