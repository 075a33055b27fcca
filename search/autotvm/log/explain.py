"""The explanation of a log, or of the directory of a run."""

from __future__ import annotations

import math
import os
from pathlib import Path

from search.autotvm.errors import TemplateError
from search.autotvm.log.line import fields_of_record
from search.autotvm.log.rows import records_to_table
from search.autotvm.record import Record, load_from_buffer
from search.database.json_database import RECORD_FILE, WORKLOAD_FILE
from search.database.sql_database import SQL_FILE
from search.explanation.explanation import MOST_PROGRAMS, LogExplanation
from search.explanation.run import fields_of_trial
from search.records.record_lines import CountedLines
from search.runs.trials import TRIALS_FILE, load_run


def explain_log(path: str | os.PathLike[str]) -> LogExplanation:
    """Return the explanation of a log, or of the working directory of a `tune_tir` run.

    It prints; in a notebook it shows tables. `.table()` are the measurements, `.plot()` is a
    picture. Templates that are registered here tell what the log does not: see `records_to_table`.
    Of a log of more than a thousand measurements, programs are made for a thousand of them.

    OSError for a log that cannot be opened, DatabaseError for a directory without trials,
    TemplateError for a log in which no line is a record.
    """
    if Path(path).is_dir():
        run = load_run(path)
        table = records_to_table(path, MOST_PROGRAMS)
        if not run.trials:
            raise TemplateError(f"no run left trials in {os.fspath(path)}")
        best = min(run.trials, key=lambda t: (t.seconds is None, t.seconds))
        row = table[run.trials.index(best)]
        decided = {name: row[name] for name in table.knobs if row[name] is not None}
        return LogExplanation(path, table, fields_of_trial(best, decided), 0)
    records: list[Record] = []
    fastest, least = "", math.inf
    with open(os.fspath(path), encoding="utf-8", errors="replace") as file:
        lines = CountedLines(file)
        for record in load_from_buffer(lines):
            records.append(record)
            cost = record[1].mean_cost
            if not fastest or cost < least:
                fastest, least, taken_apart = lines.last, cost, record
    if not records:
        of_run = Path(path).name in (TRIALS_FILE, RECORD_FILE, WORKLOAD_FILE, SQL_FILE)
        hint = f"; it is a file of a run, explain its directory {Path(path).parent}"
        raise TemplateError(f"no line of {os.fspath(path)} is a record{hint if of_run else ''}")
    return LogExplanation(
        path,
        records_to_table(records, MOST_PROGRAMS),
        fields_of_record(fastest, *taken_apart),
        lines.count - len(records),
    )
