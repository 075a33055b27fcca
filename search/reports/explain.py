"""The explanation of the logs of any tool."""

from __future__ import annotations

import os
from pathlib import Path

import search.compat.auto_scheduler.explain
import search.compat.autotvm.log_format
import search.reports.run_directory  # noqa: F401 - it defines a format
from search.errors import TuningError
from search.reports.explanation import LogExplanation
from search.reports.log_format import LogFormat


def is_log(path: str | os.PathLike[str]) -> bool:
    """Return True if an existing path is a log of a known format."""
    return any(kind().recognises(Path(path)) for kind in LogFormat.known)


def explain(path: str | os.PathLike[str]) -> LogExplanation:
    """Return the explanation of a working directory, or of a log of any known `LogFormat`.

    It has the times before and after the search, the influence of each decision (`LogExplanation`
    describes the method), failures and their reasons, where time went, and what to try next, each
    with its figures. It prints; in a notebook it shows tables. `.table()` has the trials, `.plot()`
    draws them, `.as_json()` returns plain data. At most a thousand programs are replayed for their
    resources.

    OSError if the path does not exist, DatabaseError for a directory without trials, TuningError
    for a log without records or of an unknown format.
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
    raise TuningError(f"{os.fspath(path)} has no known format of logs; known are {known}")
