"""The progress bar of a search, on a terminal and in notebooks."""

from __future__ import annotations

import sys
from typing import Any

from search.progress import Progress


def progress_bar(total: int) -> Progress:
    """Return a bar for `total` trials; without a terminal or `tqdm` one that stays silent."""
    if not (sys.stderr.isatty() or "ipykernel" in sys.modules):
        return Progress()
    try:
        from tqdm import tqdm  # noqa: PLC0415  optional
    except ImportError:
        return Progress()
    return _Bar(tqdm(total=total, unit="trial", leave=False, dynamic_ncols=True))


class _Bar(Progress):
    def __init__(self, bar: Any) -> None:
        self._bar = bar

    def phase(self, what: str, done: int = 0, total: int = 0) -> None:
        """Show what is going on."""
        self._bar.set_description_str(f"{what} {done + 1}/{total}" if total else what)

    def trial(self, best: str) -> None:
        """Advance by one trial."""
        self._bar.set_postfix_str(f"best {best}" if best else "", refresh=False)
        self._bar.update()

    def message(self, text: str) -> None:
        """Write above the bar."""
        self._bar.write(text, file=sys.stdout)

    def close(self) -> None:
        """Remove the bar."""
        self._bar.close()
