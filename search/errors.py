"""The errors of the search."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tensorir.errors import IRValueError, TensorIRError

if TYPE_CHECKING:
    from schedule import ScheduleError


class TuningError(TensorIRError):
    """A search is configured or used incorrectly."""


class ArgumentError(TuningError):
    """An argument has a value that is invalid for every program.

    The command line ends with the exit code 2 for it, with 1 for other errors.
    """


class DatabaseError(IRValueError):
    """A file of records cannot be read or written; the text names it, and line and field."""


class NoDatabaseError(DatabaseError):
    """There is no database at the expected place."""


@contextlib.contextmanager
def blamed_on(part: object, candidate: Callable[[], str]) -> Iterator[None]:
    """Turn an error of a part of the search into a TuningError that names part and candidate.

    `candidate` returns a description of the part's input; it is called only in this case.
    TuningErrors and DatabaseErrors pass, because their texts already state the cause.
    """
    try:
        yield
    except (TuningError, DatabaseError):
        raise
    except Exception as error:
        raise TuningError(
            f"{part} raised {type(error).__name__}: {error}\nIts input was {candidate()}"
        ) from error


def refusal_reason(error: ScheduleError) -> str:
    """Return why a block could not become an intrinsic, without the programs in the error text."""
    reason = error.values.get("reason")
    return reason if isinstance(reason, str) else error.message
