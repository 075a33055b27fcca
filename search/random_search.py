"""The simplest search: try random schedules and keep the best."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import codegen
from codegen import Target
from codegen.history import without_history
from schedule import Schedule
from search.arg_info import ArgInfo
from search.errors import TuningError
from search.runner.arguments import ProgramFacts, random_arrays
from search.task import normalize_mod
from tensorir.function import IRModule, PrimFunc


def random_search(
    mod: IRModule | PrimFunc,
    schedule_fn: Callable[[Schedule], Schedule | None],
    num_trials: int = 5,
    target: str | Target = "llvm",
    args: Sequence[Any] | None = None,
    *,
    seed: int | None = None,
    verbose: bool = True,
) -> Schedule:
    """Apply a stochastic schedule `num_trials` times and return the fastest result.

    `schedule_fn` transforms its argument, a fresh schedule, and samples again in each call. `args`
    are the arrays to run on (random if None). With `verbose`, each attempt prints its time in ms
    and its trace. Programs are built and run in this process, for experiments: unlike `tune_tir`,
    it does not survive candidates that crash.
    """
    if num_trials < 1:
        raise TuningError(f"num_trials is at least 1, got {num_trials}")
    module = normalize_mod(mod)
    facts = ProgramFacts.of(module)
    arrays = random_arrays(ArgInfo.from_entry_func(module), 0, facts) if args is None else args
    root = Schedule(module, seed=seed)
    best: tuple[float, Schedule] | None = None
    for attempt in range(num_trials):
        sch = root.copy()
        sch = schedule_fn(sch) or sch
        with without_history():
            library = codegen.build(sch.mod, target)
        evaluator = library.time_evaluator("main", number=3, repeat=3, min_repeat_ms=20)
        seconds = evaluator(*arrays).median
        if verbose:
            sys.stdout.write(
                f"===== Attempt {attempt}: {seconds * 1e3:.3f} ms =====\n{sch.trace}\n"
            )
        if best is None or seconds < best[0]:
            best = (seconds, sch)
    assert best is not None
    return best[1]
