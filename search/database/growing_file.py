"""Files of JSON lines that several processes append to."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from search.errors import DatabaseError

logger = logging.getLogger("tvm.meta_schedule")


class GrowingFile:
    """A file of JSON lines, and how much of it was read.

    `lock` keeps other processes out; `new_lines` and `append` are called within it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bytes_read = 0
        self._lines_read = 0

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Wait until no other process has the lock, and have it. A process that dies lets it go."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def new_lines(self) -> Iterator[tuple[str, Any]]:
        """Yield the place and the content of each line not read before.

        A last line that was cut short is removed: who was writing it had the lock, so it is dead.
        DatabaseError for a line that is no JSON, and for a file that has become shorter.
        """
        with self.path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            if size < self._bytes_read:
                raise DatabaseError(
                    f"{self.path}: the file was replaced by a shorter one while it was in use; "
                    "open the database anew"
                )
            file.seek(self._bytes_read)
            data = file.read()
        end = data.rfind(b"\n") + 1
        lines = data[:end].split(b"\n")[:-1]
        if end < len(data):
            logger.warning(
                "%s: the last line was cut short when its process ended; dropped %d byte(s), kept "
                "%d line(s)",
                self.path,
                len(data) - end,
                self._lines_read + len(lines),
            )
            os.truncate(self.path, self._bytes_read + end)
        for line in lines:
            where = f"{self.path}:{self._lines_read + 1}"
            if line.strip():
                try:
                    content = json.loads(line)
                except (json.JSONDecodeError, UnicodeDecodeError) as error:
                    raise DatabaseError(f"{where}: not a line of JSON: {error}") from error
                yield where, content
            self._bytes_read += len(line) + 1  # a line that the caller refused is not read
            self._lines_read += 1

    def append(self, obj: Any) -> None:
        """Write one line in one call and count it as read; all other lines were read before."""
        text = json.dumps(obj, separators=(",", ":"), sort_keys=True, allow_nan=False) + "\n"
        line = text.encode("ascii")
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
        self._bytes_read += len(line)
        self._lines_read += 1
