"""The task of a log: a workload, and the machine that it is tuned for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, astuple, dataclass, fields
from functools import cached_property
from typing import Any, Final

from codegen import Target
from codegen.target import as_target
from search.compat.auto_scheduler.compute_dag import ComputeDAG, LayoutRewriteOption
from search.compat.auto_scheduler.workloads import Workload, name_and_args, workload_of
from search.database.record_files import target_of_line
from search.errors import TuningError, blamed_on
from search.task import normalize_mod, with_num_cores
from tensorir import te
from tensorir.function import IRModule

_BYTES: Final = 64


@dataclass(frozen=True)
class HardwareParams:
    """The numbers of the machine that the search goes by, in the order of a log.

    `num_cores` goes to the target, if that does not say it: it bounds threads and shapes design
    spaces. The others are kept for logs and have no effect: the width of vectors and the cache line
    are known from the target (`-vector-width` states another), and the last five are of GPUs.
    Sizes are in bytes. Without `num_cores` it is the cores that `target` says, else those of this
    machine.
    """

    num_cores: int | None = None
    vector_unit_bytes: int | None = _BYTES
    cache_line_bytes: int | None = _BYTES
    max_shared_memory_per_block: int | None = 0
    max_local_memory_per_block: int | None = 0
    max_threads_per_block: int | None = 0
    max_vthread_extent: int | None = 0
    warp_size: int | None = 0
    target: InitVar[str | Target | None] = None

    def __post_init__(self, target: str | Target | None) -> None:
        if self.num_cores is None:
            object.__setattr__(self, "num_cores", with_num_cores(as_target(target)).num_cores)
        for field in fields(self):
            number = getattr(self, field.name)
            if number is None:
                object.__setattr__(self, field.name, field.default)
            elif type(number) is not int:
                raise TuningError(f"{field.name} is an integer, got {number!r}")
        if self.cores < 1:
            raise TuningError(
                f"num_cores is at least 1, got {self.num_cores}; leave it out for the cores of the "
                "target or of this machine"
            )

    @property
    def cores(self) -> int:
        """The number of cores."""
        assert self.num_cores is not None
        return self.num_cores

    def as_numbers(self) -> list[int]:
        """Return the eight numbers in the order of a log."""
        return list(astuple(self))

    @staticmethod
    def from_numbers(numbers: Sequence[Any]) -> HardwareParams:
        """Return the parameters that eight numbers of a log stand for; TuningError for others."""
        if not isinstance(numbers, (list, tuple)) or len(numbers) != 8:
            raise TuningError(f"a machine is described by 8 numbers, got {numbers!r}")
        return HardwareParams(*numbers)


class WorkloadTask:
    """A workload and the machine that it is tuned for, as a row of a log says them.

    Old rows end early. What the workload is, is asked only when needed.
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
        """The target as it was given, which is what a log says."""
        if hardware_params is None:
            hardware_params = HardwareParams(target=self.given_target)
        elif not isinstance(hardware_params, HardwareParams):
            hardware_params = HardwareParams.from_numbers(hardware_params)
        self.hardware_params = hardware_params
        self.target = self.given_target
        """The target with the number of cores."""
        if self.target.num_cores is None:
            self.target = Target({**self.target.to_dict(), "num-cores": hardware_params.cores})
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
        """The program, a module whose one function is `main`; TuningError if there is none."""
        workload = self.workload
        with blamed_on(f"the workload {self.name!r}", lambda: f"the arguments {self.args}"):
            func = te.create_prim_func(workload) if isinstance(workload, list) else workload
            return normalize_mod(func)

    @cached_property
    def compute_dag(self) -> ComputeDAG | None:
        """The computation as a graph of tensors; None for a workload that is a program."""
        return ComputeDAG(self.workload) if isinstance(self.workload, list) else None

    def __str__(self) -> str:
        return self.desc or f"{self.name}({', '.join(map(repr, self.args))})"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self} for {self.target}>"
