"""Files of lines that several processes append to, and read while they grow.

The search writes all its files of lines in this way: databases, trials, logs of measurements, the
journal of a run. A writer holds the lock of the file (`flock` of POSIX), which the system releases
when the process ends. If a writer is killed within a line, the next writer ends that line first, so
only this line is lost.

Data are passed to the system without `fsync`, which would take longer than many measurements: they
survive the end of the process, but not a power failure in the seconds after it. A new file is
written to the disk before it replaces the old one.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias

from search.errors import DatabaseError, TuningError
from tensorir.paths import PathLike
from tensorir.replaced_file import replaced_file

try:
    import fcntl
except ImportError:  # on Windows: files are read and not written
    fcntl = None  # type: ignore[assignment]


logger = logging.getLogger("tensorir.search")

_CHANGEABLE: Final = 0o666
_MOST_NAMED: Final = 5


# ---------------------------------------------------------------------------------------- writing


def take_lock(descriptor: int, wait: bool = True) -> None:
    """Take the exclusive lock of an open file.

    Without `wait`, BlockingIOError is raised while another process has it. Raises TuningError if
    the system has no such locks, OSError if it refuses.
    """
    if fcntl is None:
        raise TuningError(
            "a search needs the file locks of POSIX (flock), which this system does not have; "
            "search on Linux or macOS, or on Windows in its subsystem for Linux (WSL)"
        )
    fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def opened_locked(path: PathLike, wait: bool = True) -> int:
    """Return a descriptor that has the lock of a file until it is closed; a missing file is made.

    If the file was replaced while this process waited, it has the lock of the new file. The errors
    are those of `take_lock`.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, _CHANGEABLE)
        try:
            take_lock(descriptor, wait)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.stat(path), os.fstat(descriptor)):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


@contextlib.contextmanager
def locked(path: PathLike) -> Iterator[int]:
    """Yield the descriptor of `opened_locked`; other processes do not write inside the block."""
    descriptor = opened_locked(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked_for_reading(path: PathLike) -> Iterator[None]:
    """Wait for writers of a file, and block new writers; DatabaseError if the system refuses.

    The file is not changed. It may be missing, or read-only for this process.
    """
    with contextlib.ExitStack() as stack:
        with refusals_named(path), contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield


def append(descriptor: int, data: bytes) -> None:
    """Append to a file whose lock the caller has, after ending an incomplete last line.

    If the system accepts only a part (a full disk), the file is restored and OSError raised.
    """
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        data = b"\n" + data
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(descriptor, left) :]
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def append_lines(path: PathLike, lines: Iterable[str]) -> None:
    """Append lines to a file under its lock; a killed process loses the line that it writes."""
    with locked(path) as descriptor:
        for line in lines:
            append(descriptor, f"{line}\n".encode())


def replace_lines(path: PathLike, lines: Iterable[str | bytes]) -> None:
    """Replace a file; a reader sees the old one or the new one.

    If the new lines depend on the old ones, do both inside one `with locked(path)`.
    """
    with replaced_file(path) as file:
        file.writelines(
            (line if isinstance(line, bytes) else line.encode()) + b"\n" for line in lines
        )


# ---------------------------------------------------------------------------------------- reading


class Line(NamedTuple):
    """A line of a file: its number from 1, its start in bytes, and its text without the end.

    `is_ended` is False for a last line without a newline.
    """

    number: int
    offset: int
    text: bytes
    is_ended: bool = True


Take: TypeAlias = Callable[[Line], None]
"""Accepts a line, or refuses it by DatabaseError."""


class LineFile:
    """A growing file of lines, which is read incrementally.

    Every line starts with `begins`; other files are of another kind and rejected. DatabaseError for
    that, if the system refuses, and for a file that was replaced since it was first read.
    """

    def __init__(self, path: Path, begins: bytes = b"[") -> None:
        self.path = path
        self._begins = begins
        self.forget()

    def forget(self) -> None:
        """Read the file from its start the next time."""
        self.unreadable: dict[int, str] = {}
        """The reasons of lines that cannot be read, by the number of the line."""
        self._bytes_read = self._lines_read = 0
        self._ends_open = False
        """True if the last line that was read had no newline."""
        self._torn_at: int | None = None
        """The start of an incomplete last line for which there was a warning."""
        self._identity: tuple[int, int] | None = None

    @property
    def left_out(self) -> int:
        """The number of lines that were read and refused."""
        return sum(number <= self._lines_read for number in self.unreadable)

    def read_new(self, take: Take) -> None:
        """Pass each new line that is not blank to `take`; the caller holds the lock.

        Refused lines are skipped, and one warning names them. A last line without a newline is
        accepted if `take` accepts it. Otherwise its writer was killed: it is read again next time.
        """
        refused: list[str] = []
        with self._open_at() as file:
            for text in file or ():
                if text == b"\n" and self._ends_open:
                    self._bytes_read += 1  # the newline of the line before
                    self._ends_open = False
                    continue
                line = Line(
                    self._lines_read + 1, self._bytes_read, text.rstrip(b"\n"), text[-1:] == b"\n"
                )
                reason = _refusal(line, take)
                if reason and not line.is_ended:
                    self._warn_of_torn(line)
                    break
                if reason and line.offset != self._torn_at:
                    refused.append(f"line {line.number}: {reason}")
                self.unreadable.pop(line.number, None)
                if reason:
                    self.unreadable[line.number] = reason
                self._bytes_read += len(text)
                self._lines_read += 1
                self._ends_open = not line.is_ended
        warn_of_left_out(self.path, refused, logger)

    def _warn_of_torn(self, line: Line) -> None:
        if self._torn_at != line.offset:
            self._torn_at = line.offset
            reason = f"its {len(line.text)} byte(s) are cut short, as by a process that was killed"
            self.unreadable[line.number] = reason
            logger.warning("%s: left out line %d, the last one: %s", self.path, line.number, reason)

    def part(self, offset: int, length: int) -> bytes:
        """Return bytes that were read before."""
        with self._open_at(offset) as file:
            return b"" if file is None else file.read(length)

    @contextlib.contextmanager
    def _open_at(self, offset: int | None = None) -> Iterator[BinaryIO | None]:
        """Yield the file at an offset, by default the first unread byte; None without a file."""
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
                    "database again"
                )
            if not self._bytes_read:
                text = file.read(4096).lstrip()
                if text and not text.startswith(self._begins):
                    raise DatabaseError(
                        f"{self.path} is not a file of records: it starts with {text[:20]!r}, not "
                        f"with {self._begins.decode()}; it was not changed; give "
                        "another place, or move the file away"
                    )
            file.seek(self._bytes_read if offset is None else offset)
            yield file


def _refusal(line: Line, take: Take) -> str:
    """Return the reason for which a line is refused, empty for an accepted or a blank line."""
    try:
        if line.text.strip():
            take(line)
    except DatabaseError as error:
        return str(error).partition("\n")[0]
    return ""


def warn_of_left_out(
    name: object, refused: Sequence[str], logger: logging.Logger, kind: str = "line"
) -> None:
    """Log one warning with the entries of a file that were left out, if there are any."""
    if refused:
        named = named_refusals(refused)
        logger.warning("%s: left out %d %s(s): %s", name, len(refused), kind, named)


def named_refusals(refused: Sequence[str]) -> str:
    """Return the first few of some texts, and the number of the others, as one text."""
    rest = len(refused) - _MOST_NAMED
    return "; ".join([*refused[:_MOST_NAMED], *([f"and {rest} more"] if rest > 0 else [])])


@contextlib.contextmanager
def refusals_named(path: PathLike) -> Iterator[None]:
    """Turn an OSError into a DatabaseError with the file and the reason."""
    try:
        yield
    except OSError as error:
        file = next((parent for parent in Path(path).parents if parent.is_file()), None)
        if file is not None:
            raise DatabaseError(
                f"{path} cannot be read or written: {file} is a file; give a directory"
            ) from error
        raise DatabaseError(
            f"{path} cannot be read or written: {error.strerror or error}. Nothing was changed; "
            "make room, or give a work_dir that can be written"
        ) from error


# --------------------------------------------------------------------------------------------- JSON


def json_line(obj: Any) -> str:
    """Return plain data as one compact line, the keys of objects sorted."""
    return json.dumps(obj, separators=(",", ":"), sort_keys=True, allow_nan=False)


def json_of(text: bytes | str) -> Any:
    """Return the content of a line; DatabaseError if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DatabaseError(f"not a line of JSON: {error}") from error


def is_number(value: Any) -> bool:
    """True if a value of JSON is a finite number that a float can represent."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max
