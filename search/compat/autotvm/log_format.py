"""Logs of templates: their tables, their lines taken apart, two of them side by side."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any, Final, TypeAlias

from search.compat.autotvm.config import ConfigEntity
from search.compat.autotvm.entities import SplitEntity
from search.compat.autotvm.errors import TemplateError
from search.compat.autotvm.knobs import SplitSpace
from search.compat.autotvm.measure import MeasureInput, Record
from search.compat.autotvm.record import LOGS, load_from_file
from search.compat.autotvm.task import Task
from search.database import RECORDS, WORKLOADS
from search.database.at_place import SQL_FILE
from search.reports.comparison import LogComparison, compare_tables
from search.reports.explanation import LogExplanation
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
from search.reports.run_directory import TRIALS, RunDirectory, known_trials
from search.reports.table import LogTable
from search.reports.trial import Trial

LogSource: TypeAlias = "str | os.PathLike[str] | Iterable[Record]"
"""A log by name, the working directory of a run, or records."""


class TemplateLog(LogFormat):
    """A log in AutoTVM's format."""

    def recognises(self, path: Path) -> bool:
        """Say whether a line has an input and a configuration."""
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

    It prints; in a notebook it shows tables. `.table()` are the measurements, `.plot()` is a
    picture. Templates that are registered here tell what the log does not: see `records_to_table`.
    Of a log of more than a thousand measurements, programs are made for a thousand of them.

    OSError for a log that cannot be opened, DatabaseError for a directory without trials,
    TemplateError for a log in which no line is a record.
    """
    place = Path(path)
    return LogExplanation(path, (RunDirectory if place.is_dir() else TemplateLog)().read(place))


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
            return LogTable(known_trials(Path(log), resources))
        log = load_from_file(log)
    return LogTable(list(_trials(list(log), resources)))


def compare(log_a: LogSource, log_b: LogSource) -> LogComparison:
    """Compare two logs, or working directories, on the same tasks and configurations.

    Joined are rows of the same task with the same values of all knobs, whatever their targets;
    of several measurements the best counts. What has no cost in one of them is left out.
    """
    return compare_tables(*(records_to_table(log, resources=False) for log in (log_a, log_b)))


# ------------------------------------------------------------------------------------- measurements


def _trials(records: Sequence[Record], resources: bool | int) -> Iterator[Trial]:
    """Yield the measurements of a log, with the resources of as many as `resources` says."""
    made = spread_out(len(records), resources)
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
        yield trial_of_result(
            result,
            place,
            task=f"{task.name}({', '.join(map(repr, task.args))})",
            target=target,
            config=inp.config.index,
            knobs=dict(_knobs(task, inp.config)),
            resources=takes,
            # Where its template is not registered here, a task does not know what it computes.
            flop=None if task.known_space() is None else task.flop,
        )


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


# --------------------------------------------------------------------------------- a line of a log


def _fields(text: str, inp: MeasureInput, trial: Trial) -> list[Field]:
    """Return the fields of a line, which is the record of a measurement."""
    line = json.loads(text)
    target, name, args, kwargs = line["input"]
    config = line["config"]
    return [
        Field("input[0]", target, "the target it was compiled for"),
        Field("input[1]", name, "the name of the template"),
        Field("input[2]", json.dumps(args), "the arguments of the template"),
        Field("input[3]", json.dumps(kwargs), "arguments by name; AutoTVM leaves them empty"),
        Field("config.index", str(config["index"]), _index_meaning(inp.task, inp.config)),
        Field(
            "config.code_hash",
            json.dumps(config.get("code_hash")),
            "the hash of the code that the schedule was made for, if it states one",
        ),
        *_entities(inp.task, inp.config),
        *fields_of_result("result", line["result"], trial),
        Field("version", str(line["version"]), "the version of this format"),
        Field("tvm_version", str(line.get("tvm_version", "")), "the version of the writer"),
    ]


def _index_meaning(task: Task, config: ConfigEntity) -> str:
    space = task.known_space()
    if space is None:
        return "the number of the configuration; its template is not registered here"
    index = space.index_of(config.entity_map)
    if index != config.index:
        return (
            f"the number that the configuration had in the space it was taken from; here it has "
            f"{'none' if index is None else index}, and config.entity counts"
        )
    digits, weights = space.point2knob(index), [1]
    for dim in space.dims[:-1]:
        weights.append(weights[-1] * dim)
    terms = " + ".join(
        str(digit) if weight == 1 else f"{digit}*{weight}"
        for digit, weight in zip(digits, weights, strict=True)
    )
    return f"its number among {space.range_length}: {terms}, a digit for each knob"


def _entities(task: Task, config: ConfigEntity) -> Iterator[Field]:
    space = task.known_space()
    for k, (name, entity) in enumerate(config.entity_map.items()):
        code, value = entity.to_json()
        known = None if space is None else space.space_map.get(name)
        offers = "" if known is None else f"; one of {len(known)}"
        yield Field(
            f"config.entity[{k}]",
            json.dumps([name, code, value]),
            f"the knob {name!r}: {_KINDS[code](value)}{offers}",
        )


def _split_meaning(value: Any) -> str:
    inner = math.prod(value[1:])
    left = f", -1 being what is left of it divided by {inner}" if value[0] == -1 else ""
    return f"a loop split in {len(value)} parts, the outermost first{left}"


_KINDS: Final[dict[str, Callable[[Any], str]]] = {
    "sp": _split_meaning,
    "re": lambda value: f"loops reordered: first the one that was at place {value[0]}",
    "an": lambda value: f"what each of {len(value)} loops becomes",
    "ot": lambda value: f"an option, {value!r}",
}
