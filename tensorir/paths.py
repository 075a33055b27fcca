"""The check that an argument is the path of a file or a directory."""

from __future__ import annotations

import os
import reprlib
from pathlib import Path
from typing import TypeAlias

from tensorir.errors import IRTypeError

PathLike: TypeAlias = str | os.PathLike[str]


def as_path(value: PathLike, name: str = "path") -> Path:
    """Return a path; IRTypeError for a value of another type. `name` is that of the argument."""
    if not isinstance(value, (str, os.PathLike)):
        raise IRTypeError(
            f"{name} names a file or a directory, as text or a pathlib.Path, got "
            f"{type(value).__name__}: {reprlib.repr(value)}"
        )
    return Path(value)
