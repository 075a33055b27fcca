"""The explanation of any log, whichever tool wrote it."""

from __future__ import annotations

import os
from pathlib import Path

import search.compat.auto_scheduler.explain
import search.compat.autotvm.log_format
import search.reports.run_directory  # noqa: F401 - formats are known once they are defined
from search.errors import TuningError
from search.reports.explanation import LogExplanation
from search.reports.log_format import LogFormat


def is_log(path: str | os.PathLike[str]) -> bool:
    """Say whether a path, at which something is, is a log of a known format: `explain` reads it."""
    return any(kind().recognises(Path(path)) for kind in LogFormat.known)


def explain(path: str | os.PathLike[str]) -> LogExplanation:
    """Return the explanation of a log: of a working directory, of AutoTVM or Ansor, or one's own.

    It says what was before and is after, which decisions mattered and how much (`LogExplanation`
    says by which method), what failed and why, where time went, and what to try next, each with the
    figures that it rests on. It prints; in a notebook it shows tables. `.table()` are the trials,
    `.plot()` is a picture, `.as_json()` plain data.

    Formats are those of `LogFormat`. Of a log of more than a thousand trials, programs are made
    for a thousand of them.

    OSError for a path where nothing is, DatabaseError for a directory without trials, TuningError
    for a log in which no line is a record, or whose format nobody knows.
    """
    place = Path(path)
    place.stat()
    for kind in LogFormat.known:
        if (found := kind()).recognises(place):
            log = found.read(place)
            if not log.trials:
                raise TuningError(f"there are no trials in {os.fspath(path)}")
            return LogExplanation(path, log)
    known = ", ".join(sorted(kind.__name__ for kind in LogFormat.known))
    raise TuningError(f"{os.fspath(path)} is no log of a known format; those are {known}")
