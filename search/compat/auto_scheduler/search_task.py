"""The task of a search, and the tasks of a network."""

from __future__ import annotations

import logging
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
from search.compat.auto_scheduler.task import HardwareParams, WorkloadTask
from search.compat.auto_scheduler.workloads import (
    make_workload_key,
    register_program,
    register_tensors,
)
from search.database.module_equality import anchor_block
from search.errors import TuningError
from search.models.extract_tasks import tasks_of_functions
from tensorir.function import IRModule
from tensorir.nodes.buffer import Buffer

logger = logging.getLogger("auto_scheduler")

_PRINT_MODES = ("schedule", "source")


class SearchTask(WorkloadTask):
    """A workload and the machine that it is tuned for.

    The workload is given as a registered function with its arguments, as a workload key, or as a
    `ComputeDAG`, whose tensors are registered. `target` is the current one, else this machine;
    where it does not say `num-cores` it gets those of `hardware_params`, else of this machine.
    `target_host` is kept for logs.

    `task_inputs` is refused: candidates are measured on random arguments, and one whose run time
    depends on what is in them is tuned with a runner of its own (`TuningOptions(runner=...)`).
    TuningError for a workload that is not known, and for two numbers of cores.
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
        task_inputs: Any = None,
        desc: str = "",
    ) -> None:
        if task_inputs:
            raise TuningError(
                "task_inputs is not supported: candidates are measured on random arguments. Where "
                "their contents matter, pass a runner that makes them: TuningOptions(runner=...)"
            )
        if func is not None and (workload_key is not None or compute_dag is not None):
            raise TuningError("a task has func and args, or workload_key or compute_dag, not both")
        if func is None and args is not None:
            raise TuningError(
                f"args {args!r} are given without func; a workload_key has its arguments in it"
            )
        if not isinstance(hardware_params, HardwareParams | None):
            raise TuningError(
                "hardware_params is a HardwareParams, as in HardwareParams(num_cores=4), got "
                f"{hardware_params!r}"
            )
        target = as_target(target)
        if hardware_params is not None and target.num_cores is not None:
            cores = hardware_params.num_cores
            if target.num_cores != cores:
                raise TuningError(
                    f"the target says {target.num_cores} cores, hardware_params {cores}; leave one "
                    f"of them out, or write HardwareParams(..., target={str(target)!r})"
                )
        if workload_key is None:
            workload_key = _key_of(func, args, compute_dag)
        host = "" if target_host is None else str(target_host)
        super().__init__(workload_key, target, hardware_params, host, layout_rewrite_option)
        self.desc = desc
        if compute_dag is not None:
            self.compute_dag = compute_dag
            self.workload = list(compute_dag.tensors)
        self.mod  # noqa: B018 - a workload that is not known is refused here

    def tune(
        self,
        tuning_options: TuningOptions,
        search_policy: str | SketchPolicy | None = None,
        adaptive_training: bool = False,
    ) -> Schedule | None:
        """Search for the best schedule and return it, None if every trial failed.

        The policy is one of this task, or what a `TaskScheduler` takes; without one it is a
        `SketchPolicy` with an `XGBModel`, for which `adaptive_training` is. With
        `num_measure_trials` 0 nothing is measured: the result is what the model expects most of.
        Measurements go to the callbacks of the options: `RecordToFile` keeps them.
        """
        if not isinstance(tuning_options, TuningOptions):
            raise TuningError(f"tuning_options is a TuningOptions(...), got {tuning_options!r}")
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
        a call. With `include_compatible` records of the same function at smaller extents count,
        too; see `compatible_factor`. Layouts are those that it was measured with.

        TuningError if no record applies, OSError for a log that cannot be opened.
        """
        if layout_rewrite_option not in (None, self.layout_rewrite_option):
            raise TuningError(
                "a record is applied with the layouts that it was measured with; leave out "
                "layout_rewrite_option, or tune a task with another one"
            )
        found = best_of_log(self, log_file, include_compatible)
        func = found.func
        return found.schedule, [func.buffer_map[param] for param in func.params]

    def print_best(self, log_file: str | os.PathLike[str], print_mode: str = "schedule") -> str:
        """Return the best schedule of a log as text.

        `"schedule"`: Python that applies it to a `Schedule` of `task.mod`; `"source"`: the LLVM IR
        of the built program. TuningError for another mode, or if no record applies.
        """
        if print_mode not in _PRINT_MODES:
            raise TuningError(
                f"print_mode is 'schedule' or 'source', got {print_mode!r}"
                + ("; a CPU has no device code" if print_mode == "cuda" else "")
            )
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

    The functions of the module are registered as workloads under the hash of what they compute, so
    that functions which compute the same are one task. A log of them is applied where this was
    called with the same module. In a module without a graph each function counts once.

    Left out are functions without a reduction, unless `include_simple_tasks`, and those with
    arguments of unknown shape, which the log `auto_scheduler` says at level INFO. TuningError for
    what is no module.
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


def _key_of(
    func: str | Callable[..., Any] | None,
    args: Sequence[Any] | None,
    compute_dag: ComputeDAG | None,
) -> str:
    if func is not None:
        return make_workload_key(func, () if args is None else args)
    if compute_dag is None:
        raise TuningError("a task needs func and args, workload_key, or compute_dag")
    return register_tensors(compute_dag.tensors, compute_dag.func)
