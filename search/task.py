"""A task of the search: a program, a target, and the state that all parts share."""

from __future__ import annotations

import logging
from typing import Final

from codegen import Target
from codegen.history import IS_SCHEDULED
from codegen.target import host
from schedule.random_state import RandomState
from search.errors import TuningError
from search.reports.live_display import Progress
from search.space_generator.replays import ReplayBudget
from tensorir.errors import IRTypeError
from tensorir.function import BaseFunc, IRModule, PrimFunc

_logger: Final = logging.getLogger("tensorir.search")


class Task:
    """One program to tune for one target, as rules, postprocessors and models see it.

    `TuneContext` is a task with the parts that search it. A `seed` of -1 means a random one.
    """

    def __init__(
        self,
        mod: IRModule | PrimFunc | None = None,
        target: str | Target | None = None,
        task_name: str = "main",
        seed: int = -1,
        num_threads: int | str = "physical",
        logger: logging.Logger | None = None,
    ) -> None:
        if target is None:
            target = Target.current()
        self.mod: IRModule | None = None if mod is None else normalize_mod(mod)
        self.target: Target | None = None if target is None else with_num_cores(Target(target))
        self.task_name = task_name
        self.seed = seed
        """The given seed, -1 for any."""
        self.rand_state = RandomState(seed)
        """The random stream of the task, from which every part forks its seed."""
        self.num_threads = thread_count(num_threads)
        self.logger = _logger if logger is None else logger
        self.weights_are_cold = False
        """True if weights (`layout_free_buffers`) are in no cache when the program begins."""
        self.budget = ReplayBudget()
        """The limit of replays for exploring the design spaces; none by default."""
        self.progress = Progress()
        """The progress of parts that run for long."""

    @property
    def program(self) -> IRModule:
        """The program to tune; TuningError for a task without one."""
        if self.mod is None:
            raise TuningError(f'task "{self.task_name}" has no program: pass mod to TuneContext')
        return self.mod

    @property
    def known_target(self) -> Target:
        """The target to tune for; TuningError for a task without one."""
        if self.target is None:
            raise TuningError(f'task "{self.task_name}" has no target: pass one to TuneContext')
        return self.target

    @property
    def has_cold_arguments(self) -> bool:
        """True if weights leave the caches before a candidate is timed, which only x86 can do."""
        return self.weights_are_cold and self.known_target.architecture == "x86_64"

    def is_finished_by(self, postproc: type[object]) -> bool | None:
        """Return True if a postprocessor of a class finishes each candidate; None if unknown."""
        return None

    def fork_seed(self) -> int:
        """Advance the random stream of the task and return a seed for one of its parts."""
        return self.rand_state.fork()


def normalize_mod(mod: IRModule | PrimFunc) -> IRModule:
    """Return a module whose only function is the one to tune, named `main`.

    A bare function gets the attributes `global_symbol` and `tir.noalias` unless it has them. A
    module may have graph functions in addition to the function. Raises TuningError if it has
    several functions to tune.
    """
    if isinstance(mod, PrimFunc):
        defaults = {"global_symbol": "main", "tir.noalias": True}
        return IRModule({"main": mod.with_attr({**defaults, **mod.attrs})})
    mod = as_module(mod)
    functions = functions_to_tune(mod)
    if not functions:
        others = ", ".join(sorted(mod.functions))
        raise TuningError(
            "a task is one function, this module has no function to tune: "
            + (f"{others}: a graph, or with tir.is_scheduled" if others else "it is empty")
        )
    if len(functions) > 1:
        names = sorted(functions)
        raise TuningError(
            f"a task is one function, this module has {len(names)}: {names}; pass one of them, as "
            f'in IRModule.from_expr(mod["{names[0]}"]), or tune all of them with '
            "tune_module(mod, target, work_dir, max_trials_global)"
        )
    (func,) = functions.values()
    return mod if len(mod) == 1 and "main" in mod else IRModule({"main": func}, mod.attrs)


def as_module(mod: IRModule | BaseFunc) -> IRModule:
    """Return a module, or a function as a module; IRTypeError for a value of another type."""
    if isinstance(mod, BaseFunc):
        return IRModule.from_expr(mod)
    if not isinstance(mod, IRModule):
        raise IRTypeError(
            f"mod is an IRModule or a function, got {type(mod).__name__}; import a model, for "
            "example by tensorir.frontend.from_onnx(path)"
        )
    return mod


def functions_to_tune(mod: IRModule) -> dict[str, PrimFunc]:
    """Return the tensor functions of a module without `tir.is_scheduled`, by name."""
    return {n: f for n, f in as_module(mod).prim_funcs().items() if not f.attrs.get(IS_SCHEDULED)}


def with_num_cores(target: Target) -> Target:
    """Return a CPU with `num-cores`, by default the physical cores of this machine; or a GPU."""
    if target.num_cores is not None or target.gpu is not None:
        return target
    cores = host.physical_cores()
    _logger.info(
        "The target has no num-cores; the search assumes the %d cores of this machine", cores
    )
    return Target({**target.to_dict(), "num-cores": cores})


def thread_count(num_threads: int | str) -> int:
    """Return a number of threads; TuningError unless it is a count, "physical" or "logical"."""
    if num_threads == "physical":
        return host.physical_cores()
    if num_threads == "logical":
        return host.logical_cores()
    if isinstance(num_threads, int) and num_threads > 0:
        return num_threads
    raise TuningError(
        f'num_threads (num_tuning_cores of tune_model) is a positive count, "physical" or '
        f'"logical", got {num_threads!r}'
    )
