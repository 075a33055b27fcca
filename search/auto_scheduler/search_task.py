"""The task of a search: a workload to be tuned for a machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import codegen
from codegen import Target
from codegen.target import as_target
from schedule import Schedule
from search.auto_scheduler.hardware_params import HardwareParams
from search.auto_scheduler.steps.compute_dag import ComputeDAG, LayoutRewriteOption
from search.auto_scheduler.workload_registry import (
    Workload,
    make_workload_key,
    name_and_args,
    register_tensors,
    workload_of,
)
from search.context import normalize_mod
from search.errors import TuningError, blamed_on
from search.records.record_lines import target_of_line
from tensorir import te
from tensorir.function import IRModule
from tensorir.nodes.buffer import Buffer

if TYPE_CHECKING:
    from search.dispatch.find_schedule import FoundSchedule

_PRINT_MODES = ("schedule", "source")


class SearchTask:
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
        task_inputs_overwrite: bool = False,
        task_inputs_save_to_file: bool = False,
        desc: str = "",
    ) -> None:
        if task_inputs or task_inputs_overwrite or task_inputs_save_to_file:
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
        self._describe(
            workload_key,
            target,
            hardware_params,
            "" if target_host is None else str(target_host),
            layout_rewrite_option,
            desc=desc,
        )
        if compute_dag is not None:
            self.compute_dag = compute_dag
            self.workload = list(compute_dag.tensors)
        self.mod  # noqa: B018 - a workload that is not known is refused here

    @classmethod
    def of_log(
        cls,
        workload_key: str,
        target: str,
        numbers: Any = None,
        target_host: str = "",
        layout_rewrite_option: int | None = None,
        task_input_names: Sequence[str] = (),
    ) -> Self:
        """Return the task of a row of a log, of which old ones end early.

        What its workload is, is asked only when needed.
        """
        task = cls.__new__(cls)
        machine = None if numbers is None else HardwareParams.from_numbers(numbers)
        wanted = target_of_line(target)
        task._describe(
            workload_key, wanted, machine, target_host, layout_rewrite_option, task_input_names
        )
        return task

    def _describe(
        self,
        workload_key: str,
        target: Target,
        hardware_params: HardwareParams | None,
        target_host: str,
        layout_rewrite_option: int | None,
        task_input_names: Sequence[str] = (),
        desc: str = "",
    ) -> None:
        self.workload_key = workload_key
        self.name, self.args = name_and_args(workload_key)
        self.hardware_params = hardware_params or HardwareParams(target=target)
        self.given_target = target
        """The target as it was given, which is what a log says."""
        self.target = target
        """The target with the number of cores."""
        if target.num_cores is None:
            cores = self.hardware_params.num_cores
            self.target = Target({**target.to_dict(), "num-cores": cores})
        self.target_host = target_host
        try:
            self.layout_rewrite_option = LayoutRewriteOption(
                LayoutRewriteOption.INSERT_TRANSFORM_STAGE
                if layout_rewrite_option is None
                else layout_rewrite_option
            )
        except ValueError as error:
            known = ", ".join(f"{option.name} ({option.value})" for option in LayoutRewriteOption)
            raise TuningError(f"layout_rewrite_option is one of {known}; {error}") from error
        self.task_input_names = tuple(task_input_names)
        self.desc = desc

    # ------------------------------------------------------------------------------- the workload

    @cached_property
    def workload(self) -> Workload:
        """The result of the workload function; TuningError if it is not registered."""
        return workload_of(self.workload_key)

    @cached_property
    def mod(self) -> IRModule:
        """The program, a module whose one function is `main`; TuningError if there is none."""
        workload = self.workload
        with blamed_on(f"the workload {self.name!r}", lambda: f"the arguments {self.args}"):
            func = te.create_prim_func(workload) if isinstance(workload, list) else workload
            return normalize_mod(func)

    @cached_property
    def compute_dag(self) -> ComputeDAG | None:
        """The computation as a graph of tensors; None for a workload that is a program."""
        return ComputeDAG(self.workload) if isinstance(self.workload, list) else None

    # -------------------------------------------------------------------------- tuning and results

    def tune(
        self, tuning_options: Any, search_policy: Any = None, adaptive_training: bool = False
    ) -> Schedule | None:
        """Search for the best schedule and return it; see `tune_task`.

        Measurements go to the callbacks of the options, too: `RecordToFile` keeps them.
        """
        from search.auto_scheduler.tuning.policy import tune_task  # noqa: PLC0415 - it is built on tasks

        return tune_task(self, tuning_options, search_policy, adaptive_training)

    def apply_best(
        self,
        log_file: str | os.PathLike[str],
        include_compatible: bool = False,
        layout_rewrite_option: LayoutRewriteOption | int | None = None,
    ) -> tuple[Schedule, list[Buffer]]:
        """Return the schedule of the best record of a log that applies, and its arguments.

        `codegen.build(sch.mod, task.target)` builds it. The arguments are buffers, in the order of
        a call. With `include_compatible` records of the same function at smaller extents count,
        too; see `compatible_factor`. `layout_rewrite_option` is the one of the task: what was
        measured is applied as it is.

        TuningError if no record applies, OSError for a log that cannot be opened.
        """
        if layout_rewrite_option not in (None, self.layout_rewrite_option):
            raise TuningError(
                "a record is applied with the layouts that it was measured with; leave out "
                "layout_rewrite_option, or tune a task with another one"
            )
        found = self._best(log_file, include_compatible)
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
        sch = self._best(log_file).schedule
        if print_mode == "schedule":
            return sch.trace.script()
        return codegen.build(sch.mod, self.target).get_source()

    def _best(
        self, log_file: str | os.PathLike[str], include_compatible: bool = False
    ) -> FoundSchedule:
        from search.auto_scheduler.dispatch import best_of_log  # noqa: PLC0415 - it reads tasks

        return best_of_log(self, log_file, include_compatible)

    def __str__(self) -> str:
        arguments = ", ".join(map(repr, self.args))
        return self.desc or f"{self.name}({arguments})"

    def __repr__(self) -> str:
        return f"<SearchTask {self} for {self.target}>"


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
