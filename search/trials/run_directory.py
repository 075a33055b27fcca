"""The directory of a run of `tune_tir` and its like: a line for each trial, and for each report."""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from schedule import Schedule
from search.analysis.resources import resources_of
from search.database.best_records import usable, with_traces
from search.database.growing_file import GrowingFile, Line, json_line, json_of
from search.database.in_directory import database_in
from search.errors import DatabaseError, TuningError
from search.measuring.flops import estimate_tir_flops
from search.spaces.decision_site import decision_columns, sites_of
from search.spaces.design_space import DesignSpace
from search.trials.log_format import (
    MOST_PROGRAMS,
    Field,
    Log,
    LogFormat,
    meaning_of_costs,
    spread_out,
    utc,
)
from search.trials.report import TaskReport, program_of
from search.trials.table import RunTable
from search.trials.task_list import TaskList
from search.trials.trial import MEANINGS, Trial

if TYPE_CHECKING:
    from search.database import TuningRecord
    from search.spaces.decision_site import Site

TRIALS_FILE: Final = "tuning_trials.json"
REPORTS_FILE: Final = "tuning_reports.json"


class TrialLog:
    """The file `tuning_trials.json` in a working directory: one trial on a line, only growing.

    A trial is handed to the system at once, so a process that is killed loses at most the line
    being written. Several processes may write; each waits for the lock of the file.
    """

    def __init__(self, work_dir: str | os.PathLike[str]) -> None:
        self.path = Path(work_dir) / TRIALS_FILE
        self.left_out = 0
        """The number of lines read that are no trials; one that is being written does not count."""
        self._file = GrowingFile(self.path, b"{")

    def append(self, trial: Trial) -> None:
        """Add a trial. DatabaseError if the file cannot be written."""
        with self._file.appending(lambda line: None):
            self._file.append([json_line(trial.as_json())])

    def read(self) -> list[Trial]:
        """Return all trials; lines that are none are left out, and one warning names them."""
        self._file = GrowingFile(self.path, b"{")
        self.left_out = 0
        return self.read_new()

    def read_new(self) -> list[Trial]:
        """Return the trials that were written since the last time; see `read`.

        One who reads like this does not `append`, which passes over what others wrote.
        DatabaseError for a file that was replaced meanwhile: `read` begins anew.
        """
        trials: list[Trial] = []

        def take(line: Line) -> None:
            try:
                trials.append(Trial.from_json(json_of(line.text)))
            except DatabaseError:
                self.left_out += line.is_ended
                raise

        self._file.catch_up(take)
        return trials


class ReportLog:
    """The file `tuning_reports.json` in a working directory, beside the one of `TrialLog`.

    It has a line for each task of each run that came to its end.
    """

    def __init__(self, work_dir: str | os.PathLike[str]) -> None:
        self.path = Path(work_dir) / REPORTS_FILE
        self._file = GrowingFile(self.path, b"{")

    def append(self, report: TaskReport) -> None:
        """Add a report. DatabaseError if the file cannot be written."""
        with self._file.appending(lambda line: None):
            self._file.append([json_line(report.as_json())])

    def read(self) -> list[TaskReport]:
        """Return all reports, oldest first; lines that are none are left out, and a warning says
        which."""
        reports: list[TaskReport] = []
        if self.path.exists():
            GrowingFile(self.path, b"{").catch_up(
                lambda line: reports.append(TaskReport.from_json(json_of(line.text)))
            )
        return reports


def load_run(work_dir: str | os.PathLike[str]) -> RunTable:
    """Return the trials that the runs in a working directory left, and what came out of them.

    `.report` of the table says of each task what `best.report` does. DatabaseError if there are no
    trials. Lines that are none are left out, with a warning.
    """
    log = TrialLog(work_dir)
    if not log.path.exists():
        raise DatabaseError(f"no run left trials in {work_dir}: there is no file {log.path}")
    reports = [
        TaskReport(one.task, one.target, one.workload, one.weight)
        for one in TaskList(work_dir).read()
    ]
    return RunTable(log.read(), [*reports, *ReportLog(work_dir).read()])


class RunDirectory(LogFormat):
    """The working directory of a run, with a JSON or an SQL database or none."""

    def recognises(self, path: Path) -> bool:
        """Say whether it is a directory."""
        return path.is_dir()

    def read(self, path: Path) -> Log:
        """Return the trials of the runs in it, with what the database says of their programs."""
        run = load_run(path)
        if not run.trials:
            raise TuningError(f"no run left trials in {path}")
        trials = known_trials(path, MOST_PROGRAMS, run.trials)
        report = run.report
        largest = max(report, key=lambda one: (one.best or 0.0) * one.weight)
        shown = [t for t in trials if program_of(t) == program_of(largest)] or trials
        won = [trial for trial in shown if trial.number == largest.winner and largest.rounds]
        best = min(won or shown, key=lambda trial: (trial.seconds is None, trial.seconds))
        return Log(trials, fields_of_trial(best), reports=report.tasks)


def known_trials(
    work_dir: Path, resources: bool | int, trials: Sequence[Trial] | None = None
) -> list[Trial]:
    """Return the trials of a run with knobs, operations, and resources of so many.

    Names and programs come from the database in the directory; without one, they are not known.
    `trials` are those of the directory, where they were read before.
    """
    if trials is None:
        trials = load_run(work_dir).trials
    made = spread_out(len(trials), resources)
    return list(_with_programs(work_dir, trials, made))


def _with_programs(
    work_dir: Path, trials: Sequence[Trial], made: Container[int]
) -> Iterator[Trial]:
    records: dict[str, TuningRecord] = {}
    flops: dict[str, float] = {}
    sites: dict[tuple[str, int | None], tuple[Site, ...]] = {}
    database = database_in(work_dir)
    for record, trace in with_traces(database.get_all_tuning_records() if database else ()):
        assert database is not None
        workload = database.workload_key(record.workload.mod)
        if workload not in flops:
            flops[workload] = estimate_tir_flops(record.workload.mod)
        drawn = trace.simplified(remove_postproc=True)
        decisions = [one.decision_in(drawn.decisions, one.inst) for one in sites_of(drawn.insts)]
        records[_key(workload, decisions, record.run_secs or ())] = record
    programs = [records.get(_key(t.workload, t.decisions, t.run_secs)) for t in trials]
    for trial, program in zip(trials, programs, strict=True):
        space = (trial.workload, trial.space)
        if space not in sites and (sch := _replayed(program)):
            sites[space] = DesignSpace.of(sch).sites
    for place, (trial, program) in enumerate(zip(trials, programs, strict=True)):
        known = sites.get((trial.workload, trial.space), ())
        sch = _replayed(program) if place in made else None
        yield replace(
            trial,
            knobs=dict(decision_columns(known, trial.decisions or ())),
            flop=flops.get(trial.workload),
            resources=None if sch is None else resources_of(sch.mod),
        )


def _replayed(record: TuningRecord | None) -> Schedule | None:
    """Return the schedule of a record, None for one whose trace does not apply any more."""

    def schedule(record: TuningRecord) -> Schedule:
        sch = Schedule(record.workload.mod, seed=1, error_render_level="none")
        record.trace.apply_to_schedule(sch, remove_postproc=False)
        return sch

    found = usable([] if record is None else [record], schedule)
    return next((sch for _, sch in found), None)


def _key(workload: str, decisions: Any, run_secs: Sequence[float]) -> str:
    """Return a text that tells a trial from those of other programs with the same decisions."""
    return json.dumps([workload, decisions, list(run_secs)])


def fields_of_trial(trial: Trial) -> list[Field]:
    """Return the fields of the line of a trial, with what they mean."""
    chosen = (f"{name} = {value}" for name, value in trial.knobs.items() if value is not None)
    meanings = {
        **MEANINGS,
        "run_secs": meaning_of_costs(trial, ()),
        "time": f"when it ended: {utc(trial.time)}",
        "decisions": f"{MEANINGS['decisions']}: {', '.join(chosen)}",
    }
    row = trial.as_json()
    return [Field(name, json.dumps(row[name]), meaning) for name, meaning in meanings.items()]
