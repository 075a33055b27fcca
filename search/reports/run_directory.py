"""The working directory of a run: its trials, its tasks and the reports of tasks."""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from schedule import Schedule
from search.database.at_place import database_in
from search.database.best_records import usable, with_traces
from search.database.line_store import LineStore
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
from search.space_generator.decision_site import decision_columns, sites_of
from search.space_generator.design_space import DesignSpace

if TYPE_CHECKING:
    from search.database import TuningRecord
    from search.space_generator.decision_site import Site


_LISTED: Final = ("task", "workload", "target", "weight")
"""What is known of a task before it begins."""

TRIALS: Final = Kind("tuning_trials.json", Trial.from_json, Trial.as_json)
"""All trials of the runs in a directory."""
REPORTS: Final = Kind("tuning_reports.json", TaskReport.from_json, TaskReport.as_json)
"""Of each run that came to its end, what came out of each task."""
TASKS: Final = Kind(
    "tuning_tasks.json",
    lambda obj: TaskReport(**read_fields(TaskReport, obj, _LISTED)),
    lambda one: {name: getattr(one, name) for name in _LISTED},
)
"""The tasks of the runs in a directory; of several lines of a task the last one holds."""


def listed_tasks(store: LineStore) -> list[TaskReport]:
    """Return the tasks of a directory, of which only the last weight is known."""
    return list({program_of(one): one for one in store.latest(TASKS)}.values())


def add_tasks(store: LineStore, tasks: Iterable[TaskReport]) -> None:
    """Add the tasks that a directory does not have with the same weight."""
    known = listed_tasks(store)
    store.add(TASKS, *(one for one in tasks if one not in known))


def load_run(work_dir: str | os.PathLike[str]) -> RunTable:
    """Return the trials that the runs in a working directory left, and what came out of them.

    `.report` of the table says of each task what `best.report` does. DatabaseError if there are no
    trials. Lines that are none are left out, with a warning.
    """
    store = LineStore(work_dir)
    if not store.path(TRIALS).exists():
        raise DatabaseError(
            f"no run left trials in {work_dir}: there is no file {store.path(TRIALS)}"
        )
    return RunTable(store.latest(TRIALS), [*store.latest(TASKS), *store.latest(REPORTS)])


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
        sch = _replayed(program) if place in made else None
        yield replace(
            trial,
            knobs=knobs_of(sites.get((trial.workload, trial.space), ()), trial),
            flop=flops.get(trial.workload),
            resources=None if sch is None else resources_of(sch.mod),
        )


def knobs_of(sites: Sequence[Site], trial: Trial) -> dict[str, Any]:
    """Return what a trial decided at the sites of its design space, by name."""
    decided = decision_columns(sites, trial.decisions or ())
    return {name: value for name, value in decided if isinstance(value, (int, float, str))}


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
