"""The task of a log: a workload, and the machine that it is tuned for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, astuple, dataclass
from functools import cached_property
from typing import Any

from codegen import Target
from codegen.target import as_target
from search.compat.auto_scheduler.compute_dag import ComputeDAG, LayoutRewriteOption
from search.compat.auto_scheduler.workloads import Workload, name_and_args, workload_of
from search.database.record_files import target_of_line
from search.errors import TuningError, blamed_on
from search.runner.arguments import InputData
from search.task import normalize_mod, with_num_cores
from tensorir import te
from tensorir.function import IRModule


@dataclass(frozen=True)
class HardwareParams:
    """The eight numbers of a machine, in the order of a log.

    `num_cores` completes a target without `num-cores`; its default is the number of cores of
    `target`, or of this machine. The other numbers are only written to logs: the width of vectors
    comes from the target (`-vector-width`), and the last five are for GPUs.
    """

    num_cores: int | None = None
    vector_unit_bytes: int = 64
    cache_line_bytes: int = 64
    max_shared_memory_per_block: int = 0
    max_local_memory_per_block: int = 0
    max_threads_per_block: int = 0
    max_vthread_extent: int = 0
    warp_size: int = 0
    target: InitVar[str | Target | None] = None

    def __post_init__(self, target: str | Target | None) -> None:
        if self.num_cores is None:
            object.__setattr__(self, "num_cores", with_num_cores(as_target(target)).num_cores)
        if type(self.num_cores) is not int or self.num_cores < 1:
            raise TuningError(f"num_cores is an int of at least 1, got {self.num_cores!r}")

    def as_numbers(self) -> list[int]:
        """Return the eight numbers in the order of a log."""
        return list(astuple(self))


class WorkloadTask:
    """A workload and the machine that it is tuned for; the arguments are the row of a log.

    Old rows have fewer fields. A workload needs to be registered only when its program is used.
    """

    def __init__(
        self,
        workload_key: str,
        target: str | Target,
        hardware_params: HardwareParams | Sequence[Any] | None = None,
        target_host: str = "",
        layout_rewrite_option: LayoutRewriteOption | int | None = None,
        task_input_names: Sequence[str] = (),
    ) -> None:
        self.workload_key = workload_key
        self.name, self.args = name_and_args(workload_key)
        self.given_target = target if isinstance(target, Target) else target_of_line(target)
        """The target as a log has it."""
        if hardware_params is None:
            hardware_params = HardwareParams(target=self.given_target)
        elif not isinstance(hardware_params, HardwareParams):
            if len(hardware_params) != 8:
                raise TuningError(f"a machine is described by 8 numbers, got {hardware_params!r}")
            hardware_params = HardwareParams(*hardware_params)
        self.hardware_params = hardware_params
        self.target = self.given_target
        """The target with the number of cores."""
        if self.target.num_cores is None:
            self.target = Target({**self.target.to_dict(), "num-cores": hardware_params.num_cores})
        self.target_host = target_host
        if layout_rewrite_option is None:
            layout_rewrite_option = LayoutRewriteOption.INSERT_TRANSFORM_STAGE
        try:
            self.layout_rewrite_option = LayoutRewriteOption(layout_rewrite_option)
        except ValueError as error:
            known = ", ".join(f"{option.name} ({option.value})" for option in LayoutRewriteOption)
            raise TuningError(f"layout_rewrite_option is one of {known}; {error}") from error
        self.task_input_names = tuple(task_input_names)
        self.task_inputs: InputData | None = None
        self.desc = ""

    def row(self) -> list[Any]:
        """Return the row of a log."""
        return [
            self.workload_key,
            str(self.given_target),
            self.hardware_params.as_numbers(),
            self.target_host,
            int(self.layout_rewrite_option),
            list(self.task_input_names),
        ]

    @cached_property
    def workload(self) -> Workload:
        """The result of the workload function; TuningError if it is not registered."""
        return workload_of(self.workload_key)

    @cached_property
    def mod(self) -> IRModule:
        """The program, a module whose one function is `main`; TuningError as for `workload`."""
        workload = self.workload
        with blamed_on(f"the workload {self.name!r}", lambda: f"the arguments {self.args}"):
            func = te.create_prim_func(workload) if isinstance(workload, list) else workload
            return normalize_mod(func)

    @cached_property
    def compute_dag(self) -> ComputeDAG | None:
        """The graph of the tensors; None for a workload that is a program."""
        return ComputeDAG(self.workload) if isinstance(self.workload, list) else None

    def __str__(self) -> str:
        return self.desc or f"{self.name}({', '.join(map(repr, self.args))})"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self} for {self.target}>"
