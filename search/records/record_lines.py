"""Files with a record a line, as logs of measurements are, and the fields of their lines."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

from codegen import Target
from search.errors import TuningError

T = TypeVar("T")

_MOST_NAMED: Final = 5
_OF_LINKING: Final = re.compile(
    r" -(?:link-params|system-lib|runtime|executor|interface-api|unpacked-api)=\S+"
)


class LineError(TuningError, ValueError):
    """A line of a log is no record."""


class RecordLines(Generic[T]):
    """The records of an opened log, each with the number of its line, from 1; they are read once.

    Blank lines and those that begin with # are passed over. Those that `decode` refuses by
    LineError, a last one that was cut short say, are left out; at the end one warning counts them
    and names the first. None is what it returns for a line of AutoTVM's log format 0.1, which is
    left out with a warning of its own.
    """

    def __init__(
        self, lines: Iterable[str], decode: Callable[[str], T | None], logger: logging.Logger
    ) -> None:
        self.left_out = 0
        self._lines, self._decode, self._logger = lines, decode, logger

    def __iter__(self) -> Iterator[tuple[int, T]]:
        refused = []
        outdated = 0
        for number, line in enumerate(self._lines, 1):
            if not line.strip() or line.startswith("#"):
                continue
            try:
                record = self._decode(line)
            except LineError as error:
                refused.append(f"line {number}: {error}")
                continue
            if record is None:
                outdated += 1
            else:
                yield number, record
        self.left_out = len(refused) + outdated
        name = getattr(self._lines, "name", "the log")
        warn_of_left_out(name, refused, self._logger)
        if outdated:
            self._logger.warning("%s: left out %d line(s) of log format 0.1", name, outdated)


def warn_of_left_out(
    name: object, refused: Sequence[str], logger: logging.Logger, kind: str = "line"
) -> None:
    """Warn once of all that was left out of a file, naming the first few; nothing if none was."""
    if refused:
        rest = len(refused) - _MOST_NAMED
        named = [*refused[:_MOST_NAMED], *([f"and {rest} more"] if rest > 0 else [])]
        logger.warning("%s: left out %d %s(s): %s", name, len(refused), kind, "; ".join(named))


def json_object(line: str) -> dict[str, Any]:
    """Return the JSON object of a line; LineError if it is none."""
    try:
        fields = json.loads(line.rstrip())
    except json.JSONDecodeError as error:
        raise LineError(f"it is no JSON: {error.msg} at character {error.pos + 1}") from error
    except (ValueError, RecursionError) as error:
        raise LineError(f"it is no JSON: {error}") from error
    if not isinstance(fields, dict):
        raise LineError("it is no JSON object")
    return fields


def costs_of_line(costs: Any) -> tuple[float, ...]:
    """Return the costs that a line tells; LineError unless there are seconds above 0.

    TypeError or ValueError for what is no list of numbers.
    """
    seconds = tuple(float(cost) for cost in costs)
    if not seconds:
        raise LineError("it has no costs")
    if not all(0 < cost < math.inf for cost in seconds):
        raise LineError(f"its costs are {list(seconds)}; they are seconds above 0")
    return seconds


def target_of_line(text: Any) -> Target:
    """Return the target that a line names, without what earlier versions of TVM wrote into it.

    The old option -target is understood as -mtriple; options of how a library is linked and called
    say nothing of schedules and are left out.
    LineError for what is no text, TargetError for one that is not known.
    """
    if not isinstance(text, str):
        raise LineError(f"its target {text!r} is no text")
    return _target(text)


@lru_cache(maxsize=64)
def _target(text: str) -> Target:
    """Return a target; most lines of a log have the same."""
    return Target(_OF_LINKING.sub("", text).replace(" -target=", " -mtriple="))
