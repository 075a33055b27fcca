"""The progress of a search on the screen: a bar, the table of tasks, and messages.

`Progress` shows nothing; `live_display` chooses a display.
"""

from __future__ import annotations

import html
import sys
from functools import partial
from typing import Any

from tensorir.script.display import preformatted


class Progress:
    """Receives the progress of a search and ignores it.

    Work that runs longer than a second calls `phase` now and then.
    """

    def resumed(self, done: int) -> None:
        """Count `done` candidates that were measured before the search was interrupted."""

    def phase(self, what: str, done: int = 0, total: int = 0) -> None:
        """Show the current work, and that `done` of its `total` steps (0: unknown) are complete."""

    def trial(self, best: str) -> None:
        """Count another measured candidate; `best` describes the best so far."""

    def table(self, text: str) -> None:
        """Show the table of all tasks instead of the previous one."""

    def message(self, text: str) -> None:
        """Show a message of a log handler."""

    def close(self) -> None:
        """Remove everything but the last table from the screen."""


def live_display(total: int | None, verbose: int = 1) -> Progress:
    """Return a display on standard error for `total` trials, None if seconds bound the search.

    In a notebook and on a terminal a bar and the table change in place. Elsewhere the table is
    written once, at the end. With `verbose=0` only messages are shown.
    """
    if verbose == 0:
        return _Messages()
    if "ipykernel" in sys.modules:
        return _Notebook(total)
    return _Terminal(total) if sys.stderr.isatty() else _Lines()


def _step(what: str, done: int, total: int) -> str:
    return f"{what} {done + 1}/{total}" if total else what


class _Messages(Progress):
    def message(self, text: str) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


class _Lines(_Messages):
    """A file or a pipe: messages, and the table at the end."""

    last_table = ""

    def table(self, text: str) -> None:
        self.last_table = text

    def close(self) -> None:
        if self.last_table:
            super().message(self.last_table)
            self.last_table = ""


class _Terminal(_Lines):
    """A bar with the table below it; both make room for messages and for the last table."""

    def __init__(self, total: int | None) -> None:
        from tqdm import tqdm  # noqa: PLC0415 - a slow import

        self._line = partial(tqdm, leave=False, dynamic_ncols=True)
        self._bar: Any = self._line(total=total, unit="trial", position=0)
        self._rows: list[Any] = []

    def resumed(self, done: int) -> None:
        self._bar.initial = self._bar.n = done
        self._bar.refresh()

    def phase(self, what: str, done: int = 0, total: int = 0) -> None:
        self._bar.set_description_str(_step(what, done, total))

    def trial(self, best: str) -> None:
        self._bar.set_postfix_str(f"best {best}" if best else "", refresh=False)
        self._bar.update()

    def table(self, text: str) -> None:
        super().table(text)
        for k, line in enumerate(text.splitlines()):
            if k == len(self._rows):
                self._rows.append(self._line(bar_format="{desc}", position=1 + k))
            self._rows[k].set_description_str(line)

    def message(self, text: str) -> None:
        self._bar.write(text, file=sys.stderr)

    def close(self) -> None:
        for row in reversed(self._rows):
            row.close()
        self._rows = []
        self._bar.close()
        super().close()


class _Notebook(_Messages):
    """One output with the bar and the table.

    Unlike the widget of `tqdm.auto`, it shows a table, and a saved notebook keeps its last state.
    """

    def __init__(self, total: int | None) -> None:
        from IPython.display import display  # noqa: PLC0415 - only installed for notebooks

        self._total = total
        self._done = 0
        self._best = ""
        self._phase = "starting"
        self._table = ""
        self._handle: Any = display(self._content(), raw=True, display_id=True)

    def resumed(self, done: int) -> None:
        self._show(done=done)

    def phase(self, what: str, done: int = 0, total: int = 0) -> None:
        self._show(phase=_step(what, done, total))

    def trial(self, best: str) -> None:
        self._show(done=self._done + 1, best=best)

    def table(self, text: str) -> None:
        self._show(table=text)

    def close(self) -> None:
        self._show(phase="done")

    def _show(self, **changes: Any) -> None:
        for name, value in changes.items():
            setattr(self, f"_{name}", value)
        self._handle.update(self._content(), raw=True)

    def _content(self) -> dict[str, str]:
        of = "" if self._total is None else f" of {self._total}"
        best = f", best {self._best}" if self._best else ""
        text = f"{self._done}{of} trials{best}: {self._phase}"
        known = "" if self._total is None else f' value="{self._done}" max="{self._total}"'
        bar = f"<progress{known}></progress>"
        return {
            "text/plain": f"{text}\n{self._table}".rstrip(),
            "text/html": f"{bar} {html.escape(text)}{preformatted(self._table)}",
        }
