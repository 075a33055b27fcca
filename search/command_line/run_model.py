"""A model is built and called once for its results, and some times more for its speed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import codegen
from search.command_line.input_files import (
    described,
    described_in_words,
    given_arrays,
    save_arrays,
)
from search.command_line.result import Result, say
from search.database import Database
from search.models.model_arrays import Array, arrays_in, random_inputs
from search.runner.time_text import time_text
from tensorir.function import IRModule
from tensorir.relax.function import Function


def run_model(
    path: str,
    mod: IRModule,
    target: codegen.Target,
    database: Database | None,
    inputs: Sequence[str],
    output: str | None,
    repeat: int,
    profile: bool,
) -> Result:
    """Build a module with a graph function `main` and call it; times are seconds.

    `inputs` are those of `--input`, others are made up. TuningError for names that there are not.
    """
    main = mod["main"]
    assert isinstance(main, Function)
    given = given_arrays(inputs, [param.name for param in main.params], "model")
    arguments = random_inputs("main", main, given)
    say("building; kernels without a record get schedules that are made now")
    start = time.monotonic()
    executable = codegen.vm_build(mod, target, database=database)
    built = time.monotonic() - start
    machine = codegen.VirtualMachine(executable)
    results = [_as_numpy(array) for array in arrays_in(machine["main"](*arguments.values()))]
    named = {f"output_{k}": array for k, array in enumerate(results)}
    if output is not None:
        save_arrays(output, named)
    seconds = None
    if repeat > 0:
        seconds = machine.time_evaluator("main", number=repeat)(*arguments.values()).mean
    made_up = [name for name in arguments if name not in given]
    report: dict[str, Any] = {
        "program": path,
        "build_seconds": built,
        "call_seconds": seconds,
        "made_up_inputs": made_up,
        "outputs": [described(array) for array in results],
    }
    lines = [f"{path}: built in {built:.1f} s"]
    lines += [f"inputs that are made up: {', '.join(made_up)}"] * bool(made_up)
    lines += [described_in_words(f"output {k}", array) for k, array in enumerate(results)]
    lines += [] if seconds is None else [f"a call takes {time_text(seconds)}"]
    if profile:
        shown = str(machine.profile("main", *arguments.values()))
        report["profile"] = shown
        lines.append(shown)
    return Result(report, lines)


def _as_numpy(array: Array) -> NDArray[Any]:
    if isinstance(array, codegen.BFloat16Array):
        return array.astype(np.float32)  # a file of NumPy's has no bfloat16
    return array
