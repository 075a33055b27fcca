"""Reports on logs of templates: tables, explained lines, and the comparison of two logs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

from search.compat.autotvm.config import ConfigEntity
from search.compat.autotvm.errors import TemplateError
from search.compat.autotvm.knobs import SplitSpace
from search.compat.autotvm.measure import MeasureInput, Record
from search.compat.autotvm.record import LOGS, load_from_file
from search.compat.autotvm.task import Task
from search.database import RECORDS, WORKLOADS
from search.database.keyed_database import SQL_FILE
from search.reports.explain import LogExplanation
from search.reports.log_comparison import LogComparison
from search.reports.log_format import (
    MOST_PROGRAMS,
    Field,
    Log,
    LogFormat,
    fields_of_result,
    first_fields,
    spread_out,
    trial_of_result,
)
from search.reports.resources import Resources, resources_of
from search.reports.run_directory import TRIALS, RunDirectory, known_trials, load_run
from search.reports.table import LogTable
from search.reports.trial import Trial

LogSource: TypeAlias = "str | os.PathLike[str] | Iterable[Record]"
"""A log by name, the working directory of a run, or records."""


class TemplateLog(LogFormat):
    """A log in AutoTVM's format."""

    def recognises(self, path: Path) -> bool:
        """Return True if a line has an input and a configuration."""
        return {"input", "config"} <= first_fields(path).keys()

    def read(self, path: Path) -> Log:
        """Return the measurements; TemplateError if no line is a record."""
        with path.open(encoding="utf-8", errors="replace") as file:
            lines = LOGS.lines(file)
            records = dict(lines)
        if not records:
            of_run = path.name in (TRIALS.file, RECORDS.file, WORKLOADS.file, SQL_FILE)
            hint = f"; it is a file of a run, explain its directory {path.parent}"
            raise TemplateError(f"no line of {path} is a record{hint if of_run else ''}")
        trials = list(_trials(list(records.values()), MOST_PROGRAMS))
        best = min(records, key=lambda number: records[number][1].mean_cost)
        with path.open(encoding="utf-8", errors="replace") as file:
            text = next(islice(file, best - 1, None))
        fields = _fields(text, records[best][0], trials[list(records).index(best)])
        return Log(trials, fields, lines.left_out)


def explain_log(path: str | os.PathLike[str]) -> LogExplanation:
    """Return the explanation of a log, or of the working directory of a `tune_tir` run.

    It prints; in a notebook it shows tables. `.table()` returns the measurements, `.plot()` draws
    them. Registered templates supply what the log omits: see `records_to_table`. At most
    a thousand of the measured programs are rebuilt to find their resources.

    Raises OSError for a log that cannot be opened, DatabaseError for a directory without trials,
    TemplateError for a log without any record.
    """
    place = Path(path)
    return LogExplanation(path, (RunDirectory if place.is_dir() else TemplateLog)().read(place))


def records_to_table(log: LogSource, resources: bool | int = True) -> LogTable:
    """Return the measurements of a log, of a `tune_tir` working directory, or of records.

    Registered templates supply what a log omits: the number of operations, the outermost parts of
    splits, and resources, for which each program is made again in about two milliseconds
    (`resources` limits their number; False skips them). The database of a working directory has
    names and programs.

    Raises OSError for a log that cannot be opened, DatabaseError for a directory without trials.
    """
    if isinstance(log, (str, os.PathLike)):
        if Path(log).is_dir():
            return LogTable(known_trials(Path(log), resources, load_run(log).trials))
        log = load_from_file(log)
    return LogTable(list(_trials(list(log), resources)))


def compare(log_a: LogSource, log_b: LogSource) -> LogComparison:
    """Compare two logs, or working directories, on the same tasks and configurations.

    Rows of the same task with the same values of all knobs are joined, whatever their targets; the
    best of several measurements counts. Configurations without a cost in both logs are skipped.
    """
    return LogComparison(*(records_to_table(log, resources=False) for log in (log_a, log_b)))


# ------------------------------------------------------------------------------------- measurements


def _trials(records: Sequence[Record], resources: bool | int) -> Iterator[Trial]:
    """Yield the measurements of a log; `resources` limits the number with resources."""
    made = spread_out(len(records), resources)
    tasks: dict[tuple[Any, str], Task] = {}
    found: dict[tuple[int, str], Resources | None] = {}
    for place, (inp, result) in enumerate(records):
        # Each line of a log has another task; the first of equal tasks collects the space.
        target = str(inp.target)
        task = tasks.setdefault((inp.task.workload, target), inp.task)
        key = (id(task), str(inp.config))
        if place in made and key not in found:
            found[key] = _resources_of(task, inp.config)
        yield trial_of_result(
            result,
            place,
            task=f"{task.name}({', '.join(map(repr, task.args))})",
            target=target,
            config=inp.config.index,
            knobs=dict(_knobs(task, inp.config)),
            resources=found[key] if place in made else None,
            # Without its template, the program of a task is unknown.
            flop=None if task.known_space is None else task.flop,
        )


def _knobs(task: Task, config: ConfigEntity) -> Iterator[tuple[str, Any]]:
    """Yield the columns of the knobs of a configuration."""
    space = task.known_space
    for name, entity in config.entity_map.items():
        code, value = entity.to_json()
        if code == "sp":
            known = None if space is None else space.space_map.get(name)
            extent = known.product if isinstance(known, SplitSpace) else 0
            outer = value[0]
            if outer == -1:
                outer = -(-extent // prod(value[1:])) if extent > 0 else None
            value = [outer, *value[1:]]
        if code in ("sp", "an"):
            yield from ((f"{name}[{k}]", one) for k, one in enumerate(value))
        else:
            yield name, json.dumps(value) if isinstance(value, (list, dict)) else value


def _resources_of(task: Task, config: ConfigEntity) -> Resources | None:
    if task.known_space is None:
        return None
    try:
        return resources_of(task.instantiate(config).mod)
    except Exception:  # noqa: BLE001  the current template may raise anything for an old line
        return None


# --------------------------------------------------------------------------------- a line of a log


def _fields(text: str, inp: MeasureInput, trial: Trial) -> list[Field]:
    """Return the fields of the line of a measurement, with what they mean."""
    line = json.loads(text)
    target, name, args, kwargs = line["input"]
    config = line["config"]
    code_hash = json.dumps(config.get("code_hash"))
    return [
        Field("input[0]", target, "the target it was compiled for"),
        Field("input[1]", name, "the name of the template"),
        Field("input[2]", json.dumps(args), "the arguments of the template"),
        Field("input[3]", json.dumps(kwargs), "arguments by name; AutoTVM leaves them empty"),
        Field("config.index", str(config["index"]), _index_meaning(inp.task, inp.config)),
        Field("config.code_hash", code_hash, "the hash of the code of the template, if known"),
        *_entities(inp.task, inp.config),
        *fields_of_result("result", line["result"], trial),
        Field("version", str(line["version"]), "the version of this format"),
        Field("tvm_version", str(line.get("tvm_version", "")), "the version of the writer"),
    ]


def _index_meaning(task: Task, config: ConfigEntity) -> str:
    space = task.known_space
    if space is None:
        return "the number of the configuration; its template is not registered here"
    index = space.index_of(config.entity_map)
    if index != config.index:
        return (
            "the number of the configuration in the space it was taken from; here it has "
            f"{'none' if index is None else index}, and config.entity counts"
        )
    digits = space.point2knob(index)
    weights = [prod(space.dims[:k]) for k in range(len(digits))]
    terms = [str(d) if w == 1 else f"{d}*{w}" for d, w in zip(digits, weights, strict=True)]
    return f"its number among {space.range_length}: {' + '.join(terms)}, a digit for each knob"


def _entities(task: Task, config: ConfigEntity) -> Iterator[Field]:
    space = task.known_space
    for k, (name, entity) in enumerate(config.entity_map.items()):
        code, value = entity.to_json()
        known = None if space is None else space.space_map.get(name)
        offers = "" if known is None else f"; one of {len(known)}"
        meaning = f"the knob {name!r}: {_meaning(code, value)}{offers}"
        yield Field(f"config.entity[{k}]", json.dumps([name, code, value]), meaning)


def _meaning(code: str, value: Any) -> str:
    if code == "sp":
        rest = f", -1 for the rest divided by {prod(value[1:])}" if value[0] == -1 else ""
        return f"a loop split into {len(value)} parts, outermost first{rest}"
    if code == "re":
        return f"loops reordered: the new first one was at position {value[0]}"
    if code == "an":
        return f"the annotations of {len(value)} loops"
    return f"an option, {value!r}"
