"""Logs: files of measurements, read, appended to and replaced."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from typing import IO, Any, TypeAlias, TypeGuard

from search.autotvm.errors import TemplateError
from search.autotvm.measure.measurement import MeasureInput, MeasureResult
from search.autotvm.record.encoding import Record, decode, encode
from search.records.appended_file import PathLike, append_lines, replace_lines
from search.records.record_lines import numbered_records

logger = logging.getLogger("autotvm")

Records: TypeAlias = "str | bytes | os.PathLike[str] | IO[str] | Iterable[Any]"
"""A log by name or opened, records, or several of those."""


def load_from_file(filepath: PathLike) -> Iterator[Record]:
    """Yield the records of a log; see `load_from_buffer`. OSError for one that cannot be opened."""
    with open(os.fspath(filepath), encoding="utf-8", errors="replace") as file:
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


def records_of(records: Any) -> Iterator[Record]:
    """Yield the records of what `Records` are, one source after the other.

    TemplateError for what is neither a log nor records.
    """
    if isinstance(records, (str, bytes, os.PathLike)):
        yield from load_from_file(os.fsdecode(records))
    elif hasattr(records, "readline"):
        yield from load_from_buffer(records)
    elif _is_record(records):
        yield records
    elif isinstance(records, Iterable):
        for one in records:
            yield from records_of(one)
    else:
        raise TemplateError(
            f"a log is a path, an opened file or records, got {type(records).__name__}"
        )


def _is_record(value: Any) -> TypeGuard[Record]:
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and isinstance(value[0], MeasureInput)
        and isinstance(value[1], MeasureResult)
    )


def append_to_file(filepath: PathLike, records: Iterable[Record]) -> None:
    """Append records to a log, each line in one write; see `append_lines`."""
    append_lines(filepath, (encode(inp, result) for inp, result in records))


def replace_file(path: PathLike, records: Iterable[Record]) -> None:
    """Replace a log; whoever reads it meanwhile sees the old one or the new one."""
    replace_lines(path, (encode(inp, result) for inp, result in records))
