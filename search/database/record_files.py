"""Logs of measurements in the formats of AutoTVM and Ansor: files with a record in each line.

A format is a `RecordFiles`, which converts lines to records and back. Its input is a file name, an
open file, records, or several of these.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from itertools import groupby
from typing import IO, TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from codegen import Target
from search.errors import TuningError
from search.lines import append_lines, locked, replace_lines, warn_of_left_out
from tensorir.paths import PathLike

if TYPE_CHECKING:
    from codegen.worker_pool import Ending
    from search.builder import BuilderResult
    from search.runner import RunnerResult


R = TypeVar("R")

Records: TypeAlias = "PathLike | bytes | IO[str] | Iterable[Any]"
"""A log by name or as an open file, records, or several of those."""

_OF_LINKING: Final = re.compile(
    r" -(?:link-params|system-lib|runtime|executor|interface-api|unpacked-api)=\S+"
)


class LineError(TuningError, ValueError):
    """A line of a log is not a record."""


class RecordLines(Generic[R]):
    """The records of an open log, each with the number of its line, from 1; they are read once.

    Blank lines and lines that start with # are ignored. Lines for which `decode` raises LineError
    are skipped; one warning at the end has their number and the first few. Lines for which it
    returns None are in AutoTVM's log format 0.1, and are skipped with a second warning.
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
    """A format of files with a record in each line."""

    decoder: Callable[[], Callable[[str], R | None]]
    """Returns a reader of the lines of one file; see `RecordLines`."""
    encode: Callable[..., str]
    """Returns the line of a record, whose parts are its arguments."""
    kinds: tuple[type, type]
    """The classes of the parts of a record: the input of a measurement and its result."""
    refusal: Callable[[object], TuningError]
    """Returns the error for an invalid input."""
    logger: logging.Logger

    def is_record(self, value: object) -> bool:
        """True if a value is an input and a result."""
        return (
            isinstance(value, tuple)
            and len(value) == len(self.kinds)
            and all(map(isinstance, value, self.kinds))
        )

    def lines(self, file: Iterable[str]) -> RecordLines[R]:
        """Return the records of an open file."""
        return RecordLines(file, self.decoder(), self.logger)

    def numbered(self, path: PathLike) -> Iterator[tuple[int, R]]:
        """Yield the records of a file with their lines. Raises OSError if it cannot be opened."""
        with open(os.fspath(path), encoding="utf-8", errors="replace") as file:
            yield from self.lines(file)

    def load(self, path: PathLike) -> Iterator[R]:
        """Yield the records of a file; see `numbered`."""
        return (record for _, record in self.numbered(path))

    def sources(self, given: Any) -> Iterator[tuple[str, Iterator[tuple[str, R]]]]:
        """Yield the name and the records of each file in the input.

        Consecutive records in the input count as one file, `the records`. Each record comes with
        its position, `line 3` or `record 3`.
        """
        if isinstance(given, (str, bytes, os.PathLike)):
            path = os.fsdecode(given)
            yield path, _with_places("line", self.numbered(path))
        elif hasattr(given, "readline"):
            yield (
                str(getattr(given, "name", "the records")),
                _with_places("line", self.lines(given)),
            )
        elif self.is_record(given):
            yield from self.sources([given])
        elif not isinstance(given, Iterable):
            raise self.refusal(given)
        else:
            for are_records, some in groupby(given, self.is_record):
                if are_records:
                    yield "the records", _with_places("record", enumerate(list(some), 1))
                else:
                    for one in some:
                        yield from self.sources(one)

    def records(self, given: Any) -> Iterator[R]:
        """Yield the records of all sources of the input."""
        return (record for _, placed in self.sources(given) for _, record in placed)

    def append(self, path: PathLike, records: Iterable[Sequence[Any]]) -> None:
        """Append records to a file; see `append_lines`."""
        append_lines(path, (self.encode(*record) for record in records))

    def replace(self, path: PathLike, records: Iterable[Sequence[Any]]) -> None:
        """Replace a file; see `replace_lines`."""
        replace_lines(path, (self.encode(*record) for record in records))

    def reduce(
        self, in_file: PathLike, out_file: PathLike, best: Callable[[list[R]], Iterable[Any]]
    ) -> tuple[int, int]:
        """Write the best records of two files to the second; return their number, and of all.

        The records of the second file come first. Several processes may reduce into one file: they
        wait for each other.
        """
        new = list(self.load(in_file))
        with locked(out_file):
            records = [*self.load(out_file), *new]
            kept = list(best(records))
            self.replace(out_file, kept)
        return len(kept), len(records)


def _with_places(word: str, numbered: Iterable[tuple[int, R]]) -> Iterator[tuple[str, R]]:
    return ((f"{word} {number}", record) for number, record in numbered)


def json_object(line: str) -> dict[str, Any]:
    """Return the JSON object of a line; LineError for anything else."""
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
    """Return the costs in a line; LineError unless all are seconds above 0.

    Raises TypeError or ValueError unless they are a list of numbers.
    """
    seconds = tuple(float(cost) for cost in costs)
    if not seconds:
        raise LineError("it has no costs")
    if not all(0 < cost < math.inf for cost in seconds):
        raise LineError(f"its costs are {list(seconds)}; they are seconds above 0")
    return seconds


def target_of_line(text: Any) -> Target:
    """Return the target in a line, without options of earlier versions of TVM.

    The old option -target becomes -mtriple; options for linking and calling a library do not
    affect schedules and are dropped. Raises LineError unless it is a text, TargetError for an
    unknown target.
    """
    if not isinstance(text, str):
        raise LineError(f"its target {text!r} is no text")
    return _target(text)


@lru_cache(maxsize=64)
def _target(text: str) -> Target:
    """Return a target; most lines of a log have the same one."""
    return Target(_OF_LINKING.sub("", text).replace(" -target=", " -mtriple="))


class MeasureErrorNo(IntEnum):
    """The outcome of a measurement, with its number in logs."""

    NO_ERROR = 0
    INSTANTIATION_ERROR = 1
    """The template refused the configuration."""
    COMPILE_HOST = 2
    COMPILE_DEVICE = 3
    RUNTIME_DEVICE = 4
    """It failed while it ran, or the worker that built it died."""
    WRONG_ANSWER = 5
    BUILD_TIMEOUT = 6
    RUN_TIMEOUT = 7
    UNKNOWN_ERROR = 8

    @staticmethod
    def of_trial(build: BuilderResult, run: RunnerResult) -> MeasureErrorNo:
        """Return the outcome of a trial; a run that was stopped early is a RUN_TIMEOUT."""
        if build.error_msg is not None:
            return _OF_BUILD.get(build.ending, MeasureErrorNo.COMPILE_HOST)
        if run.stopped:
            return MeasureErrorNo.RUN_TIMEOUT
        if run.error_msg is None:
            return MeasureErrorNo.NO_ERROR
        if run.stage == "check":
            return MeasureErrorNo.WRONG_ANSWER
        if run.stage == "build":
            return _OF_BUILD.get(run.ending, MeasureErrorNo.COMPILE_HOST)
        return _OF_RUN.get(run.ending, MeasureErrorNo.UNKNOWN_ERROR)

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


_OF_BUILD: Final[Mapping[Ending, MeasureErrorNo]] = {
    "timeout": MeasureErrorNo.BUILD_TIMEOUT,
    "crash": MeasureErrorNo.RUNTIME_DEVICE,
    "lost": MeasureErrorNo.RUNTIME_DEVICE,
    "cancelled": MeasureErrorNo.RUNTIME_DEVICE,
}
_OF_RUN: Final[Mapping[Ending, MeasureErrorNo]] = {
    "timeout": MeasureErrorNo.RUN_TIMEOUT,
    "error": MeasureErrorNo.RUNTIME_DEVICE,
    "crash": MeasureErrorNo.RUNTIME_DEVICE,
}
