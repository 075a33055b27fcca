"""What failed in a log and why: the errors of trials, grouped by what they say."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from search.trials.trial import Trial

_NUMBERS: Final = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_ELSEWHERE: Final = re.compile(r"(?:/[^\s/:'\"]+)+/")
_TRACEBACK: Final = "Traceback (most recent call last)"


@dataclass(eq=False)
class Failure:
    """Trials that failed in one stage for one reason, but for numbers and directories in it."""

    ending: str
    """The name of the error, such as `RUN_ERROR`."""
    reason: str
    """That of the first of them; empty in logs that have no texts of errors."""
    trials: list[Trial] = field(default_factory=list)
    """In the order in which they ended; the first is the example."""


def failures(trials: Iterable[Trial]) -> list[Failure]:
    """Return the groups of those of some trials that failed, the largest first."""
    groups: dict[tuple[str, str], Failure] = {}
    for trial in trials:
        if trial.failed:
            reason = reason_of(trial.error)
            key = (trial.ending, kind_of(reason))
            groups.setdefault(key, Failure(trial.ending, reason)).trials.append(trial)
    return sorted(groups.values(), key=lambda group: -len(group.trials))


def reason_of(error: str | None) -> str:
    """Return the line of an error that says most, an empty text where there is none.

    An error with a traceback says in its last line what happened, another one in its first.
    """
    lines = [line.strip() for line in (error or "").splitlines() if line.strip()]
    if not lines:
        return ""
    return lines[-1] if any(_TRACEBACK in line for line in lines) else lines[0]


def kind_of(reason: str) -> str:
    """Return a text that reasons share which differ in numbers and directories only."""
    return _ELSEWHERE.sub("", _NUMBERS.sub("#", reason))
