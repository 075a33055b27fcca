"""The trials of a run as measurements: those that `tune_tir` and its like left in a directory."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedule import Schedule
from search.analysis.resources import Resources, resources_of
from search.database.best_records import usable, with_traces
from search.database.in_directory import database_in
from search.explanation.field import Field, utc
from search.explanation.table import NO_ERROR, STOPPED, Measurement
from search.measuring.flops import estimate_tir_flops
from search.runs.trials import Trial
from search.spaces.decision_site import decision_columns, sites_of
from search.spaces.design_space import DesignSpace

if TYPE_CHECKING:
    from search.database import TuningRecord
    from search.spaces.decision_site import Site


def measurements_of_run(
    work_dir: Path, trials: Sequence[Trial], made: Container[int]
) -> Iterator[Measurement]:
    """Yield the trials of a run, with the resources of those at the places `made`.

    Names and programs come from the database in the directory; without one, they are not known.
    """
    programs = _Programs(work_dir, trials)
    for place, trial in enumerate(trials):
        yield Measurement(
            task=trial.task,
            target=trial.target,
            index=trial.space,
            knobs=dict(programs.knobs(trial)),
            resources=programs.resources(trial) if place in made else None,
            flop=programs.flop(trial),
            cost=trial.seconds,
            slower_than=min(trial.run_secs, default=None) if trial.stage == "stopped" else None,
            error=_ending(trial),
            build_seconds=trial.build_secs,
            run_seconds=trial.measure_secs,
            all_cost=trial.build_secs + trial.measure_secs,
            time=trial.time,
        )


def fields_of_trial(trial: Trial, decided: Mapping[str, Any]) -> list[Field]:
    """Return the fields of a trial; `decided` are the knobs of its row in the table."""
    named = ", ".join(f"{name} = {value}" for name, value in decided.items())
    times = [seconds * 1e6 for seconds in trial.run_secs]
    spread = f"; they lie {max(times) / min(times) - 1:.1%} apart" if len(times) > 1 else ""
    meanings = {
        "task": "the name of the task",
        "workload": "the key of its program in the database beside",
        "target": "the target it was compiled for",
        "batch": "the batch of the task that it was measured in; the model learns between batches",
        "number": "its place in the task, from 0",
        "stage": "how far it came: build, run, check, done, or stopped early",
        "error": "the text of the error",
        "build_secs": "seconds that building took",
        "measure_secs": "seconds that running took, with warm-up",
        "run_secs": (
            f"seconds per call, one number for each repeat; the mean is "
            f"{sum(times) / len(times):.1f} us{spread}"
            if times
            else "seconds per call; there are none"
        ),
        "predicted": "what the cost model said before; higher is faster",
        "time": f"when it ended: {utc(trial.time)}",
        "space": "the design space that it is a point of",
        "decisions": f"the point, a decision for each site: {named}",
    }
    return [
        Field(field.name, json.dumps(trial.as_json()[field.name]), meanings[field.name])
        for field in fields(trial)
    ]


def _ending(trial: Trial) -> str:
    if trial.stage == "done":
        return NO_ERROR
    return STOPPED if trial.stage == "stopped" else f"{trial.stage.upper()}_ERROR"


class _Programs:
    """The records and programs in the database beside the trials of a run; none without one."""

    def __init__(self, work_dir: Path, trials: Iterable[Trial]) -> None:
        self._records: dict[str, TuningRecord] = {}
        self._flops: dict[str, float] = {}
        self._sites: dict[tuple[str, int | None], tuple[Site, ...]] = {}
        database = database_in(work_dir)
        if database is None:
            return
        for record, trace in with_traces(database.get_all_tuning_records()):
            workload = database.workload_key(record.workload.mod)
            if workload not in self._flops:
                self._flops[workload] = estimate_tir_flops(record.workload.mod)
            drawn = trace.simplified(remove_postproc=True)
            sites = sites_of(drawn.insts)
            decisions = [site.decision_in(drawn.decisions, site.inst) for site in sites]
            self._records[_key(workload, decisions, record.run_secs or ())] = record
        for trial in trials:
            stored = self._record(trial)
            sch = None
            if stored is not None and (trial.workload, trial.space) not in self._sites:
                sch = _replayed(stored)
            if sch is not None:
                self._sites[trial.workload, trial.space] = DesignSpace.of(sch).sites

    def _record(self, trial: Trial) -> TuningRecord | None:
        return self._records.get(_key(trial.workload, trial.decisions, trial.run_secs))

    def flop(self, trial: Trial) -> float | None:
        return self._flops.get(trial.workload)

    def knobs(self, trial: Trial) -> Iterator[tuple[str, Any]]:
        sites = self._sites.get((trial.workload, trial.space), ())
        yield from decision_columns(sites, trial.decisions or ())

    def resources(self, trial: Trial) -> Resources | None:
        record = self._record(trial)
        sch = None if record is None else _replayed(record)
        return None if sch is None else resources_of(sch.mod)


def _replayed(record: TuningRecord) -> Schedule | None:
    """Return the schedule of a record, None for one whose trace does not apply any more."""

    def schedule(record: TuningRecord) -> Schedule:
        sch = Schedule(record.workload.mod, seed=1, error_render_level="none")
        record.trace.apply_to_schedule(sch, remove_postproc=False)
        return sch

    return next((sch for _, sch in usable([record], schedule)), None)


def _key(workload: str, decisions: Any, run_secs: Sequence[float]) -> str:
    """Return a text that tells a trial from those of other programs with the same decisions."""
    return json.dumps([workload, decisions, list(run_secs)])
