"""Records that are kept in a working directory besides being sent to a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from search.database.json_database import RECORD_FILE, JSONDatabase
from search.database.module_equality import ModuleEquality
from search.database.records import TuningRecord

LEFT: Final = "not_entered"


class KeptRecords:
    """The records of a working directory, and in `not_entered` those that a server has not taken.

    Both are databases of JSON lines.
    """

    def __init__(self, path: Path, module_equality: str | ModuleEquality) -> None:
        self.path = path
        self.left = path / LEFT
        self._equality = module_equality
        self._all: JSONDatabase | None = None

    def keep(self, record: TuningRecord) -> None:
        """Add a record to those of the directory."""
        if self._all is None:
            self._all = JSONDatabase(work_dir=self.path, module_equality=self._equality)
        _add(self._all, record)

    def leave(self, record: TuningRecord) -> None:
        """Add a record to those that a server has not taken."""
        _add(JSONDatabase(work_dir=self.left, module_equality=self._equality), record)

    def enter(self, commit: Callable[[Sequence[TuningRecord]], None]) -> int:
        """Give `commit` all records that a server has not taken; return how many there were.

        If it raises, they stay. Processes that share the directory do not enter the same ones: one
        waits for the other. Where a process is killed between, they are entered once more, as
        copies, which count once.
        """
        if not self._are_left():
            return 0
        found: list[TuningRecord] = []

        def choose(records: list[TuningRecord]) -> list[TuningRecord]:
            found.extend(records)
            commit(records)
            return []

        JSONDatabase(work_dir=self.left, module_equality=self._equality).retain(choose)
        return len(found)

    def what_is_left(self) -> str:
        """Return what becomes of the records that a server has not taken, nothing without any."""
        if not self._are_left():
            return ""
        return f"; what was measured since is kept in {self.left}, to be entered by the next run"

    def _are_left(self) -> bool:
        file = self.left / RECORD_FILE
        return file.exists() and file.stat().st_size > 0


def _add(database: JSONDatabase, record: TuningRecord) -> None:
    database.commit_workload(record.workload.mod)
    database.commit_tuning_record(record)
