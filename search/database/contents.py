"""What is in a database: its programs and targets, and the best time of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from search.database.best_records import winner_first
from search.measuring.time_text import time_text

if TYPE_CHECKING:
    from search.database.database import Database
    from search.database.records import TuningRecord

Rows = list[tuple[str, ...]]

_MOST: Final = 20
"""The programs that are listed; the others are counted."""
_TOO_MANY: Final = 50_000
"""Records from which on a database is not read for a look at it."""


def contents(database: Database) -> Rows:
    """Return a heading and a row of texts for each program and target, in order of their commit."""
    rows: Rows = [("program", "target", "records", "failed", "best")]
    if len(database) > _TOO_MANY:
        return [*rows, ("", "", str(len(database)), "", "too many to look at")]
    groups: dict[tuple[str, str], list[TuningRecord]] = {}
    for record in database.get_all_tuning_records():
        groups.setdefault((str(record.workload), str(record.target or "")), []).append(record)
    for (program, target), records in list(groups.items())[:_MOST]:
        best = next((one.median_seconds for one in winner_first(records)), None)
        failed = sum(not one.is_valid and one.bound_seconds is None for one in records)
        time = "none" if best is None else time_text(best)
        rows.append((program, target, str(len(records)), str(failed), time))
    if len(groups) > _MOST:
        rows.append((f"and {len(groups) - _MOST} more", "", "", "", ""))
    return rows
