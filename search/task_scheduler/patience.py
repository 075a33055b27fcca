"""The patience of a search: how long it goes on without getting better."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class Patience:
    """Counts trials since a number last fell; over after `most` of them in vain, None never."""

    most: int | None
    best: float = math.inf
    in_vain: int = 0

    def note(self, value: float | None, trials: int) -> None:
        """Take note of the number after so many more trials; None while it is not known."""
        if value is not None and value < self.best:
            self.best, self.in_vain = value, 0
        else:
            self.in_vain += trials

    @property
    def is_over(self) -> bool:
        """True if the search is to give up; never before the number is known."""
        return self.most is not None and self.in_vain >= self.most and self.best < math.inf
