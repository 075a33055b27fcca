"""`tensorir replay`: a saved trace is applied to a program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from schedule import Schedule, Trace
from search.command_line.kernel_call import call_kernel
from search.command_line.options import Program, Target, check_output, target_of
from search.command_line.program_files import is_model, program_file
from search.command_line.result import Code, Part, Result, say
from search.command_line.trace_files import read_trace
from search.errors import ArgumentError
from search.runner.time_text import speed_text, time_text
from search.task import normalize_mod
from tensorir.errors import noting

TracePath = Annotated[
    str,
    typer.Argument(
        metavar="TRACE",
        help="A trace, as Trace.save or `tensorir db best --save` wrote it, or as it is printed.",
        show_default=False,
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.py", help="Where to write the program as it is then.", show_default=False
    ),
]
Build = Annotated[
    bool, typer.Option("--build", help="Build it, and time it beside the program as it was.")
]


def replay(
    trace: TracePath,
    program: Program,
    build: Build = False,
    target: Target = None,
    output: Output = None,
) -> Result:
    """Apply a saved trace to a program, and print the program as it is then.

    With --build both are built and timed, on the same made-up arguments.

        tensorir replay trace.json matmul.py --build
    """
    file = program_file(program)
    chosen = target_of(target)
    check_output(output)
    recorded = read_trace(trace)
    mod = file.read()
    if is_model(mod):
        raise ArgumentError(f"{program} is a model; a trace is of one program")
    if "main" in _functions_named(recorded) and "main" not in mod:
        mod = normalize_mod(mod)  # a search calls its program so
    sch = Schedule(mod)
    with noting(f"It was replayed from {trace} on {program}."):
        recorded.apply_to_schedule(sch, remove_postproc=False)
    script = sch.mod.script()
    report: dict[str, Any] = {"trace": trace, "program": program, "script": script}
    parts: list[Part] = [Code(script)]
    if output is not None:
        Path(output).write_text(script + "\n", encoding="utf-8")
        parts = [f"the scheduled program is in {output}"]
    if build:
        say("building and timing the program as it was, and as it is")
        before = call_kernel(mod, mod, chosen, repeat=10).seconds
        after = call_kernel(mod, sch.mod, chosen, repeat=10).seconds
        report.update(seconds=after, unscheduled_seconds=before)
        assert before is not None
        assert after is not None
        parts.append(
            f"# {time_text(after)} per call, {time_text(before)} unscheduled: "
            f"{speed_text(before, after)}"
        )
    return Result(report, parts)


def _functions_named(trace: Trace) -> set[str]:
    """Return the names of the functions in which a trace looks for blocks."""
    return {
        str(value)
        for inst in trace.insts
        for param, value in zip(inst.kind.params, inst.values, strict=True)
        if param.name == "func_name"
    }
