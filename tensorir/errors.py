"""The exceptions of the IR, with a common base class."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final


class TensorIRError(RuntimeError):
    """Base class of the errors that the toolkit raises for invalid input."""

    @property
    def in_one_line(self) -> str:
        """Return the place, the reason and the remedy in one line, without the program text of the
        message.

        Notes that were added to the exception are appended.
        """
        notes = getattr(self, "__notes__", ())
        line = f"{self._line().rstrip('.')}. {' '.join(notes)}" if notes else self._line()
        return " ".join(line.split())

    def _line(self) -> str:
        return str(self)


class IRTypeError(TensorIRError, TypeError):
    """The types of operands do not match."""


class IRValueError(TensorIRError, ValueError):
    """A value, a count or a domain is invalid."""


class DiagnosticError(TensorIRError):
    """A script has an error; the text shows the line with a caret.

    `filename`, `line` and `column` (both from 1) locate the error; `message` lacks the location.
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
            start = max(0, min(before - _WIDEST // 4, len(shown) - _WIDEST))
            shown = ("..." if start else "") + shown[start : start + _WIDEST] + "..."
            before += (3 if start else 0) - start
            marked = min(marked, max(1, len(shown) - before))
        return (
            f"error: {self.message}\n"
            f"{margin}--> {self.filename}:{self.line}:{self.column}\n"
            f"{margin} |\n"
            f"{self.line} | {shown}\n"
            f"{margin} | {' ' * before}{'^' * marked}"
        )


_WIDEST: Final = 200
"""The number of characters of a long line that are shown."""


class WellFormedError(IRValueError):
    """A program breaks a rule of scoping or definition; see `tensorir.verify`.

    `node` is the binding of a graph function that breaks the rule, or None.
    """

    def __init__(self, message: str, node: object = None) -> None:
        super().__init__(message)
        self.node = node


@contextmanager
def noting(place: str) -> Iterator[None]:
    """Add `place` as a note to errors that are raised inside a `with` statement."""
    try:
        yield
    except Exception as error:
        error.add_note(place)
        raise
