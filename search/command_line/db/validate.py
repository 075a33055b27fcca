"""`tensorir db validate`: whether the records of a database still hold."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from search.command_line.db.arguments import Place, named
from search.command_line.options import database_of
from search.command_line.result import Result, Table, counted, say

Run = Annotated[
    bool, typer.Option("--run", help="Build and run the records, too, and compare their times.")
]
Factor = Annotated[
    float, typer.Option(min=1.0, help="By how much a time may differ from the recorded one.")
]


def validate(database: Place, run: Run = False, factor: Factor = 1.5) -> Result:
    """Replay every record of a database on its program, and name those that do not hold.

    With --run those that are valid are built and run as well, on this machine: their results are
    compared with those of the unscheduled program, and their times with the recorded ones. It ends
    with 1 if a record does not hold. The database is not changed.

        tensorir db validate tuned
    """
    found = database_of(database)
    say(f"replaying {counted(len(found), 'record')}")
    findings = found.validate(runner="local" if run else None, factor=factor)
    summary = (
        f"{counted(findings.checked, 'record')} replayed, {findings.measured} run: "
        f"{counted(len(findings), 'fault')}"
    )
    rows = [
        (
            "" if f.number is None else str(f.number),
            f.kind,
            f.workload,
            f.text.strip().partition("\n")[0],
        )
        for f in findings
    ]
    table = Table(("Record", "Fault", "Program", "What is wrong"), rows)
    report = {
        "database": named(database, found),
        "replayed": findings.checked,
        "run": findings.measured,
        "faults": [asdict(finding) for finding in findings],
    }
    return Result(report, [summary, table] if rows else [summary], exit_code=min(1, len(rows)))
