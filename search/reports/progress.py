"""The reports of a long search about its progress.

`Progress` says nothing; what a user sees is in `search.reports.live_display`.
"""

from __future__ import annotations


class Progress:
    """Receives reports on the progress of a search; this one ignores them.

    Anything that takes longer than a second or two calls `phase` now and then.
    """

    def resumed(self, done: int) -> None:
        """Take note that `done` candidates were measured before the search was interrupted."""

    def phase(self, what: str, done: int = 0, total: int = 0) -> None:
        """Take note that `what` is going on, `done` of `total` steps (0: unknown) being over."""

    def trial(self, best: str) -> None:
        """Take note of one more measured candidate; `best` describes the best so far."""

    def table(self, text: str) -> None:
        """Take note of the table of all tasks, which replaces the one before."""

    def message(self, text: str) -> None:
        """Take note of text that a log handler is to show."""

    def close(self) -> None:
        """Leave on the screen what is to stay there: the last table."""
