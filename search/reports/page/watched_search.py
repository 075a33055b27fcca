"""What the files of a working directory say now, read again as they grow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from search.database import Database, JSONDatabase, TuningRecord, database_in
from search.database.best_records import winner_first
from search.database.line_store import LineStore
from search.database.programs import keyed_records
from search.errors import DatabaseError
from search.options import UNLIMITED
from search.reports.page.winners import ShownWinner, Winner, winner_of
from search.reports.report import TaskReport
from search.reports.run_directory import REPORTS, TASKS, TRIALS
from search.reports.tasks import Tasks, TaskTrials
from search.reports.trial import Trial
from search.runs.run_journal import RunJournal

_MOST_WINNERS: Final = 24
_MOST_LETTERS: Final = 400_000
"""Of programs and traces together; highlighted they take some four times as many bytes."""


class WatchedSearch:
    """The trials, tasks and winners of a working directory.

    `catch_up` reads what was written since the last time; nothing is ever written. What cannot be
    read is left out, and `notes` says so. Winners come from the database in the directory, or from
    the one that is given.
    """

    def __init__(self, work_dir: str | os.PathLike[str], database: Database | None = None) -> None:
        self.folder = Path(work_dir)
        self._given = database
        self._begin()

    def _begin(self) -> None:
        self.tasks = Tasks()
        self._store = LineStore(self.folder)
        self._database: Database | None = None
        self._count = 0
        """The number of records of the database when it was looked at last."""
        self._records: dict[tuple[str, str], list[TuningRecord]] = {}
        self._winners: dict[int, tuple[Any, Winner | None]] = {}
        """The winners by the numbers of tasks, each with what tells its record from others."""
        self._unreadable: dict[str, str] = {}

    def catch_up(self) -> bool:
        """Read what was written; return False if a file was replaced, so that all begins anew.

        DatabaseError for a file of trials that is none or cannot be read.
        """
        try:
            new = self._store.latest(TRIALS, len(self.trials))
        except DatabaseError:
            if not self.trials:
                raise
            self._begin()
            self.catch_up()
            return False
        self._know("tasks", lambda: self._store.latest(TASKS))
        self._know("reports", lambda: self._store.latest(REPORTS))
        self.tasks.add(new)
        return True

    @property
    def trials(self) -> Sequence[Trial]:
        """The trials that were read so far."""
        return self.tasks.trials

    def _know(self, what: str, read: Callable[[], Iterable[TaskReport]]) -> None:
        try:
            self._unreadable.pop(what, None)
            self.tasks.know(read())
        except DatabaseError as error:
            self._unreadable[what] = str(error)

    @property
    def notes(self) -> list[str]:
        """What a reader has to know of what is missing, in sentences."""
        left_out, name = self._store.left_out(TRIALS), TRIALS.file
        lines = "1 line could" if left_out == 1 else f"{left_out} lines could"
        said = [f"{lines} not be read in {name}."] if left_out else []
        return [*said, *self._unreadable.values()]

    @property
    def asked(self) -> int | None:
        """The trials that the unfinished run of the directory is to make; None without one."""
        asked = [plan.get("max_trials_global") for plan in RunJournal(self.folder).others()]
        known = [count for count in asked if isinstance(count, int) and 0 < count < UNLIMITED]
        return max(known, default=None)

    @property
    def is_unfinished(self) -> bool:
        """True while a run goes on, and where one was interrupted."""
        return bool(RunJournal(self.folder).others())

    def winners(self, wanted: Sequence[TaskTrials] | None = None) -> dict[int, ShownWinner]:
        """Return the winners of some tasks by their numbers.

        These are the ones that are wanted, or those in which most of the time of a call goes, as
        many as a page has room for.
        """
        database = self._opened()
        if database is None:
            return {}
        if self._count != len(database):
            self._records = {}
            for key, record in keyed_records(database):
                self._records.setdefault((key, str(record.target)), []).append(record)
            self._count = len(database)
        found: dict[int, ShownWinner] = {}
        letters = 0
        for task in self.tasks.largest(_MOST_WINNERS) if wanted is None else wanted:
            if task.best is None or (winner := self._winner(task)) is None:
                continue
            letters += len(winner.original) + len(winner.program) + len(winner.trace)
            if wanted is None and found and letters > _MOST_LETTERS:
                break
            found[task.number] = ShownWinner(winner, task)
        return found

    def _winner(self, task: TaskTrials) -> Winner | None:
        records = winner_first(self._records.get((task.known.workload, task.known.target), ()))
        first = [(one.trace_key, one.run_secs) for one in records[:1]]
        known = self._winners.get(task.number)
        if known is None or known[0] != first:
            known = self._winners[task.number] = (first, winner_of(records))
        return known[1]

    def _opened(self) -> Database | None:
        try:
            if self._given is not None:
                self._database = self._given
            elif self._database is None:
                self._database = database_in(self.folder)
            if isinstance(self._database, JSONDatabase):
                self._database.refresh()
            self._unreadable.pop("database", None)
        except DatabaseError as error:
            self._unreadable["database"] = str(error)
            self._database = None
        return self._database
