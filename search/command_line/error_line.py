"""An error as the line that the command line ends with: file, place, reason and remedy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from search.errors import ArgumentError
from tensorir.errors import TensorIRError


@contextlib.contextmanager
def checking_arguments() -> Iterator[None]:
    """Turn the errors about what arguments name into an ArgumentError with the same text."""
    try:
        yield
    except ArgumentError:
        raise
    except (TensorIRError, OSError) as error:
        raise ArgumentError(error_line(error)) from error


def error_line(error: BaseException) -> str:
    """Return what an error says in one line.

    What nobody raises on purpose is called by its class, as it is to be reported.
    """
    if isinstance(error, TensorIRError):
        return error.in_one_line
    if isinstance(error, OSError) and error.strerror:
        place = "" if error.filename is None else f"{_named(error.filename)}: "
        text = f"{place}{error.strerror}"
    elif isinstance(error, (OSError, ImportError)):
        text = str(error)
    else:
        text = f"{type(error).__name__}: {error}; --traceback shows where, please report it"
    return " ".join(text.split())


def _named(path: object) -> str:
    return path.decode(errors="backslashreplace") if isinstance(path, bytes) else str(path)
