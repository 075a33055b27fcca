"""What a search says about its progress, and the display of it while it runs.

`Progress` says nothing; `live_display` shows one table, how far it is, and few lines of log.
"""

from __future__ import annotations

import html
import sys
from functools import partial
from typing import Any

from tensorir.script.display import preformatted


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


def live_display(total: int | None, verbose: int = 1) -> Progress:
    """Return a display on standard error for `total` trials, None if seconds bound the search.

    In a notebook and on a terminal a bar and the table change in place. Elsewhere the table is
    written once, at the end. With `verbose=0` messages are shown and nothing else.
    """
    if verbose == 0:
        return _Messages()
    if "ipykernel" in sys.modules:
        return _Notebook(total)
    return _Terminal(total) if sys.stderr.isatty() else _Lines()


def _step(what: str, done: int, total: int) -> str:
    return f"{what} {done + 1}/{total}" if total else what


def _write(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


class _Messages(Progress):
    """The messages alone."""

    def message(self, text: str) -> None:
        _write(text)


class _Lines(_Messages):
    """Standard error that only grows: a file, a pipe."""

    def __init__(self) -> None:
        self._table = ""

    def table(self, text: str) -> None:
        self._table = text

    def close(self) -> None:
        if self._table:
            _write(self._table)
            self._table = ""


class _Terminal(_Lines):
    """A bar with the table below it; both make room for messages and for the last table."""

    def __init__(self, total: int | None) -> None:
        from tqdm import tqdm  # noqa: PLC0415  takes long to import

        super().__init__()
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
        lines = text.splitlines()
        while len(self._rows) < len(lines):
            self._rows.append(self._line(bar_format="{desc}", position=1 + len(self._rows)))
        for row, line in zip(self._rows, lines, strict=False):
            row.set_description_str(line)

    def message(self, text: str) -> None:
        self._bar.write(text, file=sys.stderr)

    def close(self) -> None:
        for row in reversed(self._rows):
            row.close()
        self._rows = []
        self._bar.close()
        super().close()


class _Notebook(_Messages):
    """One output for the bar and the table, which changes in place.

    The bar of `tqdm.auto` is a widget, of which a saved notebook keeps a picture only with the
    state of the widget, or else a text in which every step is kept; and it has no place for a
    table. This one needs no widgets, and a saved notebook holds its last state.
    """

    def __init__(self, total: int | None) -> None:
        from IPython.display import display  # noqa: PLC0415  only there in a notebook

        self._total = total
        self._done = 0
        self._best = ""
        self._phase = "starting"
        self._table = ""
        self._handle: Any = display(self._content(), raw=True, display_id=True)

    def resumed(self, done: int) -> None:
        self._done = done
        self._update()

    def phase(self, what: str, done: int = 0, total: int = 0) -> None:
        self._phase = _step(what, done, total)
        self._update()

    def trial(self, best: str) -> None:
        self._done += 1
        self._best = best
        self._update()

    def table(self, text: str) -> None:
        self._table = text
        self._update()

    def close(self) -> None:
        self._phase = "done"
        self._update()

    def _update(self) -> None:
        self._handle.update(self._content(), raw=True)

    def _content(self) -> dict[str, str]:
        text = (
            f"{self._done} trials"
            if self._total is None
            else f"{self._done} of {self._total} trials"
        )
        if self._best:
            text += f", best {self._best}"
        text += f": {self._phase}"
        known = "" if self._total is None else f' value="{self._done}" max="{self._total}"'
        bar = f"<progress{known}></progress>"
        return {
            "text/plain": f"{text}\n{self._table}".rstrip(),
            "text/html": f"{bar} {html.escape(text)}{preformatted(self._table)}",
        }
