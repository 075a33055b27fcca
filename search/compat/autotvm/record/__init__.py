"""Logs: files of measurements, a JSON object a line, read, split or reduced to their best."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from search.compat.autotvm.arguments import as_tuples
from search.compat.autotvm.config import ConfigEntity
from search.compat.autotvm.errors import TemplateError
from search.compat.autotvm.measure import MeasureInput, MeasureResult, Record, SlowerThan
from search.compat.autotvm.task import Task
from search.database.record_files import (
    LineError,
    MeasureErrorNo,
    RecordFiles,
    Records,
    costs_of_line,
    json_object,
    target_of_line,
)
from tensorir.errors import TensorIRError
from tensorir.paths import PathLike

__all__ = [
    "LOGS",
    "LOG_VERSION",
    "LineError",
    "Record",
    "Records",
    "append_to_file",
    "decode",
    "encode",
    "load_from_buffer",
    "load_from_file",
    "measure_str_key",
    "pick_best",
    "split_workload",
]

logger = logging.getLogger("autotvm")

LOG_VERSION: Final = 0.2
_COST_OF_ERROR: Final = 1e9
_SLOWER_THAN: Final = "slower_than"


# ----------------------------------------------------------------------------------------- lines


def encode(inp: MeasureInput, result: MeasureResult, protocol: str = "json") -> str:
    """Return a measurement as a line of a log, without its end.

    The texts of errors are omitted. The lower bound of a run that was ended early is a field that
    AutoTVM ignores. Raises TemplateError for a protocol other than `json`.
    """
    check_protocol(protocol)
    failed = result.error_no != MeasureErrorNo.NO_ERROR
    costs = [_COST_OF_ERROR] if failed else [float(cost) for cost in result.costs]
    row = {
        "input": [str(inp.target), inp.task.name, inp.task.args, inp.task.kwargs],
        "config": inp.config.to_json_dict(),
        "result": [costs, int(result.error_no), result.all_cost, result.timestamp],
        "version": LOG_VERSION,
        "tvm_version": _package_version(),
    }
    if result.slower_than is not None:
        row[_SLOWER_THAN] = result.slower_than
    return json.dumps(row)


def decode(row: str, protocol: str = "json") -> Record | None:
    """Return the measurement of a line.

    None for a line of log format 0.1, which AutoTVM does not read either. LineError, a ValueError,
    for an incomplete line, another version, and anything else.
    """
    check_protocol(protocol)
    fields = json_object(row)
    if fields.get("v", fields.get("version")) == 0.1:
        return None
    if "i" in fields:
        raise LineError("it is a line of Ansor; read the log by search.compat.auto_scheduler")
    if fields.get("version") != LOG_VERSION:
        raise LineError(f"it has log version {fields.get('version')!r}; expected {LOG_VERSION}")
    try:
        target, name, args, _ = fields["input"]
        costs, error_no, all_cost, timestamp = fields["result"]
        costs = costs_of_line(costs)
        bound = fields.get(_SLOWER_THAN)
        result = MeasureResult(
            costs if bound is None else (SlowerThan(float(bound)),),
            MeasureErrorNo(error_no),
            float(all_cost),
            float(timestamp),
        )
        if not isinstance(name, str):
            raise LineError(f"the name of its template is {name!r}; expected a string")
        task = Task(name, as_tuples(args))
        task.target = target_of_line(target)
        config = ConfigEntity.from_json_dict(fields["config"])
    except KeyError as error:
        raise LineError(f"it lacks the field {error}") from error
    except (TensorIRError, TypeError, ValueError, OverflowError) as error:
        raise LineError(str(error)) from error
    config.cost = sum(costs) / len(costs)
    return MeasureInput(task.target, task, config), result


def check_protocol(protocol: str) -> None:
    """Raise TemplateError for a protocol that is not supported."""
    if protocol != "json":
        raise TemplateError(
            f"the protocol of a log is {protocol!r}; only 'json' is supported, as reading pickles "
            "would run code"
        )


def _package_version() -> str:
    try:
        return version("tensorir")
    except PackageNotFoundError:
        return "0"


# ----------------------------------------------------------------------------------------- files


def _no_log(given: object) -> TemplateError:
    return TemplateError(f"a log is a path, an open file or records, got {type(given).__name__}")


LOGS: Final[RecordFiles[Record]] = RecordFiles(
    lambda: decode, encode, (MeasureInput, MeasureResult), _no_log, logger
)
"""The format of logs."""


def load_from_file(filepath: PathLike) -> Iterator[Record]:
    """Yield the records of a log; OSError if it cannot be opened.

    Lines that are not records are skipped with a warning.
    """
    return LOGS.load(filepath)


def load_from_buffer(file: Iterable[str]) -> Iterator[Record]:
    """Yield the records of an open log; see `load_from_file`."""
    return (record for _, record in LOGS.lines(file))


def append_to_file(filepath: PathLike, records: Iterable[Record]) -> None:
    """Append records to a log, each line in one write."""
    LOGS.append(filepath, records)


def measure_str_key(inp: MeasureInput, include_config: bool = True) -> str:
    """Return a text that identifies a measurement: target, task, and configuration."""
    config = str(inp.config) if include_config else ""
    return f"{inp.target}{inp.task.name}{inp.task.args}{inp.task.kwargs}{config}"


def pick_best(in_file: PathLike, out_file: PathLike) -> int:
    """Write the fastest record of each task and target to another log; return their number.

    The records that the other log already has compete, and come first if they are faster.
    """
    kept, given = LOGS.reduce(in_file, out_file, _fastest_of_each)
    logger.info("picked %d best record(s) of %d into %s", kept, given, out_file)
    return kept


def _fastest_of_each(records: Iterable[Record]) -> Iterable[Record]:
    best: dict[str, Record] = {}
    for inp, result in records:
        key = measure_str_key(inp, include_config=False)
        known = best.get(key)
        if result.error_no == MeasureErrorNo.NO_ERROR and (
            known is None or result.mean_cost < known[1].mean_cost
        ):
            best[key] = (inp, result)
    return best.values()


def split_workload(in_file: PathLike, clean: bool = True) -> list[str]:
    """Write the records of each task and target to a separate log, and return the names.

    The logs are called `<in_file>.000.wkl` and so on. With `clean`, only the first record of each
    configuration is kept.
    """
    parts: dict[str, dict[object, Record]] = {}
    for place, (inp, result) in enumerate(load_from_file(in_file)):
        records = parts.setdefault(measure_str_key(inp, include_config=False), {})
        records.setdefault(str(inp.config) if clean else place, (inp, result))
    names = [f"{os.fspath(in_file)}.{k:03d}.wkl" for k in range(len(parts))]
    for name, kept in zip(names, parts.values(), strict=True):
        LOGS.replace(name, kept.values())
    return names
