"""The working directory of a run: its trials, its tasks and the reports of tasks."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from search.database.best_records import with_schedules, with_traces
from search.database.keyed_database import database_in
from search.database.line_store import LineStore
from search.database.programs import ProgramRecords, programs_in
from search.database.records import FAILED
from search.database.store import Kind
from search.errors import DatabaseError, TuningError
from search.reports.log_format import (
    MOST_PROGRAMS,
    Field,
    Log,
    LogFormat,
    meaning_of_costs,
    spread_out,
    utc,
)
from search.reports.report import TaskReport
from search.reports.resources import resources_of
from search.reports.table import RunTable
from search.reports.tasks import program_of
from search.reports.trial import MEANINGS, Trial, read_fields
from search.runner.flops import estimate_tir_flops
from search.space_generator.design_space import DesignSpace
from search.space_generator.knobs import decision_columns, knobs_in

if TYPE_CHECKING:
    from schedule import Schedule
    from search.database import TuningRecord
    from search.space_generator.knobs import Knob


_LISTED: Final = ("task", "workload", "target", "weight")
"""The known fields of a task before its search."""

TRIALS: Final = Kind("tuning_trials.json", Trial.from_json, Trial.as_json)
"""All trials of the runs in a directory."""
REPORTS: Final = Kind("tuning_reports.json", TaskReport.from_json, TaskReport.as_json)
"""The report of each task by each complete run."""
TASKS: Final = Kind(
    "tuning_tasks.json",
    lambda obj: TaskReport(**read_fields(TaskReport, obj, _LISTED)),
    lambda one: {name: getattr(one, name) for name in _LISTED},
)
"""The tasks of the runs in a directory; the last line of a task counts."""


def listed_tasks(store: LineStore) -> list[TaskReport]:
    """Return the tasks of a directory with their last weights."""
    return list({program_of(one): one for one in store.latest(TASKS)}.values())


def add_tasks(store: LineStore, tasks: Iterable[TaskReport]) -> None:
    """Add the tasks that are new in a directory or have new weights."""
    known = listed_tasks(store)
    store.add(TASKS, *(one for one in tasks if one not in known))


def load_run(work_dir: str | os.PathLike[str]) -> RunTable:
    """Return the trials of the runs in a working directory, and the reports of their tasks.

    `.report` of the table has the report of each task, as `best.report`. Invalid lines are skipped
    with a warning. Raises DatabaseError if there are no trials.
    """
    store = LineStore(work_dir)
    if not store.path(TRIALS).exists():
        raise DatabaseError(
            f"no run left trials in {work_dir}: the file {store.path(TRIALS)} is missing"
        )
    return RunTable(store.latest(TRIALS), [*store.latest(TASKS), *store.latest(REPORTS)])


class RunDirectory(LogFormat):
    """The working directory of a run, with or without a database."""

    def recognises(self, path: Path) -> bool:
        """Return True for a directory."""
        return path.is_dir()

    def read(self, path: Path) -> Log:
        """Return the trials of the runs, with their programs from the database."""
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


def known_trials(work_dir: Path, resources: bool | int, trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials of a run with knobs, operations, and the resources of some.

    `resources` is the maximum number of programs that are replayed for their resources; True
    replays all. Names and programs come from the database in the directory, if there is one.
    """
    replayed = spread_out(len(trials), resources)
    database = database_in(work_dir)
    programs = [] if database is None else programs_in(database)
    flops = {program.key: estimate_tir_flops(program.workload.mod) for program in programs}
    records = records_of_trials(trials, programs)
    known = []
    for place, trial in enumerate(named_trials(trials, records)):
        sch = _schedule_of(records[place]) if place in replayed else None
        resources_of_it = None if sch is None else resources_of(sch.mod)
        known.append(replace(trial, flop=flops.get(trial.workload), resources=resources_of_it))
    return known


def records_of_trials(
    trials: Sequence[Trial], programs: Iterable[ProgramRecords]
) -> list[TuningRecord | None]:
    """Return the record of each trial among those of its run, None for a trial without one.

    A record has the times of its trial. Decisions, which take a millisecond to read, are compared
    only if several records have the same times, or for a trial without times.
    """
    by_times: dict[tuple[str, tuple[float, ...]], list[TuningRecord]] = {}
    for program in programs:
        for record in program.records:
            times = tuple(seconds for seconds in record.run_secs or () if seconds != FAILED)
            by_times.setdefault((program.key, times), []).append(record)
    return [_own(trial, by_times.get((trial.workload, trial.run_secs), [])) for trial in trials]


def _own(trial: Trial, records: Sequence[TuningRecord]) -> TuningRecord | None:
    """Return the record with the decisions of a trial, the last one of several."""
    if len(records) == 1 and trial.run_secs:
        return records[0]
    found = None
    for record, trace in with_traces(records):
        drawn = trace.simplified(remove_postproc=True)
        decisions = [one.decision_in(drawn.decisions, one.inst) for one in knobs_in(drawn.insts)]
        if json.dumps(decisions) == json.dumps(trial.decisions):
            found = record
    return found


def named_trials(
    trials: Sequence[Trial], records: Sequence[TuningRecord | None]
) -> Iterator[Trial]:
    """Yield trials with their decisions by name, given the record of each."""
    own = [
        (record, (t.workload, t.space)) for t, record in zip(trials, records, strict=True) if record
    ]
    space_of = {id(record): space for record, space in own}
    spaces: dict[tuple[str, int | None], tuple[Knob, ...]] = {}
    unknown = (record for record, space in own if space not in spaces)
    for record, sch in with_schedules(unknown):
        spaces[space_of[id(record)]] = DesignSpace.of(sch).knobs
    for trial in trials:
        sites = spaces.get((trial.workload, trial.space), ())
        yield replace(trial, knobs=knobs_of(sites, trial))


def knobs_of(sites: Sequence[Knob], trial: Trial) -> dict[str, Any]:
    """Return the decisions of a trial in its design space by name."""
    columns = decision_columns(sites, trial.decisions or ())
    return {name: value for name, value in columns if isinstance(value, (int, float, str))}


def _schedule_of(record: TuningRecord | None) -> Schedule | None:
    """Return the schedule of a record, None if its trace no longer applies."""
    found = with_schedules([] if record is None else [record])
    return next((sch for _, sch in found), None)


def fields_of_trial(trial: Trial) -> list[Field]:
    """Return the fields of the line of a trial, with their meanings."""
    chosen = (f"{name} = {value}" for name, value in trial.knobs.items() if value is not None)
    meanings = {
        **MEANINGS,
        "run_secs": meaning_of_costs(trial, ()),
        "time": f"when it ended: {utc(trial.time)}",
        "decisions": f"{MEANINGS['decisions']}: {', '.join(chosen)}",
    }
    row = trial.as_json()
    return [Field(name, json.dumps(row[name]), meaning) for name, meaning in meanings.items()]
