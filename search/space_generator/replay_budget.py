"""How much replaying a search may do."""

from __future__ import annotations

from math import inf


class ReplayBudget:
    """The instructions that a search may still apply to learn of its design spaces."""

    def __init__(self, instructions: float = inf) -> None:
        self.left = instructions

    def spend(self, instructions: float) -> None:
        """Note that some were applied."""
        self.left -= instructions

    def affords(self, replays: int, length: int) -> bool:
        """Say whether a trace of so many instructions may be replayed so many times."""
        return replays * length <= self.left
