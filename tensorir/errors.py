"""The exceptions of the IR, all under one base so that callers can catch either kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final


class TensorIRError(RuntimeError):
    """Base of every error the toolkit raises on purpose."""

    @property
    def in_one_line(self) -> str:
        """The place, the reason and the remedy in one line, without programs that the text shows.

        Notes that were added on the way are at its end.
        """
        notes = getattr(self, "__notes__", ())
        line = f"{self._line().rstrip('.')}. {' '.join(notes)}" if notes else self._line()
        return " ".join(line.split())

    def _line(self) -> str:
        return str(self)


class IRTypeError(TensorIRError, TypeError):
    """A node was given operands of types that do not go together."""


class IRValueError(TensorIRError, ValueError):
    """A node was given a value, a count or a domain that it cannot have."""


class DiagnosticError(TensorIRError):
    """A place in a script is wrong; the text shows the line with a caret.

    `filename`, `line` and `column` (both from 1) locate the place; `message` is the sentence alone.
    """

    def __init__(
        self,
        message: str,
        *,
        filename: str = "<script>",
        line: int = 0,
        column: int = 0,
        end_column: int = 0,
        source_line: str = "",
    ) -> None:
        self.message = message
        self.filename = filename
        self.line = line
        self.column = column
        self.end_column = end_column
        self.source_line = source_line
        super().__init__(self._render())

    def _line(self) -> str:
        place = f"{self.filename}:{self.line}:{self.column}: " if self.line else ""
        return f"{place}{self.message}"

    def _render(self) -> str:
        if not self.line:
            return f"error: {self.message}"
        margin = " " * len(str(self.line))
        shown, before = self.source_line, self.column - 1
        marked = max(1, self.end_column - self.column)
        if len(shown) > _WIDEST:
            cut = max(0, min(before - _WIDEST // 4, len(shown) - _WIDEST))
            shown = ("..." if cut else "") + shown[cut : cut + _WIDEST] + "..."
            before += (3 if cut else 0) - cut
            marked = min(marked, max(1, len(shown) - before))
        return (
            f"error: {self.message}\n"
            f"{margin}--> {self.filename}:{self.line}:{self.column}\n"
            f"{margin} |\n"
            f"{self.line} | {shown}\n"
            f"{margin} | {' ' * before}{'^' * marked}"
        )


_WIDEST: Final = 200
"""Characters of a longer line that are shown."""


class WellFormedError(IRValueError):
    """A program breaks a rule of scoping or definition; see `tensorir.verify`.

    `node` is the binding of a graph function that breaks it, if it is one.
    """

    def __init__(self, message: str, node: object = None) -> None:
        super().__init__(message)
        self.node = node


@contextmanager
def noting(place: str) -> Iterator[None]:
    """Let errors say where they arose: `place` becomes a note of theirs."""
    try:
        yield
    except Exception as error:
        error.add_note(place)
        raise
