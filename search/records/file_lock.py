"""Locks of open files, which the system lets go when the file is closed or its process ends.

They are those of POSIX (`flock`). Where there are none, on Windows, files are read and not written.
"""

from __future__ import annotations

from search.errors import TuningError

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]


def take_lock(descriptor: int, wait: bool = True) -> None:
    """Take the lock of an open file, which nobody else has then, nor a share of it.

    Without `wait`, BlockingIOError is raised while somebody has it. Raises TuningError where the
    system has no such locks, and OSError if it refuses.
    """
    if fcntl is None:
        raise TuningError(
            "a search keeps its files apart from other processes by the file locks of POSIX "
            "(flock), which this system does not have; search on Linux or macOS, or on Windows in "
            "its subsystem for Linux (WSL)"
        )
    fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def share_lock(descriptor: int) -> None:
    """Take a share of the lock of an open file: others may have one too, but nobody writes.

    Where the system has no such locks nothing is done, since nobody writes there.
    """
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
