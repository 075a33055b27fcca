"""Logs: files of measurements, read, appended to, and split or reduced to their best records."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from typing import Any, Final

from search.autotvm.errors import TemplateError
from search.autotvm.measure.measurement import MeasureInput, MeasureResult
from search.autotvm.record.encoding import Record, decode, encode
from search.records.appended_file import PathLike
from search.records.measure_error_no import MeasureErrorNo
from search.records.record_files import RecordFiles

logger = logging.getLogger("autotvm")


def _no_log(given: object) -> TemplateError:
    return TemplateError(f"a log is a path, an opened file or records, got {type(given).__name__}")


LOGS: Final[RecordFiles[Record]] = RecordFiles(
    lambda: decode, encode, (MeasureInput, MeasureResult), _no_log, logger
)


def load_from_file(filepath: PathLike) -> Iterator[Record]:
    """Yield the records of a log; see `load_from_buffer`. OSError for one that cannot be opened."""
    return LOGS.load(filepath)


def load_from_buffer(file: Iterable[str]) -> Iterator[Record]:
    """Yield the records of an opened log; lines that are no records are left out with a warning."""
    return (record for _, record in LOGS.lines(file))


def records_of(records: Any) -> Iterator[Record]:
    """Yield the records of what `Records` are, one source after the other.

    TemplateError for what is neither a log nor records.
    """
    return LOGS.records(records)


def append_to_file(filepath: PathLike, records: Iterable[Record]) -> None:
    """Append records to a log, each line in one write."""
    LOGS.append(filepath, records)


def measure_str_key(inp: MeasureInput, include_config: bool = True) -> str:
    """Return a text that tells measurements apart: target, task, and configuration."""
    config = str(inp.config) if include_config else ""
    return f"{inp.target}{inp.task.name}{inp.task.args}{inp.task.kwargs}{config}"


def pick_best(in_file: PathLike, out_file: PathLike) -> int:
    """Write the fastest record of each task and target of a log to another, and return how many.

    Records that the other log has already compete, and its records that are not beaten stay first.
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
        LOGS.replace(name, records)
    return names
