"""Reading logs, and the working directories of runs, as rows of a table."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from schedule import Schedule, ScheduleError
from schedule.trace_json import TraceError
from search.analysis.resources import RESOURCES, resources_of
from search.autotvm.log_table import NO_ERROR, STOPPED, LogTable, Row
from search.autotvm.measure import MeasureErrorNo, MeasureResult
from search.autotvm.record import Record, load_from_file
from search.autotvm.split import SplitEntity, SplitSpace
from search.autotvm.task import Task
from search.database import Database
from search.database.json_database import RECORD_FILE, WORKLOAD_FILE
from search.decision_site import sites_of
from search.design_space import DesignSpace
from search.flops import estimate_tir_flops
from search.trials import Trial, load_run

if TYPE_CHECKING:
    from schedule.decision_domain import DecisionDomain
    from search.autotvm.entity import ConfigEntity
    from search.database import TuningRecord
    from search.decision_site import Site

LogSource: TypeAlias = "str | os.PathLike[str] | Iterable[Record]"
"""A log by name, the working directory of a run, or records."""

_UNKNOWN: Final[dict[str, Any]] = dict.fromkeys(RESOURCES)


def records_to_table(log: LogSource, resources: bool | int = True) -> LogTable:
    """Return the measurements of a log, of a `tune_tir` working directory, or of records.

    What a log does not say comes from its templates, if they are registered here: operations, the
    outermost parts of splits, and resources, for which each program is made again (about two
    milliseconds each; a number is the most that are made, and False leaves them out). A working
    directory has names and programs in its database.

    OSError for a log that cannot be opened, DatabaseError for a directory without trials.
    """
    if isinstance(log, (str, os.PathLike)):
        if Path(log).is_dir():
            return LogTable.of(list(_rows_of_run(Path(log), resources)))
        log = load_from_file(log)
    return LogTable.of(list(_rows_of_records(log, resources)))


# ------------------------------------------------------------------------------------------- logs


def _rows_of_records(records: Iterable[Record], resources: bool | int) -> Iterator[Row]:
    records = list(records)
    apart = _apart(len(records), resources)
    tasks: dict[tuple[Any, str], Task] = {}
    taken: dict[tuple[int, str], Mapping[str, Any]] = {}
    for place, (inp, result) in enumerate(records):
        # Tasks of a log are made anew for each line; one of them has the space for all.
        target = str(inp.target)
        task = tasks.setdefault((inp.task.workload, target), inp.task)
        cost = result.mean_cost if result.error_no == MeasureErrorNo.NO_ERROR else None
        takes: Mapping[str, Any] = _UNKNOWN
        if apart and place % apart == 0:
            key = (id(task), str(inp.config))
            takes = taken.get(key) or _resources_of_config(task, inp.config)
            taken[key] = takes
        flop = flop_of(task)
        yield {
            "task": f"{task.name}({', '.join(map(repr, task.args))})",
            "target": target,
            "index": inp.config.index,
            "knobs": dict(_knobs(task, inp.config)),
            **takes,
            "cost": cost,
            "slower_than": result.slower_than,
            "gflops": None if cost is None or not flop else flop / cost / 1e9,
            "error": _error_of(result),
            "build_seconds": None,
            "run_seconds": None,
            "all_cost": result.all_cost,
            "time": result.timestamp,
        }


def _error_of(result: MeasureResult) -> str:
    return MeasureErrorNo(result.error_no).name if result.slower_than is None else STOPPED


def _apart(count: int, resources: bool | int) -> int:
    """Return how far apart those are whose programs are made, 0 for none.

    They are spread over the whole log, as configurations get better from its start to its end.
    """
    return 1 if resources is True else -(-count // resources) if resources else 0


def flop_of(task: Task) -> float:
    """Return the operations of one run of a task, 0 where its template is not registered here."""
    if task.known_space() is None:
        return 0.0
    return task.flop or 0.0


def _knobs(task: Task, config: ConfigEntity) -> Iterator[tuple[str, Any]]:
    """Yield the columns of the knobs of a configuration."""
    space = task.known_space()
    for name, entity in config.entity_map.items():
        _, value = entity.to_json()
        if isinstance(entity, SplitEntity):
            known = None if space is None else space.space_map.get(name)
            extent = known.product if isinstance(known, SplitSpace) else 0
            outer = value[0]
            if outer == -1:
                outer = -(-extent // prod(value[1:])) if extent > 0 else None
            sizes = [outer, *value[1:]]
            yield from ((f"{name}[{k}]", size) for k, size in enumerate(sizes))
        elif entity.code == "an":
            yield from ((f"{name}[{k}]", mark) for k, mark in enumerate(value))
        else:
            yield name, json.dumps(value) if isinstance(value, (list, dict)) else value


def _resources_of_config(task: Task, config: ConfigEntity) -> Mapping[str, Any]:
    if task.known_space() is None:
        return _UNKNOWN
    try:
        return asdict(resources_of(task.instantiate(config).mod))
    except Exception:  # noqa: BLE001  whatever the template of today raises for this one
        return _UNKNOWN


# ------------------------------------------------------------------------------------------- runs


def _rows_of_run(work_dir: Path, resources: bool | int) -> Iterator[Row]:
    trials = load_run(work_dir)
    programs = _Programs(work_dir, trials)
    apart = _apart(len(trials), resources)
    for place, trial in enumerate(trials):
        cost, flop = trial.seconds, programs.flop(trial)
        yield {
            "task": trial.task,
            "target": trial.target,
            "index": trial.space,
            "knobs": dict(programs.knobs(trial)),
            **(programs.resources(trial) if apart and place % apart == 0 else _UNKNOWN),
            "cost": cost,
            "slower_than": min(trial.run_secs, default=None) if trial.stage == "stopped" else None,
            "gflops": None if cost is None or not flop else flop / cost / 1e9,
            "error": _ending(trial),
            "build_seconds": trial.build_secs,
            "run_seconds": trial.measure_secs,
            "all_cost": trial.build_secs + trial.measure_secs,
            "time": trial.time,
        }


def _ending(trial: Trial) -> str:
    if trial.stage == "done":
        return NO_ERROR
    return STOPPED if trial.stage == "stopped" else f"{trial.stage.upper()}_ERROR"


class _Programs:
    """What the database beside the trials of a run says of them; without one, nothing."""

    def __init__(self, work_dir: Path, trials: Iterable[Trial]) -> None:
        self._records: dict[str, TuningRecord] = {}
        self._flops: dict[str, float] = {}
        self._sites: dict[tuple[str, int | None], tuple[Site, ...]] = {}
        if not all((work_dir / name).exists() for name in (WORKLOAD_FILE, RECORD_FILE)):
            return
        database = Database.create("json", work_dir=work_dir)
        for record in database.get_all_tuning_records():
            workload = database.workload_key(record.workload.mod)
            if workload not in self._flops:
                self._flops[workload] = estimate_tir_flops(record.workload.mod)
            trace = record.trace.simplified(remove_postproc=True)
            sites = sites_of(trace.insts)
            decisions = [site.decision_in(trace.decisions, site.inst) for site in sites]
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
        names = list(_unique([site.name for site in sites]))
        for k, decision in enumerate(trial.decisions or ()):
            name = names[k] if names else f"site {k}"
            if isinstance(decision, (list, tuple)) and len(decision) != 1:
                yield from ((f"{name}[{j}]", number) for j, number in enumerate(decision))
                continue
            number = decision[0] if isinstance(decision, (list, tuple)) else decision
            domain = sites[k].domain if names else None
            yield name, number if domain is None or number is None else _labelled(domain, number)

    def resources(self, trial: Trial) -> Mapping[str, Any]:
        record = self._record(trial)
        sch = None if record is None else _replayed(record)
        return _UNKNOWN if sch is None else asdict(resources_of(sch.mod))


def _replayed(record: TuningRecord) -> Schedule | None:
    """Return the program of a record, None for one whose trace does not apply any more."""
    sch = Schedule(record.workload.mod, seed=1, error_render_level="none")
    try:
        record.trace.apply_to_schedule(sch, remove_postproc=False)
    except (ScheduleError, TraceError):
        return None
    return sch


def _unique(names: Sequence[str]) -> Iterator[str]:
    """Yield names, numbered where several are the same."""
    for k, name in enumerate(names):
        yield name if names.count(name) == 1 else f"{name} ({names[:k].count(name) + 1})"


def _labelled(domain: DecisionDomain, decision: Any) -> Any:
    """Return what a decision stands for: a number where that is one."""
    text = domain.label(decision)
    return int(text) if text.removeprefix("-").isdigit() else text


def _key(workload: str, decisions: Any, run_secs: Sequence[float]) -> str:
    """Return a text that tells a trial from those of other programs with the same decisions."""
    return json.dumps([workload, decisions, list(run_secs)])
