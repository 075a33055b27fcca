"""Tuning a model as a whole: `tune_model`."""

from __future__ import annotations

import contextlib
import logging
import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Unpack

from codegen import Target, why_not_here
from codegen.history import is_small
from search.arg_info import ArgInfo
from search.database import Database
from search.errors import ArgumentError, TuningError
from search.feature_extractor.machine import weights_are_cold
from search.feature_extractor.nest_feature import least_cycles
from search.history.default_schedules import Scheduled, default_schedules_of
from search.history.symbolic_sizes import Sizes
from search.loop import tune_run
from search.models.check_model import compare_call_with_kernels, refuse_wrong_schedules
from search.models.extract_tasks import ExtractedTask, extract_tasks, with_params
from search.options import TuneConfig, TuneOptions, listing_options
from search.run import Run, open_database
from search.runner.arguments import InputData
from search.runner.flops import estimate_tir_flops
from search.runner.objective import ObjectiveArg
from search.runs.name_winner import report_of_run
from search.runs.task_overrides import TaskOverrides
from search.search_strategy import SearchStrategy
from search.search_strategy.initial_schedules import InitialSchedules
from search.space_generator.restricted_space import ConstraintFunction
from search.space_generator.space_generator import SpaceArg
from search.task import Task
from tensorir.function import BaseFunc, IRModule, PrimFunc
from tensorir.paths import PathLike
from tensorir.relax.function import constant_bytes

logger = logging.getLogger("tensorir.search")

_USUAL_SPACE: Final = "post-order-apply"
_LARGEST_BATCH: Final = 64
_BATCH_BY_TIME: Final = 16
_FIRST_ROUNDS: Final = 2
"""The minimum number of batches of a task: the second one learns from the first."""

_SECONDS_OF_A_TASK: Final = 3.0
"""The minimum seconds for a kernel in a bounded time."""
_CHECK_SECONDS: Final = 0.2
"""The seconds of the check for each kernel of a model, which is built twice."""
_MOST_OF_TIME: Final = 0.25
"""The maximum fraction of a bounded time for the check."""


@listing_options(num_trials_per_iter=None)
def tune_model(
    mod: IRModule | BaseFunc,
    target: str | Mapping[str, Any] | Target | None = None,
    work_dir: PathLike | None = None,
    *,
    max_trials_global: int | None = None,
    params: Mapping[str, Any] | None = None,
    op_names: Sequence[str] | None = None,
    include_compatible: bool = False,
    sizes: Sizes | None = None,
    check: bool = True,
    space: SpaceArg = _USUAL_SPACE,
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
    """Search for schedules of all kernels of a model; return the database with the results.

        database = search.tune_model(mod, "llvm", "./tuned", max_trials_global=400)
        executable = codegen.vm_build(mod, "llvm", database=database)

    The tasks are those of `extract_tasks`: each different kernel once, with the number of times
    that the model runs it. `params` are bound to `main` first. With `op_names` only the tasks are
    tuned whose names contain one of these strings. The budget is `max_trials_global` measurements
    or `max_seconds`, whichever ends first, and goes to the kernels that are expected to speed a
    call of the model up most. A batch has `num_trials_per_iter` trials; by default each task can
    have two batches. The search of a kernel begins with the schedule that an untuned model has.

    A table shows for each task its time in a call of the model, and its gain since the default
    schedule. A task that fails, in a rule, a build or a measurement, ends with an error in the log,
    and the others continue. Small kernels, which cannot gain, are not tuned. Kernels with symbolic
    sizes are tuned for a few numbers, which `sizes` may list (see `extract_tasks`); a build finds
    the records of all numbers that were tuned, also those of models with constant shapes.

    At the end the model runs on random inputs with and without the new schedules. Schedules that
    change its results beyond rounding are logged, and become failed records, so that no build uses
    them. The log compares the time of a call with the sum of its kernels. This check takes as long
    as building the model twice. It is part of `max_seconds`, and skipped if it would take more than
    a quarter of them, or with `check=False`.

    `work_dir` keeps everything; without it, only the returned database remains. An interrupted run
    resumes when it is started again with the same arguments (see `tune_tir`, also for `seed`; the
    `options` are fields of `TuneConfig`); `max_seconds` is the limit of one call. Candidates with a
    record in the database, of any model, are not measured again.

    Raises TuningError for a missing budget, fewer trials than tasks, and a model without kernels to
    tune.
    """
    began = time.monotonic()
    if max_trials_global is None and options.get("max_seconds") is None:
        raise ArgumentError(
            "missing budget: pass max_trials_global (20 for each kernel, for example), "
            "max_seconds, or both"
        )
    per_iter = options.get("num_trials_per_iter")
    if per_iter is None:
        options.pop("num_trials_per_iter", None)
    config = TuneConfig(max_trials_global, keep_going=True, **options)
    equality = config.module_equality
    mod = with_params(mod, params)
    found = extract_tasks(
        mod,
        target,
        module_equality=equality,
        include_compatible=include_compatible,
        sizes=sizes,
    )
    tasks = _worth_tuning(found, op_names)
    overrides = TaskOverrides(input_data, initial_schedules, constraint, objective, special_space)
    named = overrides.names_among([task.task_name for task in tasks])
    if max_trials_global is not None and max_trials_global < len(tasks):
        raise ArgumentError(
            f"max_trials_global is {max_trials_global}, and the model has {len(tasks)} kernels to "
            f"tune: give at least one trial to each, better 20 ({20 * len(tasks)} in all), or "
            "select kernels with op_names (--only of the command line)"
        )
    cold = weights_are_cold(constant_bytes(mod), tasks[0].target)
    defaults: dict[str, Scheduled] = {}
    if space == _USUAL_SPACE and constraint is None:
        own_spaces = special_space or {}
        programs = {task.task_name: task.mod for task in tasks if task.task_name not in own_spaces}
        defaults = default_schedules_of(programs, tasks[0].target, cold)
        if config.max_seconds is not None and tasks[0].target.gpu is None:
            timed = {name: made for name, made in defaults.items() if name not in named}
            tasks = _within_time(tasks, timed, config.max_seconds)
    with contextlib.ExitStack() as stack:
        database = config.database
        if work_dir is None:
            work_dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="tune_model_"))
            database = "memory" if database == "json" else database
        opened = open_database(database, work_dir, module_equality=equality)
        per_iter = per_iter or _batch_size(max_trials_global, len(tasks))
        config = replace(config, database=opened, num_trials_per_iter=per_iter)
        contexts, weights = overrides.contexts(tasks, space, strategy, num_tuning_cores, seed)
        for context in contexts:
            default = defaults.get(context.task_name)
            context.default_traces = () if default is None else (default.trace,)
            context.weights_are_cold = cold
        for_check = _CHECK_SECONDS * len(found) if check else 0.0
        is_short = config.max_seconds is not None and for_check > _MOST_OF_TIME * config.max_seconds
        after = 0.0 if is_short else for_check
        run = stack.enter_context(
            Run.open(contexts, weights, work_dir, config, began=began, seconds_after=after)
        )
        if is_short:
            run.log.info(
                "The tuned model will not be compared with the untuned one: that would take about "
                "%.0f of the %g seconds",
                for_check,
                config.max_seconds,
            )
        is_wanted = check and not is_short and bool(mod.graph_funcs())
        tune_run(run, lambda: _check(run, mod, tasks[0].target, is_wanted))
    return opened


def _within_time(
    tasks: Sequence[ExtractedTask], defaults: Mapping[str, Scheduled], seconds: float
) -> list[ExtractedTask]:
    """Return the tasks for which the time suffices, the longest of them first.

    Times are estimates of the default schedules. Tasks without one are kept.
    """
    times: dict[str, float] = {}
    for task in tasks:
        default = defaults.get(task.task_name)
        if default is not None and default.choice is not None:
            least = least_cycles(Task(task.mod, task.target))
            times[task.task_name] = task.weight * least * math.exp(-default.choice.score)
    longest = sorted(times, key=lambda name: -times[name])
    rest = longest[max(1, int(seconds / _SECONDS_OF_A_TASK)) :]
    if rest:
        logger.info(
            "%d kernels with %.1f %% of the estimated time keep their default schedules: "
            "%g seconds suffice for %d",
            len(rest),
            100 * sum(times[name] for name in rest) / sum(times.values()),
            seconds,
            len(tasks) - len(rest),
        )
    kept = [task for task in tasks if task.task_name not in rest]
    return sorted(kept, key=lambda task: -times.get(task.task_name, math.inf))


def _check(run: Run, mod: IRModule, target: Target, is_wanted: bool) -> None:
    """Compare the tuned model with the untuned one, if that is possible here."""
    reason = why_not_here(target) if is_wanted else None
    if not len(run.database):
        run.log.warning(
            "Nothing was measured in the given time: the model is not tuned; increase max_seconds"
        )
    elif reason is not None:  # other machines have measured
        run.log.info("The tuned model cannot run here to be compared: %s", reason)
    elif is_wanted:
        run.progress.phase("comparing the tuned model with the untuned one")
        refused = refuse_wrong_schedules(mod, run.database, target, run.log)
        kernels = report_of_run(run).best
        if not refused and kernels:
            compare_call_with_kernels(mod, run.database, target, kernels, run.log)


def _worth_tuning(
    tasks: Sequence[ExtractedTask], op_names: Sequence[str] | None
) -> list[ExtractedTask]:
    """Return the tasks to tune, with the most expensive first; TuningError if there are none."""
    is_list = isinstance(op_names, Sequence) and not isinstance(op_names, str)
    if op_names is not None and not (is_list and all(isinstance(n, str) for n in op_names)):
        raise ArgumentError(f"op_names is a list of parts of names, got {op_names!r}")
    chosen = [
        task
        for task in tasks
        if op_names is None or any(part in name for part in op_names for name in task.names)
    ]
    if op_names is not None and not chosen:
        raise ArgumentError(
            f"no kernel name contains one of {list(op_names)}; the kernels are "
            f"{', '.join(task.task_name for task in tasks)}"
        )
    kept = []
    for task in chosen:
        reason = _refusal(task.mod.prim_func("main"))
        if reason is None:
            kept.append(task)
        else:
            logger.info('Function "%s" is not tuned: %s', task.task_name, reason)
    if not kept:
        raise TuningError(
            "the model has no kernel to tune: all are scheduled, small, or have scalar parameters"
        )
    return sorted(kept, key=lambda task: -task.weight * estimate_tir_flops(task.mod))


def _refusal(func: PrimFunc) -> str | None:
    try:
        ArgInfo.from_prim_func(func)
    except TuningError as error:
        return str(error)
    return "it is too small to gain anything" if is_small(func) else None


def _batch_size(trials: int | None, tasks: int) -> int:
    if trials is None:
        return _BATCH_BY_TIME
    return max(1, min(_LARGEST_BATCH, math.ceil(trials / tasks / _FIRST_ROUNDS)))
