"""`explore`: the trials of a run as points of their design spaces, each of which can be opened."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, zip_longest
from typing import Final

from schedule import Schedule
from search.arg_info import entry_name
from search.database import Database, database_at, database_in
from search.database.best_records import usable
from search.database.programs import programs_in
from search.database.records import TuningRecord
from search.errors import ArgumentError
from search.explorer.component import Component, packed
from search.explorer.explorer import Explorer
from search.explorer.points import MOST_POINTS, points_of
from search.explorer.program_view import Data
from search.reports.run_directory import load_run, named_trials, records_of_trials
from search.reports.table import RunTable
from search.reports.tasks import TaskTrials
from search.reports.trial import Trial
from search.runner.time_call import time_text
from tensorir.paths import PathLike, as_path

_MOST_SCHEDULES: Final = 6
"""The maximum number of schedules in a page."""
_MOST_TEXT: Final = 500_000
"""The number of characters of schedules in a page from which on no further one is added."""


def explorer_of(record: TuningRecord) -> Explorer:
    """Return an explorer of the schedule of a record, with its time.

    Raises TensorIRError if the trace does not apply to the program any more.
    """
    sch = Schedule(record.workload.mod)
    trace = record.trace.simplified(remove_postproc=False)
    trace.apply_to_schedule(sch, remove_postproc=False)
    explorer = Explorer(sch, record.target, entry_name(record.workload.mod))
    if record.median_seconds is not None:
        explorer.measured[explorer.program()] = record.median_seconds
    return explorer


class RunExplorer(Component):
    """The trials of a run as points of their design spaces, which a notebook shows.

        ms.explore("tuned").save("x.html")

    Each trial is a line through its time, its predicted score and its decisions. A range of an axis
    filters the trials, and a click on a trial opens its schedule in an `Explorer`. A page has the
    schedules of the fastest few. Programs come from `database`: a database, or a directory, file or
    URL of one; by default the database in `work_dir`. Raises DatabaseError if there are no trials.
    """

    scripts = ("elements.js", "explorer.js", "points.js")
    styles = ("theme.css", "explorer.css", "points.css")

    def __init__(self, work_dir: PathLike, database: PathLike | Database | None = None) -> None:
        self.folder = as_path(work_dir, "work_dir")
        self.title = f"Trials in {self.folder.resolve().name or self.folder}"
        run = load_run(work_dir)
        found = None if database is None else database_at(database)
        found = database_in(work_dir) if found is None else found
        records = records_of_trials(run.trials, [] if found is None else programs_in(found))
        trials = list(named_trials(run.trials, records))
        self.run = RunTable(trials, run.by_task.known)
        """The trials, with their decisions by name."""
        self._records = {id(trial): one for trial, one in zip(trials, records, strict=True) if one}
        self.opened: Explorer | None = None
        """The schedule that was opened last."""

    def _record(self, trial: Trial) -> TuningRecord:
        if id(trial) not in self._records:
            why = f"it failed in {trial.stage}" if trial.failed else "its program is unknown"
            raise ArgumentError(
                f"trial {trial.number} of {trial.task} has no record in the database of "
                f"{self.folder}: {why}; open another trial"
            )
        return self._records[id(trial)]

    # ---------------------------------------------------------------------------------------- data

    def data(self, *, whole: bool = False) -> Data:
        """Return what is drawn, as data for JSON.

        `tasks`, the most expensive first, have a `number`, a `label`, the number of the trial that
        is the `winner` if it was measured again, and `spaces`: a `label`, what `points_of` returns,
        and by trial the `number`, the `place` in the task, and the `stage`. With `whole`,
        `schedules` has the packed data of explorers by task and place.
        """
        tasks = [task for task in self.run.by_task.largest() if task.trials]
        return {
            "title": self.title,
            "tasks": [
                {
                    "number": task.number,
                    "label": self.run.labels[task.number],
                    "winner": task.report.winner if task.report.rounds else None,
                    "spaces": list(_spaces(task)),
                }
                for task in tasks
            ],
            "schedules": self._schedules(tasks) if whole else {},
        }

    def _schedules(self, tasks: list[TaskTrials]) -> dict[str, str]:
        """Return the packed data of the schedules of a page: the fastest of each task in turn."""
        rankings = [[(task, place) for place in _fastest_first(task)] for task in tasks]
        schedules: dict[str, str] = {}
        for task, place in filter(None, chain.from_iterable(zip_longest(*rankings))):
            record = self._records.get(id(task.trials[place]))
            for _, explorer in usable([record] if record else [], explorer_of):
                data = packed(explorer.data(whole=True, brief=True))
                if sum(map(len, schedules.values())) + len(data) <= _MOST_TEXT:
                    schedules[f"{task.number}/{place}"] = data
            if len(schedules) == _MOST_SCHEDULES:
                break
        return schedules

    # ----------------------------------------------------------------------------------- answering

    def answer(self, request: Data) -> Data:
        """Perform a request of the browser.

        `{"do": "open", "task": k, "place": p}` opens trial number p of task k; the answer has
        `data` of an `Explorer`. Other requests are those of the opened `Explorer`.
        """
        if request.get("do") == "open":
            trials = self.run.by_task[int(request["task"])].trials
            self.opened = explorer_of(self._record(trials[int(request["place"])]))
            return {"data": self.opened.data()}
        if self.opened is None:
            raise ArgumentError("no trial is open; open one first")
        return self.opened.answer(request)

    def __repr__(self) -> str:
        tasks = len(self.run.tasks)
        return f"<RunExplorer of {len(self.run)} trials of {tasks} task{'s' * (tasks != 1)}>"


explore = RunExplorer
"""`ms.explore(work_dir)` explores a run as `sch.explore()` explores a schedule."""


def _fastest_first(task: TaskTrials) -> list[int]:
    """Return the places of the trials of a task: measured, stopped and failed ones, by time."""
    keys = [(t.seconds is None, t.failed, t.seconds or t.slower_than or 0.0) for t in task.trials]
    return sorted(range(len(keys)), key=keys.__getitem__)


def _spaces(task: TaskTrials) -> Iterator[Data]:
    """Yield the data of the design spaces of a task, that of the fastest trial first."""
    spaces: dict[int | None, list[int]] = {}
    for place in _fastest_first(task):
        spaces.setdefault(task.trials[place].space, []).append(place)
    for space, places in spaces.items():
        trials = [task.trials[place] for place in places[:MOST_POINTS]]
        drawn = f", the fastest {MOST_POINTS:,} shown" * (len(places) > MOST_POINTS)
        best = f", best {time_text(trials[0].seconds)}" if trials[0].seconds else ""
        yield {
            "label": f"design space {space}: {len(places):,} tried{drawn}{best}",
            **points_of(trials),
            "place": places[:MOST_POINTS],
            "number": [trial.number for trial in trials],
            "stage": [trial.stage for trial in trials],
        }
