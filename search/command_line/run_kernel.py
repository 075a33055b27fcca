"""A program of one function is built and called once for its results, then for its speed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import codegen
from search.arg_info import ArgInfo, entry_name
from search.command_line.input_files import (
    described,
    described_in_words,
    given_arrays,
    save_arrays,
)
from search.command_line.result import Result, say
from search.database import Database
from search.dispatch.find_schedule import find_schedule
from search.errors import TuningError
from search.runner.arguments import random_arrays
from search.runner.program_facts import ProgramFacts
from tensorir.function import IRModule
from tensorir.memory.written_parameters import written_parameters

_REPEATS: Final = 3


def run_kernel(
    path: str,
    mod: IRModule,
    target: codegen.Target,
    database: Database | None,
    inputs: Sequence[str],
    output: str | None,
    repeat: int,
) -> Result:
    """Build the entry function of a module and call it; times are seconds.

    `inputs` are those of `--input`, by the names of buffers; others are made up as in a search. The
    results are the buffers that it writes. TuningError for a function whose arguments cannot be
    made up, arrays that do not fit, and a database without a schedule of it.
    """
    name = entry_name(mod)
    func = mod.prim_func(name)
    infos = ArgInfo.from_prim_func(func)
    buffers = [func.buffer_map[param].name for param in func.params]
    given = given_arrays(inputs, buffers, "program")
    only = IRModule.from_expr(func)
    arrays = random_arrays(infos, 0, ProgramFacts.of(only).fill(signed=True))
    for buffer, info, array in zip(buffers, infos, arrays, strict=True):
        if buffer not in given:
            continue
        own = given[buffer]
        if own.shape != array.shape or own.dtype != array.dtype:
            raise TuningError(
                f"the input {buffer!r} is {info.dtype}{list(info.shape)}, got "
                f"{own.dtype}{list(own.shape)}"
            )
        array[...] = own
    scheduled, how = mod, "as it is written"
    if database is not None:
        found = find_schedule(database, func, target)
        if found is None:
            raise TuningError(
                f"{database.place} has no schedule of {name} for {target}: `tensorir db list "
                "DATABASE` says what it has"
            )
        scheduled, how = found.schedule.mod, f"with a schedule of {database.place}"
    say("building")
    start = time.monotonic()
    library = codegen.build(scheduled, target)
    built = time.monotonic() - start
    entry = entry_name(scheduled)
    library[entry](*arrays)
    written = {func.buffer_map[param].name for param in written_parameters(func, mod)}
    results = {b: array for b, array in zip(buffers, arrays, strict=True) if b in written}
    if output is not None:
        save_arrays(output, results)
    seconds = None
    if repeat > 0:
        timed = library.time_evaluator(entry, number=repeat, repeat=_REPEATS)
        seconds = timed(*arrays).mean
    made_up = [buffer for buffer in buffers if buffer not in given and buffer not in written]
    report = {
        "program": path,
        "build_seconds": built,
        "call_seconds": seconds,
        "made_up_inputs": made_up,
        "outputs": [{"name": b, **described(array)} for b, array in results.items()],
    }
    lines = [f"{path}: built {how} in {built:.1f} s"]
    lines += [f"inputs that are made up: {', '.join(made_up)}"] * bool(made_up)
    lines += [described_in_words(buffer, array) for buffer, array in results.items()]
    lines += [] if seconds is None else [f"a call takes {seconds * 1e6:.4g} us"]
    return Result(report, lines)
