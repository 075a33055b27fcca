"""The lines of a log: one measurement each, as JSON."""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, TypeAlias

from codegen import Target
from search.autotvm.arguments import as_tuples
from search.autotvm.entity import ConfigEntity
from search.autotvm.errors import TemplateError
from search.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult
from search.autotvm.task import Task
from tensorir.errors import TensorIRError

logger = logging.getLogger("autotvm")

LOG_VERSION: Final = 0.2
_COST_OF_ERROR: Final = 1e9
_MOST_NAMED: Final = 5

PathLike: TypeAlias = "str | os.PathLike[str]"
Record: TypeAlias = tuple[MeasureInput, MeasureResult]


class LineError(TemplateError, ValueError):
    """A line of a log is no record."""


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
    try:
        fields = json.loads(row)
    except (ValueError, RecursionError) as error:
        raise LineError(f"it is no JSON: {error}") from error
    if not isinstance(fields, dict):
        raise LineError("it is no JSON object")
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
        task.target = _target(_text(target))
        config = ConfigEntity.from_json_dict(fields["config"])
    except KeyError as error:
        raise LineError(f"it has no field {error}") from error
    except (TensorIRError, TypeError, ValueError, OverflowError) as error:
        raise LineError(str(error)) from error
    if not result.costs:
        raise LineError("it has no costs")
    if not all(0 < cost < math.inf for cost in result.costs):
        raise LineError(f"its costs are {list(result.costs)}; they are seconds above 0")
    config.cost = sum(result.costs) / len(result.costs)
    return MeasureInput(task.target, task, config), result


def load_from_file(filepath: PathLike) -> Iterator[Record]:
    """Yield the records of a log; see `load_from_buffer`. OSError for one that cannot be opened."""
    with open(filepath, encoding="utf-8", errors="replace") as file:
        yield from load_from_buffer(file)


def load_from_buffer(file: Iterable[str]) -> Iterator[Record]:
    """Yield the records of an opened log.

    Blank lines and those that begin with # are passed over. Lines that are no records, a last one
    that was cut short say, are left out, and one warning at the end names them and counts them.
    """
    refused: list[str] = []
    outdated = 0
    for number, line in enumerate(file, 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            record = decode(line)
        except LineError as error:
            refused.append(f"line {number}: {error}")
            continue
        if record is None:
            outdated += 1
        else:
            yield record
    name = getattr(file, "name", "the log")
    if refused:
        rest = len(refused) - _MOST_NAMED
        named = [*refused[:_MOST_NAMED], *([f"and {rest} more"] if rest > 0 else [])]
        logger.warning("%s: left out %d line(s): %s", name, len(refused), "; ".join(named))
    if outdated:
        logger.warning("%s: left out %d line(s) of log format 0.1", name, outdated)


def append_to_file(filepath: PathLike, records: Iterable[Record]) -> None:
    """Append records to a log, each line in one write.

    A process that is killed loses at most the line it was at; that is ended before the next.
    """
    with open(filepath, "a+b", buffering=0) as file:
        start = b""
        if file.seek(0, os.SEEK_END) > 0:
            file.seek(-1, os.SEEK_END)
            start = b"" if file.read(1) == b"\n" else b"\n"
        for inp, result in records:
            file.write(start + f"{encode(inp, result)}\n".encode())
            start = b""


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
    """Replace a log; whoever reads it meanwhile sees the old one or the new one."""
    beside = f"{os.fspath(path)}.part"
    with open(beside, "w", encoding="utf-8") as file:
        file.writelines(f"{encode(inp, result)}\n" for inp, result in records)
    os.replace(beside, path)


def check_protocol(protocol: str) -> None:
    """Raise TemplateError for a protocol that is not written."""
    if protocol != "json":
        raise TemplateError(
            f"logs are written as 'json', not as {protocol!r}; reading pickles would run code"
        )


@lru_cache(maxsize=64)
def _target(text: str) -> Target:
    """Return the target of a line; most lines of a log have the same."""
    return Target(text.replace(" -target=", " -mtriple="))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def _package_version() -> str:
    try:
        return version("tensorir")
    except PackageNotFoundError:
        return "0"
