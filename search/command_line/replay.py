"""`tensorir replay`: apply a saved trace to a program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from schedule import Schedule
from search.command_line.files import is_model, read_program, read_trace
from search.command_line.options import Program, Target, output_file, target_of
from search.command_line.result import Code, Part, Result, say
from search.command_line.run import call_kernel
from search.errors import ArgumentError
from search.runner.time_text import speed_text, time_text
from search.task import normalize_mod
from tensorir.errors import noting

TracePath = Annotated[
    Path,
    typer.Argument(
        metavar="TRACE",
        help="A trace, as Trace.save or `tensorir db best --save` wrote it, or as it is printed.",
        exists=True,
        dir_okay=False,
    ),
]
Output = Annotated[Path | None, output_file("FILE.py", "The file for the scheduled program.")]
Build = Annotated[
    bool, typer.Option("--build", help="Build and time the program, scheduled and unscheduled.")
]


def replay(
    trace: TracePath,
    program: Program,
    build: Build = False,
    target: Target = None,
    output: Output = None,
) -> Result:
    """Apply a saved trace to a program, and print the scheduled program.

    With --build it is timed before and after, with the same random arguments.

        tensorir replay trace.json matmul.py --build
    """
    chosen = target_of(target)
    recorded = read_trace(trace)
    mod = read_program(program)
    if is_model(mod):
        raise ArgumentError(f"{program} is a model; a trace is of one program")
    functions = {
        value
        for inst in recorded.insts
        for param, value in zip(inst.kind.params, inst.values, strict=True)
        if param.name == "func_name"
    }
    if "main" in functions and "main" not in mod:
        mod = normalize_mod(mod)  # the name that a search gives its program
    sch = Schedule(mod)
    with noting(f"It was replayed from {trace} on {program}."):
        recorded.apply_to_schedule(sch, remove_postproc=False)
    script = sch.mod.script()
    report: dict[str, Any] = {"trace": str(trace), "program": program, "script": script}
    parts: list[Part] = [Code(script)]
    if output is not None:
        output.write_text(script + "\n", encoding="utf-8")
        parts = [f"the scheduled program is in {output}"]
    if build:
        say("building and timing the unscheduled and the scheduled program")
        before = call_kernel(mod, mod, chosen, repeat=10).seconds or 0.0
        after = call_kernel(mod, sch.mod, chosen, repeat=10).seconds or 0.0
        report.update(seconds=after, unscheduled_seconds=before)
        parts.append(
            f"# {time_text(after)} per call, {time_text(before)} unscheduled: "
            f"{speed_text(before, after)}"
        )
    return Result(report, parts)
