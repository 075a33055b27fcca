"""`tensorir db list`: the programs that a database has records of."""

from __future__ import annotations

from search.command_line.db.arguments import Place, named
from search.command_line.options import database_of
from search.command_line.result import Result, Table, counted, microseconds
from search.database import programs_in


def list(database: Place) -> Result:
    """List the programs that a database has records of, for each target, and the best time.

    The best is the record that builds take: the winner that a search named, or the fastest.

        tensorir db list tuned
    """
    found = database_of(database)
    known = programs_in(found)
    rows = [
        (
            str(number),
            one.program,
            one.target,
            str(one.as_json()["candidates"]),
            str(one.as_json()["valid"]),
            microseconds(one.as_json()["seconds"]),
        )
        for number, one in enumerate(known)
    ]
    programs = counted(len({one.key for one in known}), "program")
    lines = f"{found.place}: {counted(len(found), 'record')} of {programs}"
    table = Table(("Number", "Program", "Target", "Measured", "Valid", "Best (us)"), rows)
    report = {
        "database": named(database, found),
        "records": len(found),
        "programs": [{"number": k, **one.as_json()} for k, one in enumerate(known)],
    }
    return Result(report, [lines, table] if rows else [lines])
