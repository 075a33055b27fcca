"""Files with a record a line, such as logs of measurements: read, written, and reduced to the best.

`RecordFiles` is a format of such files, told by how a line becomes a record and a record a line.
What was given in place of a file (one that is open, records, several of all that) is read the same.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import IO, Any, Generic, TypeAlias, TypeVar

from search.errors import TuningError
from search.records.appended_file import PathLike, append_lines, locked, replace_lines
from search.records.record_lines import RecordLines

R = TypeVar("R")

Records: TypeAlias = "PathLike | bytes | IO[str] | Iterable[Any]"
"""A log by name or opened, records, or several of those."""


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
