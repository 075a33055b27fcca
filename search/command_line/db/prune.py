"""`tensorir db prune`: the best records only."""

from __future__ import annotations

from typing import Annotated

import typer

from search.command_line.db.arguments import Place, named
from search.command_line.db.logs import log_kind
from search.command_line.options import database_of
from search.command_line.result import Result, counted
from search.compat.auto_scheduler.records import distill_record_file
from search.compat.autotvm.record import pick_best
from search.database import KeyedDatabase, MemoryDatabase, merge_into
from search.errors import ArgumentError

Keep = Annotated[
    int, typer.Option(min=1, help="How many records of each program and target to keep.")
]
Output = Annotated[
    str | None,
    typer.Option(
        metavar="DATABASE",
        help="Where to write them; without it the database is pruned itself.",
        show_default=False,
    ),
]


def prune(database: Place, keep: Keep = 1, output: Output = None) -> Result:
    """Keep the best records of each program and target, and drop the others.

    With --output the database is left as it is. Logs of AutoTVM and Ansor are pruned into another
    log, in which records that it has already compete.

        tensorir db prune tuned --keep 4 --output best.sqlite
    """
    kind = log_kind(database)
    if kind is not None:
        return _pruned_log(database, kind, keep, output)
    found = database_of(database)
    before = len(found)
    if output is not None:
        destination = database_of(output, may_be_new=True)
        best = MemoryDatabase(found.module_equality)
        found.dump_pruned(best, keep)
        merge_into(destination, [best])
        return _result(before, len(destination), named(output, destination), destination.place)
    if not isinstance(found, KeyedDatabase):
        raise ArgumentError(f"{found.place} cannot be pruned itself: give --output DATABASE")
    found.prune(keep)
    return _result(before, len(found), named(database, found), found.place)


def _pruned_log(log: str, kind: str, keep: int, output: str | None) -> Result:
    if output is None or keep != 1:
        raise ArgumentError(
            f"{log} is a log of {kind}: its best records, one of each task, go to another log: "
            "--output FILE"
        )
    reduce = pick_best if kind == "AutoTVM" else distill_record_file
    with open(log, encoding="utf-8", errors="replace") as lines:
        before = sum(1 for _ in lines)
    return _result(before, reduce(log, output), output, output)


def _result(before: int, kept: int, path: str, place: str) -> Result:
    report = {"before": before, "records": kept, "database": path}
    return Result(report, [f"{place} has {counted(kept, 'record')}, the best of {before}"])
