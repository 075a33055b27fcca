"""What the files of a working directory say now, read again as they grow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from search.database import Database, JSONDatabase, database_in
from search.errors import DatabaseError
from search.report_page.searched_tasks import SearchedTask, SearchedTasks
from search.report_page.winners import ShownWinner, Winner, Winners, winner_of
from search.runs.run_journal import RunJournal
from search.trials.run_directory import ReportLog, TrialLog
from search.trials.task_list import TaskList
from search.trials.trial import Trial
from search.tune_config import UNLIMITED

_MOST_WINNERS: Final = 24
_MOST_LETTERS: Final = 400_000
"""Of programs and traces together; highlighted they take some four times as many bytes."""


@dataclass
class _Known:
    """The winner of a task as it was when the database had so many records."""

    winner: Winner | None
    first: Sequence[Any]
    """What tells its record from others."""
    count: int = 0


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
        self.trials: list[Trial] = []
        self.tasks = SearchedTasks()
        self.start = 0.0
        """When the first trial began, in seconds since 1970."""
        self._log = TrialLog(self.folder)
        self._list = TaskList(self.folder)
        self._reports = ReportLog(self.folder)
        self._reports_read = 0
        """The bytes that the file of reports had when it was read."""
        self._database: Database | None = None
        self._winners: dict[int, _Known] = {}
        self._unreadable: dict[str, str] = {}

    def catch_up(self) -> bool:
        """Read what was written; return False if a file was replaced, so that all begins anew.

        DatabaseError for a file of trials that is none or cannot be read.
        """
        try:
            new = self._log.read_new()
        except DatabaseError:
            if not self.trials:
                raise
            self._begin()
            self.catch_up()
            return False
        try:
            self._unreadable.pop("tasks", None)
            self.tasks.list(self._list.read())
        except DatabaseError as error:
            self._unreadable["tasks"] = str(error)
        try:
            self._unreadable.pop("reports", None)
            if (size := _size(self._reports.path)) != self._reports_read:
                self.tasks.report(self._reports.read())
                self._reports_read = size
        except DatabaseError as error:
            self._unreadable["reports"] = str(error)
        if new and not self.trials:
            self.start = min(trial.time - trial.spent for trial in new)
        self.trials += new
        self.tasks.add(new)
        return True

    @property
    def notes(self) -> list[str]:
        """What a reader has to know of what is missing, in sentences."""
        left_out, name = self._log.left_out, self._log.path.name
        lines = "1 line could" if left_out == 1 else f"{left_out} lines could"
        said = [f"{lines} not be read in {name}."] if left_out else []
        return [*said, *self._unreadable.values()]

    @property
    def seconds(self) -> float:
        """The time from the start of the first trial to the end of the last one."""
        return max((trial.time for trial in self.trials), default=self.start) - self.start

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

    def winners(self, wanted: Sequence[SearchedTask] | None = None) -> dict[int, ShownWinner]:
        """Return the winners of some tasks by their numbers.

        These are the ones that are wanted, or those in which most of the time of a call goes, as
        many as a page has room for.
        """
        database = self._opened()
        if database is None:
            return {}
        numbers = {id(task): number for number, task in enumerate(self.tasks.all)}
        winners: Winners | None = None
        found: dict[int, ShownWinner] = {}
        letters = 0
        chosen = self.tasks.largest(_MOST_WINNERS) if wanted is None else wanted
        for task in chosen:
            if task.best is None:
                continue
            number = numbers[id(task)]
            known = self._winners.get(number)
            if known is None or known.count != len(database):
                winners = Winners(database) if winners is None else winners
                records = winners.records(task)
                first = [(one.trace_key, one.run_secs) for one in records[:1]]
                if known is None or known.first != first:
                    known = _Known(winner_of(records), first)
                self._winners[number] = known
                known.count = len(database)
            if (winner := known.winner) is None:
                continue
            letters += len(winner.original) + len(winner.program) + len(winner.trace)
            if wanted is None and found and letters > _MOST_LETTERS:
                break
            found[number] = ShownWinner.of(winner, task)
        return found

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


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
