"""`tensorir explain`: why a kernel is slow, what a trace does, what a search found."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import codegen
from schedule import Trace
from search.command_line.files import is_model, is_trace_file, read_program, read_trace
from search.command_line.options import (
    DatabasePlace,
    Shape,
    Target,
    WorkDir,
    database_of,
    target_of,
)
from search.command_line.result import Part, Result, Table
from search.command_line.run import best_schedule
from search.errors import ArgumentError
from search.kinds import suggestion
from search.models.extract_tasks import extract_tasks
from search.reports.explain import explain as explain_log
from search.reports.explain import is_log
from search.task import normalize_mod
from tensorir.function import IRModule

Explained = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="A script with a program, a model, a trace, a log of AutoTVM or Ansor, or the "
        "directory of a search.",
    ),
]
Only = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The kernel of a model to explain."),
]


def explain(
    file: Explained,
    target: Target = None,
    work_dir: WorkDir = None,
    database: DatabasePlace = None,
    only: Only = None,
    shape: Shape = None,
) -> Result:
    """Explain why a kernel is slow, what the steps of a trace do, or what a search has found.

    For a program it prints what each loop, accumulator and access becomes when it is compiled; with
    the directory of a search, for its best schedule. For a search or a log it prints which
    decisions mattered, what failed, and where the time went.

        tensorir explain matmul.py --work-dir tuned

        tensorir explain tuned

        tensorir explain trace.json
    """
    is_trace = is_trace_file(file)
    is_search = not is_trace and Path(file).exists() and is_log(file)
    if only is not None and (is_trace or is_search):
        raise ArgumentError(
            f"--only is for models; {file} is a {'trace' if is_trace else 'search'}"
        )
    if is_trace:
        return _explain_trace(file, read_trace(file))
    if is_search:
        return _explain_log(file)
    mod = read_program(file, shape)
    chosen = target_of(target)
    if is_model(mod):
        mod = _kernel(file, mod, chosen, only)
    elif only is not None:
        raise ArgumentError(f"--only is for models; {file} is a program")
    place = database or work_dir
    if place is not None:
        mod = best_schedule(database_of(place), normalize_mod(mod), chosen)
    explanation = codegen.explain(mod, chosen)
    report = {
        "file": file,
        "kind": "kernel",
        "target": str(explanation.target),
        **{
            name: [asdict(fact) for fact in getattr(explanation, name)]
            for name in ("loops", "accumulators", "accesses", "inner_loops")
        },
    }
    return Result(report, [str(explanation)])


def _kernel(file: str, mod: IRModule, target: codegen.Target, only: str | None) -> IRModule:
    tasks = {name: task for task in extract_tasks(mod, target) for name in task.names}
    names = ", ".join(tasks)
    if only is None:
        raise ArgumentError(
            f"{file} is a model: name the kernel to explain by --only NAME; it has {names}"
        )
    if only not in tasks:
        raise ArgumentError(
            f"{file} has no kernel {only!r}; it has {names}{suggestion(only, tasks)}"
        )
    return tasks[only].mod


def _explain_log(file: str) -> Result:
    explanation = explain_log(file)
    sections = list(explanation.sections())
    parts: list[Part] = [explanation.heading]
    parts += [Table(rows[0], rows[1:], title) for title, rows in sections]
    report = {
        "file": file,
        "kind": "log",
        "heading": explanation.heading,
        "sections": [
            {"title": title, "rows": [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]}
            for title, rows in sections
        ],
    }
    return Result(report, parts)


def _explain_trace(file: str, trace: Trace) -> Result:
    """Return the call of each instruction of a trace, and what it does."""
    steps = [
        {"number": k, "instruction": inst.kind.name, "call": call, "does": inst.kind.summary}
        for k, (inst, call) in enumerate(zip(trace.insts, trace.as_python(), strict=True))
    ]
    rows = [(str(one["number"]), str(one["call"]), str(one["does"])) for one in steps]
    report = {"file": file, "kind": "trace", "instructions": steps}
    return Result(report, [Table(("Number", "Call", "What it does"), rows)])
