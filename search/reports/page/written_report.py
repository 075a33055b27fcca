"""The report of a search as a file: one HTML page that needs no network."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from search.database import Database, database_at
from search.errors import ArgumentError, DatabaseError, NoDatabaseError
from search.kinds import nearest
from search.reports.page.page import page
from search.reports.page.watched_search import WatchedSearch
from search.reports.tasks import TaskTrials
from tensorir.replaced_file import replaced_file

REPORT_FILE: Final = "report.html"
_SMALL: Final = 2_000_000
"""The letters up to which a page is shown inside of a notebook."""


@dataclass(frozen=True)
class Report:
    """A report that was written; it stands for its path, and a notebook shows it."""

    path: Path
    trials: int
    """The number of trials in it."""

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def __str__(self) -> str:
        return str(self.path)

    def _repr_html_(self) -> str:
        link = f'<a href="{html.escape(str(self.path))}">{html.escape(str(self.path))}</a>'
        try:
            text = self.path.read_text(encoding="utf-8")
        except OSError:
            return link
        if len(text) > _SMALL:
            return f"<p>{link}</p>"
        # The page may do nothing in the notebook around it but run its own script.
        return (
            f'<p>{link}</p><iframe sandbox="allow-scripts" title="report" srcdoc="'
            f'{html.escape(text)}" style="width:100%;height:40em;border:1px solid #8888"></iframe>'
        )


def report(
    work_dir: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    tasks: Sequence[str] | None = None,
    database: str | Database | None = None,
) -> Report:
    """Write the report of a search, and return where it is.

        print(search.report("./tune_tmp"))

    The page has the tasks and where the time of a call goes, the best over time, decisions against
    time, predictions against measurements, failures, and programs, traces and explanations of the
    winners. It is one file, `report.html` in `work_dir` or `output`, and needs no network. A search
    may be running, or have been interrupted; nothing of it is changed.

    Programs and traces come from the database in `work_dir`, or from `database`: one that is given
    itself, or a directory, a file or a URL. They are shown of the tasks in which most of the time
    of a call goes, or of those that `tasks` names.

    DatabaseError where no run left trials or the file of trials is none, ArgumentError for an
    unknown task, OSError if the page cannot be written.
    """
    search = read_search(work_dir, database)
    if not search.trials:
        raise DatabaseError(
            f"there are no trials in {search.folder}: give the work_dir of a search, as in "
            f'tune_tir(..., work_dir="{search.folder}")'
        )
    winners = search.winners(None if tasks is None else _named(search, tasks))
    path = search.folder / REPORT_FILE if output is None else Path(output)
    text = page(search, winners, title=title_of(search))
    with replaced_file(path) as file:
        file.write(text.encode(errors="replace"))
    return Report(path, len(search.trials))


def read_search(
    work_dir: str | os.PathLike[str], database: str | Database | None = None
) -> WatchedSearch:
    """Return what a working directory has now; DatabaseError if there is no such directory."""
    folder = Path(work_dir)
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "is not there"
        raise NoDatabaseError(f"{folder} {what}: give the directory that a search works in")
    records = database_at(database) if isinstance(database, str) else database
    search = WatchedSearch(folder, records)
    search.catch_up()
    return search


def title_of(search: WatchedSearch) -> str:
    """Return the title of the page."""
    return f"Search in {search.folder.resolve().name or search.folder}"


def _named(search: WatchedSearch, names: Sequence[str]) -> list[TaskTrials]:
    known = {label: task for task in search.tasks for label in (task.label, task.known.task)}
    for name in names:
        if name not in known:
            raise ArgumentError(
                f"there is no task {name!r} in {search.folder}{nearest(name, list(known))}"
            )
    return [known[name] for name in dict.fromkeys(names)]
