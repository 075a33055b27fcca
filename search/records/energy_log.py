"""The joules of trials, beside a database, which has their seconds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from search.database.growing_file import GrowingFile, is_number, json_line, json_of
from search.errors import DatabaseError

ENERGY_FILE: Final = "tuning_energy.json"


class EnergyLog:
    """The file `tuning_energy.json` in a working directory: `[run_secs, joules]` on each line.

    The seconds of its runs are what a record is found by: two records hardly ever have the same.
    """

    def __init__(self, work_dir: str | os.PathLike[str]) -> None:
        self.path = Path(work_dir) / ENERGY_FILE
        self._file = GrowingFile(self.path, b"[")
        self._joules: dict[tuple[float, ...], float] = {}
        if self.path.exists():
            self._file.catch_up(lambda line: self._enter(json_of(line.text)))

    def append(self, run_secs: Sequence[float], joules: float) -> None:
        """Add the joules per call of what took so many seconds; DatabaseError if it cannot."""
        with self._file.appending(lambda line: self._enter(json_of(line.text))):
            self._file.append([json_line([[float(s) for s in run_secs], float(joules)])])
        self._joules[tuple(run_secs)] = joules

    def joules(self, run_secs: Sequence[float]) -> float | None:
        """Return the joules per call of what took so many seconds, None if they are not known."""
        return self._joules.get(tuple(run_secs))

    def _enter(self, row: Any) -> None:
        known = isinstance(row, list) and len(row) == 2 and isinstance(row[0], list)
        if not known or not all(map(is_number, (*row[0], row[1]))):
            raise DatabaseError("an energy is [run_secs, joules]")
        self._joules[tuple(map(float, row[0]))] = float(row[1])
