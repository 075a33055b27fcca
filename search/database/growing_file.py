"""Files of lines that several processes append to."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from search.errors import DatabaseError
from tensorir.replaced_file import replaced_file

logger = logging.getLogger("tvm.meta_schedule")

_CHUNK: Final = 1 << 22
"""Bytes read at once."""


class Line(NamedTuple):
    """A line of a file: its number from 1, where it starts in bytes, and its text without end."""

    number: int
    offset: int
    text: bytes


class GrowingFile:
    """A file of lines, and how much of it was read.

    `lock` keeps other processes out; `new_lines` and `append` are called within it. DatabaseError
    if the system refuses, and for a file that was replaced since it was first read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bytes_read = 0
        self._lines_read = 0
        self._identity: tuple[int, int] | None = None

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Wait until no other process has the lock, and have it. A process that dies lets it go."""
        with refusals_named(self.path):
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def new_lines(self) -> Iterator[Line]:
        """Yield each line not read before that is not blank; one the caller refuses is not read.

        A last line that was cut short is removed: who was writing it had the lock, so it is dead.
        """
        with self._opened() as file:
            file.seek(self._bytes_read)
            rest = b""
            while chunk := file.read(_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield Line(self._lines_read + 1, self._bytes_read, line)
                    self._bytes_read += len(line) + 1
                    self._lines_read += 1
        if rest:
            logger.warning(
                "%s: the last line was cut short when its process ended; dropped %d byte(s), kept "
                "%d line(s)",
                self.path,
                len(rest),
                self._lines_read,
            )
            with refusals_named(self.path):
                os.truncate(self.path, self._bytes_read)

    def append(self, texts: Sequence[str]) -> list[Line]:
        """Write lines and count them as read; all others were read before.

        If the system takes only a part, none is kept.
        """
        lines = []
        offset = self._bytes_read
        for number, text in enumerate(texts, self._lines_read + 1):
            line = Line(number, offset, text.encode())
            lines.append(line)
            offset += len(line.text) + 1
        with refusals_named(self.path):
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                _write_all(descriptor, b"".join(line.text + b"\n" for line in lines))
            except OSError:
                os.ftruncate(descriptor, self._bytes_read)
                raise
            finally:
                os.close(descriptor)
        self._bytes_read = offset
        self._lines_read += len(lines)
        return lines

    def read(self, offset: int, length: int) -> bytes:
        """Return a part that was read before."""
        with self._opened() as file:
            file.seek(offset)
            return file.read(length)

    def rewrite(self, texts: Iterable[bytes]) -> None:
        """Replace the file by one with these lines, of which none is read; at no time is it half.

        Others who have the file open learn that it was replaced.
        """
        with refusals_named(self.path), replaced_file(self.path) as file:
            file.writelines(text + b"\n" for text in texts)
        self._bytes_read = self._lines_read = 0
        self._identity = None

    @contextlib.contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        with refusals_named(self.path):
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


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def json_line(obj: Any) -> str:
    """Return plain data as one compact line, the keys of objects sorted."""
    return json.dumps(obj, separators=(",", ":"), sort_keys=True, allow_nan=False)


def json_of(text: bytes | str) -> Any:
    """Return the content of a line; DatabaseError if it is no JSON."""
    try:
        return json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DatabaseError(f"not a line of JSON: {error}") from error


@contextlib.contextmanager
def refusals_named(path: Path) -> Iterator[None]:
    """Make an OSError a DatabaseError that names the file and says what the system said."""
    try:
        yield
    except OSError as error:
        raise DatabaseError(
            f"{path}: the system refuses it: {error.strerror or error}. Nothing was changed; make "
            "room, or give a work_dir that can be written"
        ) from error


class located:  # noqa: N801  used like a function
    """Puts a place before what is wrong there."""

    def __init__(self, path: Path, line: Line) -> None:
        self._path = path
        self._line = line

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, DatabaseError):
            raise DatabaseError(f"{self._path}:{self._line.number}: {error}") from error
