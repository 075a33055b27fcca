"""Failed trials, those together that failed for the same reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from search.trials.failures import kind_of, reason_of
from search.trials.trial import Trial

_MOST_PLACES: Final = 20
_LONGEST: Final = 4000
"""Letters of an example: the beginning and the end of a longer one are shown."""


@dataclass
class FailureGroup:
    """Trials that failed in one stage with errors that differ in numbers and paths only."""

    stage: str
    title: str
    """The line of the first error that says most: the last one that is not blank."""
    example: str
    """The whole text of the first error."""
    count: int = 0
    seconds: float = 0.0
    """The time that building and measuring them took."""
    places: list[tuple[int, int]] = field(default_factory=list)
    """The task and the number in it of the first of them."""


def failure_groups(trials: Iterable[tuple[int, Trial]]) -> list[FailureGroup]:
    """Return the groups of failed trials, the largest first.

    Each trial comes with the number of its task. Two errors are alike if their
    titles are the same but for numbers and directories.
    """
    groups: dict[tuple[str, str], FailureGroup] = {}
    for task, trial in trials:
        if not trial.failed:
            continue
        title = reason_of(trial.error) or "there is no text of the error"
        key = (trial.stage, kind_of(title))
        if key not in groups:
            groups[key] = FailureGroup(trial.stage, title, _shortened(trial.error or ""))
        group = groups[key]
        group.count += 1
        group.seconds += trial.spent
        if len(group.places) < _MOST_PLACES:
            group.places.append((task, trial.number))
    return sorted(groups.values(), key=lambda group: -group.count)


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    half = _LONGEST // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} letters ...\n{text[-half:]}"
