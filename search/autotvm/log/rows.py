"""The measurements of logs, and of the working directories of runs, as a table."""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterable, Iterator, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from search.analysis.resources import Resources, resources_of
from search.autotvm.measure.measurement import MeasureResult
from search.autotvm.record import Record, load_from_file
from search.autotvm.space.split import SplitEntity, SplitSpace
from search.autotvm.task import Task
from search.explanation.run import measurements_of_run
from search.explanation.table import STOPPED, LogTable, Measurement, spread_out
from search.records.measure_error_no import MeasureErrorNo
from search.runs.trials import load_run

if TYPE_CHECKING:
    from search.autotvm.space.entity import ConfigEntity

LogSource: TypeAlias = "str | os.PathLike[str] | Iterable[Record]"
"""A log by name, the working directory of a run, or records."""


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
            trials = load_run(log)
            return LogTable.of(
                list(measurements_of_run(Path(log), trials, spread_out(len(trials), resources)))
            )
        log = load_from_file(log)
    records = list(log)
    return LogTable.of(list(_measurements_of(records, spread_out(len(records), resources))))


def _measurements_of(records: Sequence[Record], made: Container[int]) -> Iterator[Measurement]:
    """Yield the measurements of a log, with the resources of those at the places `made`."""
    tasks: dict[tuple[Any, str], Task] = {}
    taken: dict[tuple[int, str], Resources | None] = {}
    for place, (inp, result) in enumerate(records):
        # Tasks of a log are made anew for each line; one of them has the space for all.
        target = str(inp.target)
        task = tasks.setdefault((inp.task.workload, target), inp.task)
        takes = None
        if place in made:
            key = (id(task), str(inp.config))
            if key not in taken:
                taken[key] = _resources_of(task, inp.config)
            takes = taken[key]
        yield Measurement(
            task=f"{task.name}({', '.join(map(repr, task.args))})",
            target=target,
            index=inp.config.index,
            knobs=dict(_knobs(task, inp.config)),
            resources=takes,
            flop=flop_of(task),
            cost=result.mean_cost if result.error_no == MeasureErrorNo.NO_ERROR else None,
            slower_than=result.slower_than,
            error=_error_of(result),
            all_cost=result.all_cost,
            time=result.timestamp,
        )


def _error_of(result: MeasureResult) -> str:
    return MeasureErrorNo(result.error_no).name if result.slower_than is None else STOPPED


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


def _resources_of(task: Task, config: ConfigEntity) -> Resources | None:
    if task.known_space() is None:
        return None
    try:
        return resources_of(task.instantiate(config).mod)
    except Exception:  # noqa: BLE001  whatever the template of today raises for this one
        return None
