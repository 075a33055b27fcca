"""Which of the best candidates is the fastest: measured again, in turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from search.builder import Builder
    from search.context import TuneContext
    from search.database.records import TuningRecord
    from search.runner import Runner


@dataclass(frozen=True)
class Confirmation:
    """A record that was measured again: what each round gave, and how sure its rank is.

    `confirm_best` returns them fastest first.
    """

    record: TuningRecord
    """The record with the times of the rounds in place of those that it had."""
    median: float
    """Seconds per call."""
    spread: float
    """Half of the distance between the quartiles of the rounds, in seconds."""
    ratio: float
    """The median over the median of the fastest; 1 for the fastest itself."""
    certainty: float
    """Probability that it is the fastest of all that were measured again."""


def confirm_best(
    records: Sequence[TuningRecord],
    builder: Builder,
    runner: Runner,
    context: TuneContext,
) -> list[Confirmation]:
    """Measure the records of a task again, in turns, and return them fastest first.

    Records that cannot be built or run any more are left out.
    """
    raise NotImplementedError
