"""How a long search tells what it is doing.

`Progress` says nothing; the bar and the log lines that a user sees are in `search.progress_bar`.
"""

from __future__ import annotations


class Progress:
    """Receives what a search does; this one ignores it.

    Anything that takes longer than a second or two calls `phase` now and then.
    """

    def phase(self, what: str, done: int = 0, total: int = 0) -> None:
        """Take note that `what` is going on, `done` of `total` steps (0: unknown) being over."""

    def trial(self, best: str) -> None:
        """Take note of one more measured candidate; `best` describes the best so far."""

    def message(self, text: str) -> None:
        """Take note of text that a log handler is about to write on the same terminal."""

    def close(self) -> None:
        """Remove what is on the screen."""
