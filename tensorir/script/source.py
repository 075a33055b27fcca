"""The text that is being read, and the places in it that errors point at."""

from __future__ import annotations

from typing import Final, TypeAlias

from tensorir.errors import DiagnosticError, IRTypeError
from tensorir.nodes.node import Node

Place: TypeAlias = tuple[int, int, int, int]
"""Line, column, end line, end column, from 1."""

BEGINNING: Final[Place] = (1, 1, 1, 2)


class Misread(Exception):  # noqa: N818  it becomes an error when the text is known
    """A place that cannot be read, before it is known whose text it is in."""

    def __init__(self, message: str, place: Place) -> None:
        super().__init__(message)
        self.message = message
        self.place = place


class Source:
    """The text of a script or of a part of a file."""

    def __init__(self, text: str, filename: str = "<script>", first_line: int = 1) -> None:
        if not isinstance(text, str):
            raise IRTypeError(f"a script is text, got {type(text).__name__}: {text!r}")
        self.text = text
        self.filename = filename
        self.first_line = first_line
        """The line of its file in which the text begins, from 1."""
        self.places: dict[Node, Place] = {}
        """The places where the variables of graph functions are bound."""

    def error(self, message: str, place: Place) -> DiagnosticError:
        """Return the error for a place in the text."""
        line, column, end_line, end_column = place
        lines = self.text.split("\n")
        line = min(line, len(lines))
        shown = lines[line - 1].rstrip("\r")
        return DiagnosticError(
            message,
            filename=self.filename,
            line=line + self.first_line - 1,
            column=column,
            end_column=end_column if end_line == line else len(shown) + 1,
            source_line=shown,
        )
