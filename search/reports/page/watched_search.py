"""The files of a working directory, read again as they grow: trials, tasks and winners."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

from search.database import Database, JSONDatabase, TuningRecord, database_at, database_in
from search.database.best_records import usable, winner_first
from search.database.line_store import LineStore
from search.database.programs import programs_in
from search.errors import DatabaseError, NoDatabaseError
from search.explorer.component import packed
from search.explorer.explorer import Explorer
from search.explorer.run_explorer import explorer_of
from search.reports.run_directory import REPORTS, TASKS, TRIALS, knobs_of
from search.reports.tasks import Tasks, TaskTrials
from search.reports.trial import Trial
from search.runs.run_journal import RunJournal
from search.space_generator.design_space import DesignSpace
from tensorir.paths import PathLike, as_path

_MOST_WINNERS: Final = 24


class WatchedSearch:
    """The trials, tasks and winners of a working directory.

    `catch_up` reads the new lines of the files and writes nothing. Files that cannot be read are
    skipped, and `notes` names them. Winners come from `database`, by default the database in the
    directory. Raises NoDatabaseError if the directory does not exist.
    """

    def __init__(self, work_dir: PathLike, database: PathLike | Database | None = None) -> None:
        self.folder = as_path(work_dir, "work_dir")
        if not self.folder.is_dir():
            what = "it is a file" if self.folder.exists() else "it does not exist"
            raise NoDatabaseError(
                f"{self.folder} is not a directory: {what}; give the work_dir of a search"
            )
        self._given = None if database is None else database_at(database)
        self._begin()
        self.catch_up()

    def _begin(self) -> None:
        self.tasks = Tasks()
        self.plans: list[dict[str, Any]] = []
        """The plans of the unfinished runs in the directory."""
        self._store = LineStore(self.folder)
        self._database = self._given
        self._records: dict[tuple[str, str], list[TuningRecord]] = {}
        self._count = 0
        """The number of records in `_records`."""
        self._winners: dict[int, tuple[Any, Winner | None]] = {}
        """The winners by the numbers of tasks, each with the identity of its record."""
        self._unreadable: dict[str, str] = {}

    @property
    def title(self) -> str:
        """The title of the page."""
        return f"Search in {self.folder.resolve().name or self.folder}"

    @property
    def trials(self) -> Sequence[Trial]:
        """The trials read so far."""
        return self.tasks.trials

    @property
    def notes(self) -> list[str]:
        """A sentence for each file that could not be read completely."""
        count = self._store.left_out(TRIALS)
        lines = "1 line" if count == 1 else f"{count} lines"
        skipped = [f"{lines} could not be read in {TRIALS.file}."] if count else []
        return [*skipped, *self._unreadable.values()]

    def catch_up(self) -> bool:
        """Read the new lines; return False if a file was replaced and all were read again.

        Raises DatabaseError if the file of trials is not a file of trials or cannot be read.
        """
        try:
            new = self._store.latest(TRIALS, len(self.trials))
        except DatabaseError:
            if not self.trials:
                raise
            self._begin()
            self.catch_up()
            return False
        for kind in (TASKS, REPORTS):
            with self._record_failure(kind.file):
                self.tasks.set_reports(self._store.latest(kind))
        self.tasks.add(new)
        self.plans = RunJournal(self.folder).others()
        return True

    @contextmanager
    def _record_failure(self, what: str) -> Iterator[None]:
        try:
            yield
            self._unreadable.pop(what, None)
        except DatabaseError as error:
            self._unreadable[what] = str(error)

    def shown_tasks(self, wanted: Sequence[TaskTrials] | None = None) -> list[ShownTask]:
        """Return all tasks, with the winners of the wanted tasks.

        By default the most expensive tasks are wanted.
        """
        self._read_records()
        wanted = self.tasks.largest(_MOST_WINNERS) if wanted is None else wanted
        numbers = {task.number for task in wanted if task.best is not None}
        return [
            _shown_task(one, self._winner(one) if one.number in numbers else None)
            for one in self.tasks
        ]

    def _read_records(self) -> None:
        with self._record_failure("database"):
            if self._database is None:
                self._database = database_in(self.folder)
            if isinstance(self._database, JSONDatabase):
                self._database.refresh()
            count = 0 if self._database is None else len(self._database)
            if self._database is not None and count != self._count:
                groups = programs_in(self._database)
                self._records = {(one.key, one.target): one.records for one in groups}
                self._count = count

    def _winner(self, task: TaskTrials) -> Winner | None:
        records = winner_first(self._records.get((task.known.workload, task.known.target), ()))
        first = [(one.trace_key, one.run_secs) for one in records[:1]]
        if task.number not in self._winners or self._winners[task.number][0] != first:
            found = next((Winner(one) for _, one in usable(records, explorer_of)), None)
            self._winners[task.number] = (first, found)
        return self._winners[task.number][1]


class Winner:
    """The best schedule of a task."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer = packed(explorer.data(whole=True, brief=True))
        """The data of the explorer of the schedule, compressed."""
        space = DesignSpace.of(explorer.sch)
        self.sites = space.knobs
        self.point = [list(one) if isinstance(one, tuple) else one for one in space.decisions]
        """The decisions, in the form of `Trial.decisions`."""


class ShownTask(NamedTuple):
    """A task and its winner, with named decisions in one design space."""

    task: TaskTrials
    winner: Winner | None
    space: int | None
    """The number of the design space: of the winner, otherwise of the first trial that has one."""
    trials: list[Trial]
    """The trials of the task, with names of decisions in that design space."""


def _shown_task(task: TaskTrials, winner: Winner | None) -> ShownTask:
    point, sites = (winner.point, winner.sites) if winner else (None, ())
    same = (one for one in task.trials if point is None or one.decisions == point)
    space = next((one.space for one in same if one.space is not None), None)
    trials = [
        replace(one, knobs=knobs_of(sites, one)) if one.space == space else one
        for one in task.trials
    ]
    return ShownTask(task, winner, space, trials)
