"""A task of the search: a program, a target, and what all parts that work on it share."""

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
from tensorir.function import IRModule, PrimFunc

_logger: Final = logging.getLogger("tensorir.search")


class Task:
    """One program to tune for one target, as rules, postprocessors and models see it.

    `TuneContext` is a task with the parts that search it. A `seed` of -1 takes one from the device.
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
        """The seed as it was given, -1 for any."""
        self.rand_state = RandomState(seed)
        """The random stream of the task, from which every part forks its seed."""
        self.num_threads = thread_count(num_threads)
        self.logger = _logger if logger is None else logger
        self.budget = ReplayBudget()
        """What may be replayed to learn of the design spaces; no limit unless somebody sets one."""
        self.progress = Progress()
        """The progress of the parts, which they report when they take long."""

    def is_finished_by(self, postproc: type[object]) -> bool | None:
        """Say whether a postprocessor of a class finishes each candidate; None if not known."""
        return None

    def fork_seed(self) -> int:
        """Advance the random stream of the task and return a seed for one of its parts."""
        return self.rand_state.fork()


def normalize_mod(mod: IRModule | PrimFunc) -> IRModule:
    """Return a program as the search wants it: a module whose one function is called `main`.

    A bare function gets `global_symbol` and `tir.noalias` where it does not say them. Of a module
    with functions of a graph it is the one function beside them; TuningError if there are several.
    """
    if isinstance(mod, PrimFunc):
        defaults = {"global_symbol": "main", "tir.noalias": True}
        return IRModule({"main": mod.with_attr({**defaults, **mod.attrs})})
    if not isinstance(mod, IRModule):
        raise IRTypeError(f"a task is an IRModule or a PrimFunc, got {type(mod).__name__}")
    functions = functions_to_tune(mod)
    if not functions:
        others = ", ".join(sorted(mod.functions))
        raise TuningError(
            "a task is one function, this module has no function to tune: "
            + (f"{others}: of a graph, or with tir.is_scheduled" if others else "it is empty")
        )
    if len(functions) > 1:
        names = sorted(functions)
        raise TuningError(
            f"a task is one function, this module has {len(names)}: {names}; take out the one that "
            f'is meant, as in IRModule.from_expr(mod["{names[0]}"]), or tune all of them with '
            "tune_module(mod, target, work_dir, max_trials_global)"
        )
    (func,) = functions.values()
    return mod if len(mod) == 1 and "main" in mod else IRModule({"main": func}, mod.attrs)


def functions_to_tune(mod: IRModule) -> dict[str, PrimFunc]:
    """Return the functions of a module over buffers whose schedule is not final, by name."""
    return {n: f for n, f in mod.prim_funcs().items() if not f.attrs.get(IS_SCHEDULED)}


def with_num_cores(target: Target) -> Target:
    """Return `target` with `num-cores`; where it has none, this machine's physical cores."""
    if target.num_cores is not None:
        return target
    cores = host.physical_cores()
    _logger.info(
        "The target does not say num-cores: it is taken to have as many as this machine, %d", cores
    )
    return Target({**target.to_dict(), "num-cores": cores})


def thread_count(num_threads: int | str) -> int:
    """Return a number of threads; TuningError for what is neither a count nor a word for one."""
    if num_threads == "physical":
        return host.physical_cores()
    if num_threads == "logical":
        return host.logical_cores()
    if isinstance(num_threads, int) and num_threads > 0:
        return num_threads
    raise TuningError(
        f'num_threads is a positive count, "physical" or "logical", got {num_threads!r}'
    )
