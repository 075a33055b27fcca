"""Logs: files of measurements, read, appended to and replaced."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from typing import IO, Any, Final, TypeAlias, TypeGuard

from search.autotvm.errors import TemplateError
from search.autotvm.measure import MeasureInput, MeasureResult
from search.autotvm.record.encoding import LineError, Record, decode, encode

logger = logging.getLogger("autotvm")

_MOST_NAMED: Final = 5

PathLike: TypeAlias = "str | os.PathLike[str]"
Records: TypeAlias = "str | bytes | os.PathLike[str] | IO[str] | Iterable[Any]"
"""A log by name or opened, records, or several of those."""


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


def replace_file(path: PathLike, records: Iterable[Record]) -> None:
    """Replace a log; whoever reads it meanwhile sees the old one or the new one."""
    beside = f"{os.fspath(path)}.part"
    with open(beside, "w", encoding="utf-8") as file:
        file.writelines(f"{encode(inp, result)}\n" for inp, result in records)
    os.replace(beside, path)
