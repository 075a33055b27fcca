"""A program of one function is run: as it is written, or with a schedule of a database."""

from __future__ import annotations

from collections.abc import Sequence

import codegen
from search.arg_info import entry_name
from search.command_line.input_files import (
    described,
    described_in_words,
    given_arrays,
    save_arrays,
)
from search.command_line.kernel_call import buffer_names, call_kernel
from search.command_line.result import Result, say
from search.database import Database
from search.errors import TuningError
from search.history.find_schedule import find_schedule
from search.runner.time_text import time_text
from tensorir.function import IRModule


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

    `inputs` are those of `--input`, by the names of buffers; others are made up. TuningError for a
    function whose arguments cannot be made up, arrays that do not fit, and a database without a
    schedule of it.
    """
    func = mod.prim_func(entry_name(mod))
    given = given_arrays(inputs, buffer_names(func), "program")
    scheduled, how = mod, "as it is written"
    if database is not None:
        scheduled = best_schedule(database, mod, target)
        how = f"with a schedule of {database.place}"
    say("building")
    call = call_kernel(mod, scheduled, target, given, repeat=repeat)
    if output is not None:
        save_arrays(output, call.results)
    report = {
        "program": path,
        "build_seconds": call.build_seconds,
        "call_seconds": call.seconds,
        "made_up_inputs": call.made_up,
        "outputs": [{"name": name, **described(array)} for name, array in call.results.items()],
    }
    lines = [f"{path}: built {how} in {call.build_seconds:.1f} s"]
    lines += [f"inputs that are made up: {', '.join(call.made_up)}"] * bool(call.made_up)
    lines += [described_in_words(name, array) for name, array in call.results.items()]
    lines += [] if call.seconds is None else [f"a call takes {time_text(call.seconds)}"]
    return Result(report, lines)


def best_schedule(database: Database, mod: IRModule, target: codegen.Target) -> IRModule:
    """Return the program as the best schedule of a database makes it; TuningError without one."""
    found = find_schedule(database, mod.prim_func(entry_name(mod)), target)
    if found is None:
        raise TuningError(
            f"{database.place} has no schedule of {entry_name(mod)} for {target}: `tensorir db "
            "list DATABASE` says what it has"
        )
    return found.schedule.mod
