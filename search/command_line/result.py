"""The result of a command: plain data for programs, and text, tables and code for readers."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TextIO, TypeAlias

from tensorir.errors import TensorIRError
from tensorir.text_table import aligned


@dataclass(frozen=True)
class Table:
    """Rows of texts under headings."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""


@dataclass(frozen=True)
class Code:
    """Python, which a terminal shows in colours."""

    text: str


Part: TypeAlias = str | Table | Code


@dataclass(frozen=True)
class Result:
    """The result of a command."""

    report: Mapping[str, Any]
    """The result as plain data, which `--json` prints."""
    parts: Sequence[Part] = ()
    """The result for a reader."""
    exit_code: int = 0

    def as_json(self) -> str:
        """Return the report as JSON; numbers that are not finite are null."""
        return json.dumps(_finite(self.report), indent=2)

    def write(self, stream: TextIO) -> None:
        """Write the result for a reader: tables and colours on a terminal, elsewhere plain text."""
        if stream.isatty():
            _write_to_terminal(self.parts, stream)
        else:
            stream.write("".join(f"{_plain(part)}\n" for part in _insert_empty_lines(self.parts)))


def say(text: str) -> None:
    """Print the step that is being done on standard error."""
    print(f"tensorir: {text}", file=sys.stderr)  # noqa: T201  the output of a command


def microseconds(seconds: float | None) -> str:
    """Return a time as a text in microseconds, a dash for None."""
    return "-" if seconds is None else f"{seconds * 1e6:.4g}"


def count_text(number: int, what: str) -> str:
    """Return a count with its noun, as in "1 record" and "2 records"."""
    return f"{number} {what}{'s' * (number != 1)}"


def error_line(error: BaseException) -> str:
    """Return the text of an error in one line.

    An unexpected error is called by its class, so that it can be reported.
    """
    if isinstance(error, TensorIRError):
        return error.in_one_line
    if isinstance(error, OSError) and error.strerror:
        name = error.filename
        name = name.decode(errors="backslashreplace") if isinstance(name, bytes) else name
        text = error.strerror if name is None else f"{name}: {error.strerror}"
    elif isinstance(error, (OSError, ImportError)):
        text = str(error)
    else:
        text = f"{type(error).__name__}: {error}; --traceback shows where, please report it"
    return " ".join(text.split())


def _insert_empty_lines(parts: Sequence[Part]) -> list[Part]:
    """Return the parts with an empty line between two of them unless both are lines of text."""
    spaced: list[Part] = []
    for part in parts:
        if spaced and not (isinstance(part, str) and isinstance(spaced[-1], str)):
            spaced.append("")
        spaced.append(part)
    return spaced


def _plain(part: Part) -> str:
    if isinstance(part, Table):
        title = f"{part.title}\n" if part.title else ""
        return title + aligned([tuple(part.headings), *map(tuple, part.rows)])
    return part.text.rstrip("\n") if isinstance(part, Code) else part


def _write_to_terminal(parts: Sequence[Part], stream: TextIO) -> None:
    # Rich takes longer to import than many a command to run, and only terminals need it.
    console = import_module("rich.console").Console(file=stream, highlight=False, emoji=False)
    syntax, table, text = (
        import_module(f"rich.{module}") for module in ("syntax", "table", "text")
    )
    for part in _insert_empty_lines(parts):
        if isinstance(part, Table):
            shown = table.Table(
                title=text.Text(part.title) if part.title else None,
                title_justify="left",
                box=import_module("rich.box").SIMPLE_HEAD,
                padding=0,
                pad_edge=False,
            )
            for heading, *cells in zip(part.headings, *part.rows, strict=True):
                is_number = cells and not any(cell.strip("0123456789.+-e%") for cell in cells)
                words = [word for cell in (heading, *cells) for word in cell.split()]
                shown.add_column(
                    text.Text(heading),
                    justify="right" if is_number else "left",
                    min_width=max(map(len, words), default=0),  # lines break between words only
                )
            for row in part.rows:
                shown.add_row(*map(text.Text, row))
            console.print(shown, crop=False)
        elif isinstance(part, Code):
            shown = syntax.Syntax(_plain(part), "python", background_color="default")
            console.print(shown, soft_wrap=True)  # code that is copied from the screen has to run
        else:
            console.print(text.Text(part), soft_wrap=True)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
