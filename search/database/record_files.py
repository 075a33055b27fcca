"""Logs of measurements in the formats of AutoTVM and Ansor: files with a record a line.

A format is a `RecordFiles`: how a line becomes a record and a record a line. Instead of a file one
may give an opened one, records, or several of all that.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import IO, Any, Final, Generic, TypeAlias, TypeVar

from codegen import Target
from search.errors import TuningError
from search.lines import (
    PathLike,
    append_lines,
    locked,
    replace_lines,
    warn_of_left_out,
)

R = TypeVar("R")

Records: TypeAlias = "PathLike | bytes | IO[str] | Iterable[Any]"
"""A log by name or opened, records, or several of those."""

_OF_LINKING: Final = re.compile(
    r" -(?:link-params|system-lib|runtime|executor|interface-api|unpacked-api)=\S+"
)


class LineError(TuningError, ValueError):
    """A line of a log is no record."""


class RecordLines(Generic[R]):
    """The records of an opened log, each with the number of its line, from 1; they are read once.

    Blank lines and those that begin with # are passed over. Those that `decode` refuses by
    LineError, a last one that was cut short say, are left out; at the end one warning counts them
    and names the first. None is what it returns for a line of AutoTVM's log format 0.1, which is
    left out with a warning of its own.
    """

    def __init__(
        self, lines: Iterable[str], decode: Callable[[str], R | None], logger: logging.Logger
    ) -> None:
        self.left_out = 0
        self._lines, self._decode, self._logger = lines, decode, logger

    def __iter__(self) -> Iterator[tuple[int, R]]:
        refused = []
        outdated = 0
        for number, line in enumerate(self._lines, 1):
            if not line.strip() or line.startswith("#"):
                continue
            try:
                record = self._decode(line)
            except LineError as error:
                refused.append(f"line {number}: {error}")
                continue
            if record is None:
                outdated += 1
            else:
                yield number, record
        self.left_out = len(refused) + outdated
        name = getattr(self._lines, "name", "the log")
        warn_of_left_out(name, refused, self._logger)
        if outdated:
            self._logger.warning("%s: left out %d line(s) of log format 0.1", name, outdated)


@dataclass(frozen=True)
class RecordFiles(Generic[R]):
    """A format of files with a record a line."""

    decoder: Callable[[], Callable[[str], R | None]]
    """Makes a reader of the lines of one file; see `RecordLines`."""
    encode: Callable[..., str]
    """Returns the line of a record, whose parts are its arguments."""
    kinds: tuple[type, type]
    """What a record is made of: the input of a measurement and its result."""
    refusal: Callable[[object], TuningError]
    """Returns the error for what is neither a file nor records."""
    logger: logging.Logger

    def is_record(self, value: object) -> bool:
        """Say whether a value is an input and a result."""
        return (
            isinstance(value, tuple)
            and len(value) == len(self.kinds)
            and all(map(isinstance, value, self.kinds))
        )

    def lines(self, file: Iterable[str]) -> RecordLines[R]:
        """Return the records of an opened file."""
        return RecordLines(file, self.decoder(), self.logger)

    def numbered(self, path: PathLike) -> Iterator[tuple[int, R]]:
        """Yield the records of a file with their lines. OSError if it cannot be opened."""
        with open(os.fspath(path), encoding="utf-8", errors="replace") as file:
            yield from self.lines(file)

    def load(self, path: PathLike) -> Iterator[R]:
        """Yield the records of a file; see `numbered`."""
        return (record for _, record in self.numbered(path))

    def sources(self, given: Any) -> Iterator[tuple[str, Iterator[tuple[str, R]]]]:
        """Yield each file among what was given, and the records between them, by name.

        The records come with their places, `line 3` or `record 3`.
        """
        if isinstance(given, (str, bytes, os.PathLike)):
            path = os.fsdecode(given)
            yield path, _placed("line", self.numbered(path))
        elif hasattr(given, "readline"):
            yield str(getattr(given, "name", "the records")), _placed("line", self.lines(given))
        elif self.is_record(given):
            yield from self.sources([given])
        elif not isinstance(given, Iterable):
            raise self.refusal(given)
        else:
            for are_records, some in groupby(given, self.is_record):
                if are_records:
                    yield "the records", _placed("record", enumerate(list(some), 1))
                else:
                    for one in some:
                        yield from self.sources(one)

    def records(self, given: Any) -> Iterator[R]:
        """Yield the records of what was given, one source after the other."""
        return (record for _, placed in self.sources(given) for _, record in placed)

    def append(self, path: PathLike, records: Iterable[Sequence[Any]]) -> None:
        """Append records to a file, each line in one write; see `append_lines`."""
        append_lines(path, (self.encode(*record) for record in records))

    def replace(self, path: PathLike, records: Iterable[Sequence[Any]]) -> None:
        """Replace a file; whoever reads it meanwhile sees the old one or the new one."""
        replace_lines(path, (self.encode(*record) for record in records))

    def reduce(
        self, in_file: PathLike, out_file: PathLike, best: Callable[[list[R]], Iterable[Any]]
    ) -> tuple[int, int]:
        """Write the best of a file's records to another; return how many, and of how many.

        Those that the other has already compete, and come first. Nobody else writes to it
        meanwhile: of several processes that reduce into one file none loses what another one kept.
        """
        new = list(self.load(in_file))
        with locked(out_file):
            records = [*self.load(out_file), *new]
            kept = list(best(records))
            self.replace(out_file, kept)
        return len(kept), len(records)


def _placed(word: str, numbered: Iterable[tuple[int, R]]) -> Iterator[tuple[str, R]]:
    return ((f"{word} {number}", record) for number, record in numbered)


def json_object(line: str) -> dict[str, Any]:
    """Return the JSON object of a line; LineError if it is none."""
    try:
        fields = json.loads(line.rstrip())
    except json.JSONDecodeError as error:
        raise LineError(f"it is no JSON: {error.msg} at character {error.pos + 1}") from error
    except (ValueError, RecursionError) as error:
        raise LineError(f"it is no JSON: {error}") from error
    if not isinstance(fields, dict):
        raise LineError("it is no JSON object")
    return fields


def costs_of_line(costs: Any) -> tuple[float, ...]:
    """Return the costs that a line tells; LineError unless there are seconds above 0.

    TypeError or ValueError for what is no list of numbers.
    """
    seconds = tuple(float(cost) for cost in costs)
    if not seconds:
        raise LineError("it has no costs")
    if not all(0 < cost < math.inf for cost in seconds):
        raise LineError(f"its costs are {list(seconds)}; they are seconds above 0")
    return seconds


def target_of_line(text: Any) -> Target:
    """Return the target that a line names, without what earlier versions of TVM wrote into it.

    The old option -target is understood as -mtriple; options of how a library is linked and called
    say nothing of schedules and are left out.
    LineError for what is no text, TargetError for one that is not known.
    """
    if not isinstance(text, str):
        raise LineError(f"its target {text!r} is no text")
    return _target(text)


@lru_cache(maxsize=64)
def _target(text: str) -> Target:
    """Return a target; most lines of a log have the same."""
    return Target(_OF_LINKING.sub("", text).replace(" -target=", " -mtriple="))
