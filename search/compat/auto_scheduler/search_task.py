"""The task of a search, and the tasks of a network."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import codegen
from codegen import Target
from codegen.target import as_target
from schedule import Schedule
from search.arg_info import ArgInfo
from search.compat.auto_scheduler.compute_dag import ComputeDAG, LayoutRewriteOption
from search.compat.auto_scheduler.history import best_of_log
from search.compat.auto_scheduler.options import TuningOptions
from search.compat.auto_scheduler.policy import SketchPolicy, make_policies
from search.compat.auto_scheduler.records import logger
from search.compat.auto_scheduler.task import HardwareParams, WorkloadTask
from search.compat.auto_scheduler.workloads import (
    make_workload_key,
    register_program,
    register_tensors,
)
from search.database.module_equality import anchor_block
from search.errors import TuningError
from search.models.extract_tasks import tasks_of_functions
from search.runner.arguments import InputData
from tensorir.function import IRModule
from tensorir.nodes.buffer import Buffer


class SearchTask(WorkloadTask):
    """A workload and the machine that it is tuned for.

    The workload is a registered function with its arguments, a workload key, or a `ComputeDAG`,
    whose tensors are registered. `target` defaults to the current target, or to this machine if
    there is none; if it lacks `num-cores`, the number comes from `hardware_params`, or from this
    machine. `target_host` is written
    to logs. `task_inputs` are arrays to measure on, see `input_data` of `TuneContext`.

    Raises TuningError for an unknown workload, and for two different numbers of cores.
    """

    def __init__(
        self,
        func: str | Callable[..., Any] | None = None,
        args: Sequence[Any] | None = None,
        compute_dag: ComputeDAG | None = None,
        workload_key: str | None = None,
        target: str | Mapping[str, Any] | Target | None = None,
        target_host: str | Target | None = None,
        hardware_params: HardwareParams | None = None,
        layout_rewrite_option: LayoutRewriteOption | int | None = None,
        task_inputs: InputData | None = None,
        desc: str = "",
    ) -> None:
        if (func is None) == (workload_key is None and compute_dag is None):
            raise TuningError("a task needs either func and args, or workload_key or compute_dag")
        if func is None and args is not None:
            raise TuningError(
                f"args {args!r} are given without func; a workload_key contains its arguments"
            )
        target = as_target(target)
        cores = None if hardware_params is None else hardware_params.num_cores
        if cores is not None and target.num_cores not in (None, cores):
            raise TuningError(
                f"the target has {target.num_cores} cores, hardware_params has {cores}; leave one "
                "of them out"
            )
        if func is not None:
            workload_key = make_workload_key(func, () if args is None else args)
        elif workload_key is None:
            assert compute_dag is not None
            workload_key = register_tensors(compute_dag.tensors, compute_dag.func)
        host = "" if target_host is None else str(target_host)
        names = tuple(task_inputs) if isinstance(task_inputs, Mapping) else ()
        super().__init__(workload_key, target, hardware_params, host, layout_rewrite_option, names)
        self.task_inputs = task_inputs
        self.desc = desc
        if compute_dag is not None:
            self.compute_dag = compute_dag
            self.workload = list(compute_dag.tensors)
        self.mod  # noqa: B018 - raises for an unknown workload

    def tune(
        self,
        tuning_options: TuningOptions,
        search_policy: str | SketchPolicy | None = None,
        adaptive_training: bool = False,
    ) -> Schedule | None:
        """Search for the best schedule and return it, None if every trial failed.

        The policy is one of this task, or a name as for `TaskScheduler.tune`; the default is a
        `SketchPolicy` with an `XGBModel`, which `adaptive_training` configures. With
        `num_measure_trials` 0 nothing is measured, and the result is the schedule with the best
        prediction. `RecordToFile` among the callbacks of the options keeps the measurements.
        """
        wanted = "default" if search_policy is None else search_policy
        given = wanted if isinstance(wanted, str) else [wanted]
        (policy,) = make_policies(given, [self], adaptive_training=adaptive_training)
        return policy.tune(tuning_options)

    def apply_best(
        self,
        log_file: str | os.PathLike[str],
        include_compatible: bool = False,
        layout_rewrite_option: LayoutRewriteOption | int | None = None,
    ) -> tuple[Schedule, list[Buffer]]:
        """Return the schedule of the best record of a log that applies, and its arguments.

        `codegen.build(sch.mod, task.target)` builds it. The arguments are buffers, in the order of
        a call. With `include_compatible`, records of the same function with smaller extents are
        adapted; see `compatible_factor`. A record is applied with the layouts of its measurement.

        Raises TuningError if no record applies, OSError for a log that cannot be opened.
        """
        if layout_rewrite_option not in (None, self.layout_rewrite_option):
            raise TuningError(
                "a record is applied with the layouts of its measurement; leave out "
                "layout_rewrite_option, or tune a task with another one"
            )
        found = best_of_log(self, log_file, include_compatible)
        func = found.func
        return found.schedule, [func.buffer_map[param] for param in func.params]

    def print_best(self, log_file: str | os.PathLike[str], print_mode: str = "schedule") -> str:
        """Return the best schedule of a log as text.

        `"schedule"`: Python that applies it to a `Schedule` of `task.mod`; `"source"`: the LLVM IR
        of the built program. Raises TuningError for another mode, or if no record applies.
        """
        if print_mode not in ("schedule", "source"):
            raise TuningError(f"print_mode is 'schedule' or 'source', got {print_mode!r}")
        sch = best_of_log(self, log_file).schedule
        if print_mode == "schedule":
            return sch.trace.script()
        return codegen.build(sch.mod, self.target).get_source()


def extract_tasks(
    mod: IRModule,
    target: str | Mapping[str, Any] | Target | None = None,
    hardware_params: HardwareParams | None = None,
    include_simple_tasks: bool = False,
) -> tuple[list[SearchTask], list[int]]:
    """Return the tasks of a module, and how often its graph runs each of them.

    The functions of the module are registered as workloads under the hash of their program, so
    that equal functions are one task. A process that applies a log must call this with the same
    module before. In a module without a graph each function counts once.

    Functions without a reduction are skipped unless `include_simple_tasks`, and so are functions
    with arguments of unknown shape; the logger `auto_scheduler` names the latter at level INFO.
    """
    if not isinstance(mod, IRModule):
        raise TuningError(f"tasks are extracted from an IRModule, got {type(mod).__name__}")
    tasks: list[SearchTask] = []
    weights: list[int] = []
    for found in tasks_of_functions(mod, target):
        func = found.mod.prim_func("main")
        if not include_simple_tasks and anchor_block(found.mod) is None:
            continue
        try:
            ArgInfo.from_prim_func(func)
        except TuningError as error:
            logger.info('Function "%s" is not tuned: %s', found.task_name, error)
            continue
        task = SearchTask(
            workload_key=register_program(func),
            target=as_target(target),
            hardware_params=hardware_params,
            layout_rewrite_option=LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED,
            desc=found.task_name,
        )
        tasks.append(task)
        weights.append(int(found.weight))
    return tasks, weights
