"""Writing files that replace others as a whole."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replaced_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Give a file to write; at the end of the `with` it replaces the file at `path`.

    A reader sees the old file or the new one, never half of it, and of several writers the last one
    counts. The permissions of the old one stay. If the `with` is left by an exception, so does the
    old file. Raises OSError if the system refuses.
    """
    target = Path(path)
    beside = target.parent / f".{target.name}.{secrets.token_hex(8)}"
    try:
        with beside.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            beside.chmod(target.stat().st_mode)
        beside.replace(target)
    except BaseException as error:
        beside.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename == os.fspath(beside):
            error.filename = os.fspath(path)  # the caller's name
        raise
