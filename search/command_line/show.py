"""`tensorir show`: a program, a trace, design spaces, or the best programs of a search."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from search.command_line.files import is_model, is_trace_file, read_program, read_trace
from search.command_line.options import Shape, Target, database_of, target_of
from search.command_line.result import Code, Part, Result, count_text
from search.context import design_spaces
from search.database import programs_in
from search.errors import ArgumentError
from search.models.extract_tasks import extract_tasks
from search.runner.time_call import time_text
from tensorir.dialect import Dialect
from tensorir.function import IRModule

Shown = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="A script (matmul.py, or matmul.py:NAME), a model, a trace, or the directory of a "
        "search.",
    ),
]
Space = Annotated[
    bool,
    typer.Option("--space", help="Show the schedules from which a search of the program chooses."),
]
Traces = Annotated[
    bool, typer.Option("--trace", help="Show the best traces of a search, not its programs.")
]
Form = Annotated[
    Dialect, typer.Option(metavar="DIALECT", help="The form of scripts: tensorir or tvm.")
]


def show(
    file: Shown,
    space: Space = False,
    trace: Traces = False,
    target: Target = None,
    shape: Shape = None,
    dialect: Form = "tensorir",
) -> Result:
    """Show a program, a trace, the design spaces of a program, or the best programs of a search.

    Programs and traces are printed as Python that runs when it is pasted.

        tensorir show matmul.py --space

        tensorir show trace.json

        tensorir show tuned --trace
    """
    if space:
        return _show_spaces(file, read_program(file, shape), target)
    if is_trace_file(file):
        found = read_trace(file)
        script = found.script(dialect=dialect)
        report = {"file": file, "kind": "trace", "script": script, "trace": found.as_json()}
        return Result(report, [Code(script)])
    if Path(file).is_dir() or Path(file).suffix in (".sqlite", ".db"):
        return _show_search(file, trace, dialect)
    if trace:
        raise ArgumentError(f"--trace is for the directory of a search, which {file} is not")
    script = read_program(file, shape).script(dialect=dialect)
    return Result({"file": file, "kind": "program", "script": script}, [Code(script)])


def _show_spaces(file: str, mod: IRModule, target: str | None) -> Result:
    chosen = target_of(target)
    if is_model(mod) or len(mod.prim_funcs()) > 1:
        programs = {task.task_name: task.mod for task in extract_tasks(mod, chosen)}
    else:
        programs = {"": mod}
    parts: list[Part] = []
    report: list[dict[str, Any]] = []
    for name, program in programs.items():
        spaces = design_spaces(program, chosen)
        if name:
            parts.append(f"{name}: {count_text(len(spaces), 'space')}")
        for one in spaces:
            parts += [str(one), ""]
            sites = [{"name": site.name, "alternatives": site.size} for site in one.knobs]
            report.append({"program": name or file, "points": one.num_points, "decisions": sites})
    return Result({"file": file, "kind": "space", "spaces": report}, parts[:-1])


def _show_search(place: str, traces: bool, dialect: Dialect) -> Result:
    parts: list[Part] = []
    report = []
    for one in programs_in(database_of(place)):
        title = f"# {one.program} for {one.target}: "
        if one.best is None:
            parts.append(f"{title}no candidate ran")
            continue
        script = (one.best.trace if traces else one.best.schedule().mod).script(dialect=dialect)
        parts += [f"{title}{time_text(one.best.median_seconds or 0.0)}", Code(script)]
        report.append({**one.as_json(), "script": script})
    return Result({"file": place, "kind": "search", "programs": report}, parts)
