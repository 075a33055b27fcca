"""Writing files atomically."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from tensorir.paths import as_path


@contextmanager
def replaced_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing in a `with` statement.

    At its end the file replaces the one at `path`. A reader sees either the complete old file or
    the complete new one; the last of several writers wins. The permissions of the old file are
    kept. An exception inside the statement keeps the old file. Raises OSError if the file cannot be
    written.
    """
    target = as_path(path)
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
            error.filename = os.fspath(path)  # name the file as the caller did
        raise
