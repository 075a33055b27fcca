"""The errors of the search."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tensorir.errors import IRValueError, TensorIRError

if TYPE_CHECKING:
    from schedule import ScheduleError


class TuningError(TensorIRError):
    """A search was set up or driven in a way that cannot work."""


class ArgumentError(TuningError):
    """An argument has a value that cannot be used, whatever the program is.

    The command line ends with the exit code 2 for it, with 1 for other errors.
    """


class DatabaseError(IRValueError):
    """A file of records cannot be read or written; the text names it, and line and field."""


class NoDatabaseError(DatabaseError):
    """Nothing is where a database was expected, or something else is."""


class WorkerError(TensorIRError):
    """A worker process cannot be started or cannot do its job as it was set up."""


@contextlib.contextmanager
def blamed_on(part: object, candidate: Callable[[], str]) -> Iterator[None]:
    """Turn an error of a part of the search into a TuningError that names part and candidate.

    `candidate` describes what the part was given; it is called only then. TuningErrors and
    DatabaseErrors, which say what is wrong already, pass.
    """
    try:
        yield
    except (TuningError, DatabaseError):
        raise
    except Exception as error:
        raise TuningError(
            f"{part} raised {type(error).__name__}: {error}\nIt was given {candidate()}"
        ) from error


def refusal_reason(error: ScheduleError) -> str:
    """Return why a block could not become an intrinsic, without the programs that errors show."""
    reason = error.values.get("reason")
    return reason if isinstance(reason, str) else error.message
