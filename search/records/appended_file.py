"""Files that several processes append lines to, and that are replaced as a whole.

This is the one way in which the search writes files of lines: databases, trials, logs of
measurements, the journal of a run. A writer has the lock of the file (`flock`), which the system
lets go when its process ends, however that ends. A line that a killed writer left without its end
stays where it is; the next writer ends it before its own, so that it costs nothing but itself.

What was written was handed to the system and not to the disk (no `fsync`, which would take longer
than many a measurement): it survives the end of the process, but not a loss of power in the seconds
after it. A file that is replaced is on the disk before it takes the place of the old one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from search.records.file_lock import share_lock, take_lock
from tensorir.replaced_file import replaced_file

PathLike: TypeAlias = "str | os.PathLike[str]"

_CHANGEABLE: Final = 0o666


@contextlib.contextmanager
def locked(path: PathLike) -> Iterator[int]:
    """Wait for the lock of a file, which is made if need be; give a descriptor to append to it.

    Inside of the `with` no other process writes. If the file was replaced meanwhile, it is the lock
    of the new one. Raises OSError if the system refuses.
    """
    descriptor = opened_locked(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def opened_locked(path: PathLike, wait: bool = True) -> int:
    """Return a descriptor that has the lock of a file until it is closed; see `locked`.

    Without `wait`, BlockingIOError is raised while another has it.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, _CHANGEABLE)
        try:
            take_lock(descriptor, wait)
            if _is_file_at(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


@contextlib.contextmanager
def locked_for_reading(path: PathLike) -> Iterator[None]:
    """Wait until nobody writes to a file, and keep writers waiting; the file may be missing.

    The file is neither made nor changed, and may be one that this process cannot write.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        yield
        return
    try:
        share_lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def _is_file_at(path: PathLike, descriptor: int) -> bool:
    """Say whether an open file is the one at a path: it was not replaced or removed."""
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def append(descriptor: int, data: bytes) -> None:
    """Append to a file whose lock the caller has; a last line without its end is ended before.

    If the system takes only a part (a full disk), none of it is kept. OSError says why.
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
    """Append lines to a file under its lock; a process that is killed loses the line it was at."""
    with locked(path) as descriptor:
        for line in lines:
            append(descriptor, f"{line}\n".encode())


def replace_lines(path: PathLike, lines: Iterable[str]) -> None:
    """Replace a file; whoever reads it meanwhile sees the old one or the new one.

    Who makes the new lines from the old ones does both inside of one `with locked(path)`.
    """
    with replaced_file(path) as file:
        file.writelines(f"{line}\n".encode() for line in lines)
