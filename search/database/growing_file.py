"""Files of lines that several processes append to, read as far as they go."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from search.errors import DatabaseError
from search.records.appended_file import append, locked, locked_for_reading
from search.records.record_lines import warn_of_left_out
from tensorir.replaced_file import replaced_file

logger = logging.getLogger("tensorir.search")

_CHUNK: Final = 1 << 22
"""Bytes read at once."""
_BEGINNING: Final = 4096


class Line(NamedTuple):
    """A line of a file: its number from 1, where it starts in bytes, and its text without end.

    `is_ended` is False for a last line behind which the file ends.
    """

    number: int
    offset: int
    text: bytes
    is_ended: bool = True


Take = Callable[[Line], None]
"""Takes a line, or refuses it by DatabaseError."""


class GrowingFile:
    """A file of lines, and how much of it was read.

    `begins` is what every line of such a file begins with: a file that begins otherwise is another
    file, and neither read nor written. DatabaseError for that, if the system refuses, and for a
    file that was replaced since it was first read.
    """

    def __init__(self, path: Path, begins: bytes = b"[") -> None:
        self.path = path
        self._begins = begins
        self._bytes_read = 0
        self._lines_read = 0
        self._ends_open = False
        """True if the last line that was read had no end."""
        self._torn_at: int | None = None
        """The start of a last line that is not whole, once it was warned of."""
        self.unreadable: dict[int, str] = {}
        """Why a line could not be read, by the number of the line."""
        self._identity: tuple[int, int] | None = None

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes from writing; the file and its directory are made if need be."""
        with contextlib.ExitStack() as stack:
            with refusals_named(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(self.path))
            yield

    @contextlib.contextmanager
    def lock_for_reading(self) -> Iterator[None]:
        """Wait until nobody writes; the file is not changed, and need not be there."""
        with contextlib.ExitStack() as stack:
            with refusals_named(self.path):
                stack.enter_context(locked_for_reading(self.path))
            yield

    def catch_up(self, take: Take) -> None:
        """Give `take` what was written since the last time; see `read_new`."""
        with self.lock_for_reading():
            self.read_new(take)

    @contextlib.contextmanager
    def appending(self, take: Take) -> Iterator[None]:
        """Keep other processes from writing, after `take` got all that they have written."""
        with self.lock():
            self.read_new(take)
            self.end_torn_line(take)
            yield

    def read_new(self, take: Take) -> None:
        """Give `take` each line that was not read before and is not blank, within a lock.

        Lines that it refuses are left out, and one warning names them. A last line without its end
        is taken if it is whole. If it is not, its writer was killed: it is not counted as read, and
        `end_torn_line` ends it.
        """
        refused: list[str] = []
        with self._opened() as file:
            if file is None:
                return
            if not self._bytes_read:
                self._check_beginning(file.read(_BEGINNING))
            file.seek(self._bytes_read)
            if self._ends_open and (end := file.read(1)):
                self._ends_open = False
                self._bytes_read += end == b"\n"
                file.seek(self._bytes_read)
            rest = b""
            while chunk := file.read(_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._take(line, take, refused)
        if rest:
            self._take_tail(rest, take)
        warn_of_left_out(self.path, refused, logger)

    def _check_beginning(self, text: bytes) -> None:
        text = text.lstrip()
        if text and not text.startswith(self._begins):
            raise DatabaseError(
                f"{self.path}: this is no file of records, and was left as it is: their lines "
                f"begin with {self._begins.decode()}, it begins with {text[:20]!r}"
            )

    def _take(self, text: bytes, take: Take, refused: list[str]) -> None:
        line = Line(self._lines_read + 1, self._bytes_read, text)
        self._bytes_read += len(text) + 1
        self._lines_read += 1
        if text.strip():
            try:
                take(line)
            except DatabaseError as error:
                reason = str(error).partition("\n")[0]
                self.unreadable[line.number] = reason
                if line.offset != self._torn_at:
                    refused.append(f"line {line.number}: {reason}")

    def _take_tail(self, text: bytes, take: Take) -> None:
        line = Line(self._lines_read + 1, self._bytes_read, text, is_ended=False)
        try:
            if text.strip():
                take(line)
        except DatabaseError:
            if self._torn_at != line.offset:
                self._torn_at = line.offset
                reason = f"its {len(text)} byte(s) are cut short, as by a process that was killed"
                self.unreadable[line.number] = reason
                logger.warning(
                    "%s: left out line %d, the last one: %s", self.path, line.number, reason
                )
            return
        self.unreadable.pop(line.number, None)
        self._bytes_read += len(text)
        self._lines_read += 1
        self._ends_open = True

    def end_torn_line(self, take: Take) -> None:
        """End a last line that was cut short, and read it as any other, within `lock`.

        That is done before something is written, so that whoever counts lines counts the same.
        """
        if self._torn_at == self._bytes_read:
            self._append(b"")
            self.read_new(take)

    def append(self, texts: Sequence[str]) -> list[Line]:
        """Write lines and count them as read, within `lock`; all others were read before.

        If the system takes only a part, none is kept.
        """
        lines = []
        offset = self._bytes_read + self._ends_open
        for number, text in enumerate(texts, self._lines_read + 1):
            line = Line(number, offset, text.encode())
            lines.append(line)
            offset += len(line.text) + 1
        self._append(b"".join(line.text + b"\n" for line in lines))
        self._bytes_read = offset
        self._lines_read += len(lines)
        self._ends_open = False
        return lines

    def _append(self, data: bytes) -> None:
        with refusals_named(self.path):
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                append(descriptor, data)
            finally:
                os.close(descriptor)

    def read(self, offset: int, length: int) -> bytes:
        """Return a part that was read before."""
        with self._opened() as file:
            if file is None:
                return b""
            file.seek(offset)
            return file.read(length)

    def rewrite(self, texts: Iterable[bytes]) -> None:
        """Replace the file by one with these lines, of which none is read; at no time is it half.

        Others who have the file open learn that it was replaced.
        """
        with refusals_named(self.path), replaced_file(self.path) as file:
            file.writelines(text + b"\n" for text in texts)
        self._bytes_read = self._lines_read = 0
        self._ends_open, self._torn_at = False, None
        self._identity = None
        self.unreadable.clear()

    @contextlib.contextmanager
    def _opened(self) -> Iterator[BinaryIO | None]:
        """Give the file to read; None if there is none and never was."""
        with refusals_named(self.path):
            if self._identity is None and not self.path.exists():
                yield None
                return
            file = self.path.open("rb")
        with file:
            status = os.fstat(file.fileno())
            identity = (status.st_dev, status.st_ino)
            self._identity = self._identity or identity
            if identity != self._identity or status.st_size < self._bytes_read:
                shorter = " by a shorter one" if status.st_size < self._bytes_read else ""
                raise DatabaseError(
                    f"{self.path}: the file was replaced{shorter} while it was in use; open the "
                    "database anew"
                )
            yield file


def json_line(obj: Any) -> str:
    """Return plain data as one compact line, the keys of objects sorted."""
    return json.dumps(obj, separators=(",", ":"), sort_keys=True, allow_nan=False)


def json_of(text: bytes | str) -> Any:
    """Return the content of a line; DatabaseError if it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DatabaseError(f"not a line of JSON: {error}") from error


def is_number(value: Any) -> bool:
    """Say whether a value of JSON is a finite number that a float can hold."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


@contextlib.contextmanager
def refusals_named(path: Path) -> Iterator[None]:
    """Make an OSError a DatabaseError that names the file and says what the system said."""
    try:
        yield
    except OSError as error:
        raise DatabaseError(
            f"{path} cannot be read or written: {error.strerror or error}. Nothing was changed; "
            "make room, or give a work_dir that can be written"
        ) from error
