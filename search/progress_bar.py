"""The progress bar of a search, on a terminal and in notebooks."""

from __future__ import annotations

import html
import sys
from typing import Any

from search.progress import Progress


def progress_bar(total: int) -> Progress:
    """Return a bar for `total` trials: one that shows in a notebook or on a terminal, or none.

    On a terminal it needs the package `tqdm`.
    """
    if "ipykernel" in sys.modules:
        return _NotebookBar(total)
    if not sys.stderr.isatty():
        return Progress()
    try:
        from tqdm import tqdm  # noqa: PLC0415  optional
    except ImportError:
        return Progress()
    return _TerminalBar(tqdm(total=total, unit="trial", leave=False, dynamic_ncols=True))


def _step(what: str, done: int, total: int) -> str:
    return f"{what} {done + 1}/{total}" if total else what


class _TerminalBar(Progress):
    def __init__(self, bar: Any) -> None:
        self._bar = bar

    def phase(self, what: str, done: int = 0, total: int = 0) -> None:
        self._bar.set_description_str(_step(what, done, total))

    def trial(self, best: str) -> None:
        self._bar.set_postfix_str(f"best {best}" if best else "", refresh=False)
        self._bar.update()

    def message(self, text: str) -> None:
        self._bar.write(text, file=sys.stdout)

    def close(self) -> None:
        self._bar.close()


class _NotebookBar(Progress):
    """A bar in an output of its own, which changes in place and is still readable when saved."""

    def __init__(self, total: int) -> None:
        from IPython.display import display  # noqa: PLC0415  only there in a notebook

        self._total = total
        self._done = 0
        self._best = ""
        self._phase = "starting"
        self._handle: Any = display(self._content(), raw=True, display_id=True)

    def phase(self, what: str, done: int = 0, total: int = 0) -> None:
        self._phase = _step(what, done, total)
        self._update()

    def trial(self, best: str) -> None:
        self._done += 1
        self._best = best
        self._update()

    def message(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def close(self) -> None:
        self._phase = "done"
        self._update()

    def _update(self) -> None:
        self._handle.update(self._content(), raw=True)

    def _content(self) -> dict[str, str]:
        text = f"{self._done} of {self._total} trials"
        if self._best:
            text += f", best {self._best}"
        text += f": {self._phase}"
        bar = f'<progress value="{self._done}" max="{self._total}"></progress>'
        return {"text/plain": text, "text/html": f"{bar} {html.escape(text)}"}
