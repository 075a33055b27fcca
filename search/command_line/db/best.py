"""`tensorir db best`: the best schedule of each program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from search.command_line.db.arguments import Numbers, Place, chosen, named
from search.command_line.options import database_of
from search.command_line.result import Code, Part, Result
from search.database import programs_in
from search.errors import TuningError
from search.runner.time_text import time_text

Save = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Write program and trace of each there, as program0.py and trace0.json.",
        show_default=False,
    ),
]


def best(database: Place, number: Numbers = None, save: Save = None) -> Result:
    """Print the trace of the best schedule of each program, or save program and trace.

    What is saved can be replayed: tensorir replay best/trace0.json best/program0.py.

        tensorir db best tuned --save best
    """
    found = database_of(database)
    known = programs_in(found)
    parts: list[Part] = []
    rows = []
    for one in chosen(known, number, database):
        if one.best is None:
            parts.append(f"{one.program} for {one.target}: no candidate ran")
            rows.append(one.as_json())
            continue
        trace = one.best.trace
        row = {"number": known.index(one), **one.as_json()}
        parts.append(
            f"{one.program} for {one.target}: {time_text(one.best.median_seconds or 0.0)}"
            + (f" ({one.best.place})" if one.best.place else "")
        )
        if save is None:
            parts.append(Code(trace.script()))
            row["trace"] = trace.as_json()
        else:
            folder = Path(save)
            folder.mkdir(parents=True, exist_ok=True)
            program = folder / f"program{row['number']}.py"
            program.write_text(one.workload.script + "\n", encoding="utf-8")
            saved = folder / f"trace{row['number']}.json"
            trace.save(saved)
            row.update(program_file=str(program), trace_file=str(saved))
            parts.append(f"    tensorir replay {saved} {program}")
        rows.append(row)
    if not rows:
        raise TuningError(f"{found.place} has no records")
    return Result({"database": named(database, found), "best": rows}, parts)
