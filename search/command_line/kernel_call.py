"""A call of one function: it is built, called once for its results, and timed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from numpy.typing import NDArray

import codegen
from search.arg_info import ArgInfo, entry_name
from search.errors import ArgumentError
from search.runner.arguments import random_arrays
from search.runner.program_facts import ProgramFacts
from tensorir.function import IRModule, PrimFunc
from tensorir.memory.written_parameters import written_parameters

_REPEATS: Final = 3


@dataclass(frozen=True)
class KernelCall:
    """What a call gave."""

    results: Mapping[str, NDArray[Any]]
    """The buffers that the function writes, by name."""
    made_up: list[str]
    """The buffers that were made up: those that are neither given nor written."""
    build_seconds: float
    seconds: float | None
    """Seconds a call takes, the mean of several; None where it was not timed."""


def buffer_names(func: PrimFunc) -> list[str]:
    """Return the names of the buffers that a function takes; TuningError for scalar parameters."""
    ArgInfo.from_prim_func(func)
    return [func.buffer_map[param].name for param in func.params]


def call_kernel(
    mod: IRModule,
    scheduled: IRModule,
    target: codegen.Target,
    given: Mapping[str, NDArray[Any]] | None = None,
    *,
    repeat: int,
) -> KernelCall:
    """Build the entry function of a scheduled program and call it; `mod` is the unscheduled one.

    `given` are arrays by the names of buffers, others are made up as in a search, always alike.
    `repeat` calls are timed. TuningError for a function whose arguments cannot be made up,
    ArgumentError for arrays that do not fit.
    """
    func = mod.prim_func(entry_name(mod))
    infos = ArgInfo.from_prim_func(func)
    names = buffer_names(func)
    facts = ProgramFacts.of(IRModule.from_expr(func))
    arrays = random_arrays(infos, 0, facts, signed=True)
    own = given or {}
    for name, info, array in zip(names, infos, arrays, strict=True):
        if name not in own:
            continue
        one = own[name]
        if one.shape != array.shape or one.dtype != array.dtype:
            raise ArgumentError(
                f"the input {name!r} is {info.dtype}{list(info.shape)}, got "
                f"{one.dtype}{list(one.shape)}"
            )
        array[...] = one
    start = time.monotonic()
    library = codegen.build(scheduled, target)
    built = time.monotonic() - start
    entry = entry_name(scheduled)
    library[entry](*arrays)
    written = {func.buffer_map[param].name for param in written_parameters(func, mod)}
    pairs = zip(names, arrays, strict=True)
    results = {name: array.copy() for name, array in pairs if name in written}
    seconds = None
    if repeat > 0:
        timed = library.time_evaluator(entry, number=repeat, repeat=_REPEATS)
        seconds = float(timed(*arrays).mean)
    made_up = [name for name in names if name not in own and name not in written]
    return KernelCall(results, made_up, built, seconds)
