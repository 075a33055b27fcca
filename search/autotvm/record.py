"""The lines of a log: one measurement each, as JSON."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, TypeAlias

from search.autotvm.arguments import as_tuples
from search.autotvm.entity import ConfigEntity
from search.autotvm.errors import TemplateError
from search.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult
from search.autotvm.task import Task
from search.record_lines import (
    LineError,
    PathLike,
    append_lines,
    json_object,
    numbered_records,
    replace_lines,
    target_of_line,
)
from tensorir.errors import TensorIRError

logger = logging.getLogger("autotvm")

LOG_VERSION: Final = 0.2
_COST_OF_ERROR: Final = 1e9

Record: TypeAlias = tuple[MeasureInput, MeasureResult]


def encode(inp: MeasureInput, result: MeasureResult, protocol: str = "json") -> str:
    """Return a measurement as a line of a log, without its end.

    The texts of errors are not in it. Only protocol `json` is written: data, which is never run.
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
    return json.dumps(row)


def decode(row: str, protocol: str = "json") -> Record | None:
    """Return the measurement of a line.

    None for a line of log format 0.1, which AutoTVM does not read either. LineError, a ValueError,
    for one that was cut short, has another version, or holds something else.
    """
    check_protocol(protocol)
    fields = json_object(row)
    if fields.get("v", fields.get("version")) == 0.1:
        return None
    if fields.get("version") != LOG_VERSION:
        raise LineError(f"it has log version {fields.get('version')!r}, known is {LOG_VERSION}")
    try:
        target, name, args, _ = fields["input"]
        costs, error_no, all_cost, timestamp = fields["result"]
        result = MeasureResult(
            tuple(float(cost) for cost in costs),
            MeasureErrorNo(error_no),
            float(all_cost),
            float(timestamp),
        )
        task = Task(_text(name), as_tuples(args))
        task.target = target_of_line(target)
        config = ConfigEntity.from_json_dict(fields["config"])
    except KeyError as error:
        raise LineError(f"it has no field {error}") from error
    except (TensorIRError, TypeError, ValueError, OverflowError) as error:
        raise LineError(str(error)) from error
    if not result.costs:
        raise LineError("it has no costs")
    config.cost = sum(result.costs) / len(result.costs)
    return MeasureInput(task.target, task, config), result


def load_from_file(filepath: PathLike) -> Iterator[Record]:
    """Yield the records of a log; see `load_from_buffer`. OSError for one that cannot be opened."""
    with open(filepath, encoding="utf-8", errors="replace") as file:
        yield from load_from_buffer(file)


def load_from_buffer(file: Iterable[str]) -> Iterator[Record]:
    """Yield the records of an opened log.

    Lines that are no records are left out with a warning; see `numbered_records`.
    """
    outdated = 0
    for _, record in numbered_records(file, decode, logger):
        if record is None:
            outdated += 1
        else:
            yield record
    if outdated:
        name = getattr(file, "name", "the log")
        logger.warning("%s: left out %d line(s) of log format 0.1", name, outdated)


def append_to_file(filepath: PathLike, records: Iterable[Record]) -> None:
    """Append records to a log, each line in one write; see `append_lines`."""
    append_lines(filepath, (encode(inp, result) for inp, result in records))


def measure_str_key(inp: MeasureInput, include_config: bool = True) -> str:
    """Return a text that tells measurements apart: target, task, and configuration."""
    config = str(inp.config) if include_config else ""
    return f"{inp.target}{inp.task.name}{inp.task.args}{inp.task.kwargs}{config}"


def pick_best(in_file: PathLike, out_file: PathLike) -> int:
    """Write the fastest record of each task and target of a log to another, and return how many.

    Records that the other log has already compete, and its records that are not beaten stay first.
    """
    records = [*(load_from_file(out_file) if os.path.exists(out_file) else ())]
    records += load_from_file(in_file)
    best: dict[str, Record] = {}
    for inp, result in records:
        if result.error_no != MeasureErrorNo.NO_ERROR:
            continue
        key = measure_str_key(inp, include_config=False)
        if key not in best or result.mean_cost < best[key][1].mean_cost:
            best[key] = (inp, result)
    _write(out_file, best.values())
    logger.info("picked %d best record(s) of %d into %s", len(best), len(records), out_file)
    return len(best)


def split_workload(in_file: PathLike, clean: bool = True) -> list[str]:
    """Write the records of each task and target to a log of its own, and return their names.

    They are called `<in_file>.000.wkl` and so on. With `clean`, of a configuration that was
    measured several times only the first record is kept.
    """
    parts: dict[str, list[Record]] = {}
    seen: set[str] = set()
    for inp, result in load_from_file(in_file):
        key = measure_str_key(inp)
        if clean and key in seen:
            continue
        seen.add(key)
        parts.setdefault(measure_str_key(inp, include_config=False), []).append((inp, result))
    names = [f"{os.fspath(in_file)}.{k:03d}.wkl" for k in range(len(parts))]
    for name, records in zip(names, parts.values(), strict=True):
        _write(name, records)
    return names


def _write(path: PathLike, records: Iterable[Record]) -> None:
    replace_lines(path, (encode(inp, result) for inp, result in records))


def check_protocol(protocol: str) -> None:
    """Raise TemplateError for a protocol that is not written."""
    if protocol != "json":
        raise TemplateError(
            f"logs are written as 'json', not as {protocol!r}; reading pickles would run code"
        )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def _package_version() -> str:
    try:
        return version("tensorir")
    except PackageNotFoundError:
        return "0"
