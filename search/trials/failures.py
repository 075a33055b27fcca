"""What failed in a log and why: the errors of trials, grouped by what they say."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from search.trials.trial import Trial

_VARYING: Final = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?")
"""What differs between two texts of the same error: addresses, places, times."""


@dataclass(eq=False)
class Failure:
    """Trials that failed in the same stage with the same text, but for the numbers in it."""

    ending: str
    """The name of the error, such as `RUN_ERROR`."""
    reason: str
    """The last line of the error of the first of them."""
    trials: list[Trial] = field(default_factory=list)
    """In the order in which they ended; the first is the example."""


def failures(trials: Iterable[Trial]) -> list[Failure]:
    """Return the groups of those of some trials that failed, the largest first."""
    groups: dict[tuple[str, str], Failure] = {}
    for trial in trials:
        if trial.failed:
            reason = last_line(trial.error)
            key = (trial.ending, _VARYING.sub("#", reason))
            groups.setdefault(key, Failure(trial.ending, reason)).trials.append(trial)
    return sorted(groups.values(), key=lambda group: -len(group.trials))


def last_line(text: str | None) -> str:
    """Return the last line of an error, which says what it is; an empty text for none."""
    *_, last = (text or "").strip().splitlines() or [""]
    return last.strip()
