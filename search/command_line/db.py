"""Look at the records of searches, check them and bring them together.

A database is the directory of a search, a file of SQLite (.sqlite), a file of records as JSON
lines (.json), or a URL, as in postgresql+psycopg://host/name.

    tensorir db list tuned

    tensorir db merge tuned other --into all.sqlite
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from search.command_line.files import read_program
from search.command_line.options import database_of
from search.command_line.result import Code, Part, Result, Table, count_text, microseconds, say
from search.compat.auto_scheduler.explain import StepsLog
from search.compat.auto_scheduler.history import from_database, to_database
from search.compat.auto_scheduler.records import distill_record_file
from search.compat.auto_scheduler.workloads import register_program
from search.compat.autotvm.log_format import TemplateLog
from search.compat.autotvm.record import pick_best
from search.database import Database, KeyedDatabase, MemoryDatabase, merge_into, programs_in
from search.errors import ArgumentError, TuningError
from search.runner.time_call import time_text
from search.task import normalize_mod

_PLACE: Final = "A directory of a search, a file (.sqlite, .json), or a URL."


def _place(metavar: str, help: str = _PLACE) -> Any:
    return typer.Argument(metavar=metavar, help=help)


def _option(*name: str, metavar: str, help: str) -> Any:
    return typer.Option(*name, metavar=metavar, help=help)


Place = Annotated[str, _place("DATABASE")]
Sources = Annotated[
    list[str], _place("DATABASE...", "Directories of searches, files or URLs; they are unchanged.")
]
Destination = Annotated[
    str, _place("DESTINATION", "A directory, a file (.sqlite, .json) or a URL; the log with --log.")
]
Numbers = Annotated[
    list[int] | None,
    _option(
        "--number",
        metavar="NUMBER",
        help="Only this program, as `tensorir db list` numbers them; may be repeated.",
    ),
]
Save = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Write the program and trace of each there, as program0.py and trace0.json.",
        file_okay=False,
    ),
]
Run = Annotated[
    bool, typer.Option("--run", help="Build and run the records, too, and compare their times.")
]
Factor = Annotated[
    float, typer.Option(min=1.0, help="The largest accepted ratio of a time to the recorded one.")
]
Into = Annotated[str, _option(metavar="DATABASE", help="The database that gets the records.")]
Keep = Annotated[
    int, typer.Option(min=1, help="How many records of each program and target to keep.")
]
Output = Annotated[
    str | None,
    _option(
        metavar="DATABASE",
        help="The database to write them to; without it the database itself is pruned.",
    ),
]
AsLog = Annotated[
    bool, typer.Option("--log", help="Append to a log of Ansor, in which traces are steps.")
]
Programs = Annotated[
    list[str] | None,
    _option(
        "--program",
        metavar="PROGRAM",
        help="A program with records in the log, which contains only its hash; may be repeated.",
    ),
]


def list_programs(database: Place) -> Result:
    """List the programs of a database with their best times.

    The best record of a program and target is the winner of a search, or the fastest. Builds use
    it.

        tensorir db list tuned
    """
    found = database_of(database)
    known = [{"number": k, **one.as_json()} for k, one in enumerate(programs_in(found))]
    rows = [(*(str(one[name]) for name in _LISTED), microseconds(one["seconds"])) for one in known]
    programs = count_text(len({one["workload"] for one in known}), "program")
    lines = f"{found.place}: {count_text(len(found), 'record')} of {programs}"
    table = Table(("Number", "Program", "Target", "Measured", "Valid", "Best (us)"), rows)
    report = {"database": _place_shown(database, found), "records": len(found), "programs": known}
    return Result(report, [lines, table] if rows else [lines])


_LISTED: Final = ("number", "program", "target", "candidates", "valid")


def best(database: Place, number: Numbers = None, save: Save = None) -> Result:
    """Print the best trace of each program, or save it.

    A saved trace can be replayed: tensorir replay best/trace0.json best/program0.py.

        tensorir db best tuned --save best
    """
    found = database_of(database)
    known = programs_in(found)
    if not known:
        raise TuningError(f"{found.place} has no records")
    parts: list[Part] = []
    rows = []
    for place in number or range(len(known)):
        if not 0 <= place < len(known):
            raise ArgumentError(
                f"{database} has no program {place}: `tensorir db list {database}` numbers its "
                f"{len(known)} from 0"
            )
        one = known[place]
        row = {"number": place, **one.as_json()}
        rows.append(row)
        title = f"{one.program} for {one.target}: "
        if one.best is None:
            parts.append(f"{title}no candidate ran")
            continue
        trace = one.best.trace
        stored = f" ({one.best.place})" if one.best.place else ""
        parts.append(f"{title}{time_text(one.best.median_seconds or 0.0)}{stored}")
        if save is None:
            parts.append(Code(trace.script()))
            row["trace"] = trace.as_json()
        else:
            save.mkdir(parents=True, exist_ok=True)
            program, saved = save / f"program{place}.py", save / f"trace{place}.json"
            program.write_text(one.workload.script + "\n", encoding="utf-8")
            trace.save(saved)
            row.update(program_file=str(program), trace_file=str(saved))
            parts.append(f"    tensorir replay {saved} {program}")
    return Result({"database": _place_shown(database, found), "best": rows}, parts)


def validate(database: Place, run: Run = False, factor: Factor = 1.5) -> Result:
    """Replay every record, and list the faults.

    With --run the valid ones are built and run as well, on this machine: their results are compared
    with those of the unscheduled program, and their times with the recorded ones. The exit code is
    1 if a record fails. The database is not changed.

        tensorir db validate tuned
    """
    found = database_of(database)
    say(f"replaying {count_text(len(found), 'record')}")
    findings = found.validate(runner="local" if run else None, factor=factor)
    summary = (
        f"{count_text(findings.checked, 'record')} replayed, {findings.measured} run: "
        f"{count_text(len(findings), 'fault')}"
    )
    heading, *rows = findings.rows()
    report = {
        "database": _place_shown(database, found),
        "replayed": findings.checked,
        "run": findings.measured,
        "faults": [asdict(finding) for finding in findings],
    }
    parts: list[Part] = [summary, Table(heading, rows)] if rows else [summary]
    return Result(report, parts, exit_code=min(1, len(rows)))


def merge(sources: Sources, into: Into) -> Result:
    """Add the records of databases to another one.

    The other one is created if it is new. Records that it has already are not added again, so a
    merge may be repeated.

        tensorir db merge tuned other --into all.sqlite
    """
    opened = [database_of(source) for source in sources]
    destination = database_of(into, may_be_new=True)
    added = merge_into(destination, opened)
    known = sum(map(len, opened)) - added
    report = {
        "added": added,
        "known": known,
        "database": _place_shown(into, destination),
        "records": len(destination),
    }
    there = f"; it had {known} of the others already" if known else ""
    line = (
        f"{count_text(added, 'record')} added to {destination.place}, which has {len(destination)}"
    )
    return Result(report, [line + there])


def prune(database: Place, keep: Keep = 1, output: Output = None) -> Result:
    """Keep only the best records.

    They are the best of each program and target. With --output the database is unchanged. Logs of
    AutoTVM and Ansor are pruned into another log, whose records compete with them.

        tensorir db prune tuned --keep 4 --output best.sqlite
    """
    kind = _log_kind(database)
    if kind is not None:
        if output is None or keep != 1:
            raise ArgumentError(
                f"{database} is a log of {kind}: the best record of each task goes to another log: "
                "--output FILE"
            )
        reduce = pick_best if kind == "AutoTVM" else distill_record_file
        with open(database, encoding="utf-8", errors="replace") as lines:
            before = sum(1 for _ in lines)
        kept, path, place = reduce(database, output), output, output
    else:
        found = destination = database_of(database)
        before = len(found)
        if output is not None:
            destination = database_of(output, may_be_new=True)
            best = MemoryDatabase(found.module_equality)
            found.dump_pruned(best, keep)
            merge_into(destination, [best])
        elif isinstance(found, KeyedDatabase):
            found.prune(keep)
        else:
            raise ArgumentError(f"{found.place} cannot be pruned itself: give --output DATABASE")
        kept, place = len(destination), destination.place
        path = _place_shown(output or database, destination)
    report = {"before": before, "records": kept, "database": path}
    return Result(report, [f"{place} has {count_text(kept, 'record')}, the best of {before}"])


def convert(
    source: Place, destination: Destination, log: AsLog = False, program: Programs = None
) -> Result:
    """Copy records to a database or a log of another kind.

    Records that the destination has already are not added again. A log of Ansor contains only the
    hashes of programs: to read one, name the programs. The configurations in a log of AutoTVM
    depend on templates, which are Python, so such logs are not converted.

        tensorir db convert tuned tuned.sqlite

        tensorir db convert tuned tuned.log --log
    """
    for path in program or ():
        (func,) = normalize_mod(read_program(path)).prim_funcs().values()
        register_program(func)
    found = _open(source)
    if log:
        there = Path(destination)
        is_used = there.exists() and (there.is_dir() or there.stat().st_size)
        if is_used and _log_kind(destination) != "Ansor":
            raise ArgumentError(
                f"{destination} exists and is not a log of Ansor: name another file"
            )
        added, place = from_database(found, destination), destination
        written = destination
    else:
        opened = database_of(destination, may_be_new=True)
        added, place = merge_into(opened, [found]), opened.place
        written = _place_shown(destination, opened)
    report = {"records": len(found), "added": added, "destination": written}
    origin = _place_shown(source, found)
    return Result(
        report, [f"{count_text(added, 'record')} of {len(found)} from {origin} added to {place}"]
    )


COMMANDS: Final[dict[str, Callable[..., Result]]] = {
    "list": list_programs,
    "best": best,
    "validate": validate,
    "merge": merge,
    "prune": prune,
    "convert": convert,
}


def _place_shown(given: str, database: Database) -> str:
    """Return the name of a database in a result: as it was given, a URL without its password."""
    return database.place if "://" in given else given


def _log_kind(path: str) -> str | None:
    """Return `"AutoTVM"` or `"Ansor"` for a log of that tool, None for anything else."""
    place = Path(path)
    if not place.is_file():
        return None
    if TemplateLog().recognises(place):
        return "AutoTVM"
    return "Ansor" if StepsLog().recognises(place) else None


def _open(source: str) -> Database:
    kind = _log_kind(source)
    if kind is None:
        return database_of(source)
    if kind == "AutoTVM":
        raise ArgumentError(
            f"{source} is a log of AutoTVM, which cannot be converted: its configurations need "
            "Python templates; `tensorir explain` reads it, and `db prune` keeps its best records"
        )
    found = to_database(source, MemoryDatabase())
    if not len(found):
        raise ArgumentError(
            f"{source} has no record of a known program: name the programs by --program FILE; if "
            "they are Python functions, convert the log in Python: "
            "search.compat.auto_scheduler.to_database(log)"
        )
    return found
