"""The result of a command: plain data for programs, and text, tables and code for readers."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TextIO, TypeAlias

from tensorir.text_table import aligned


@dataclass(frozen=True)
class Table:
    """Rows of texts under headings."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""


@dataclass(frozen=True)
class Code:
    """A text in a language that Pygments knows."""

    text: str
    language: str = "python"


Part: TypeAlias = str | Table | Code


@dataclass(frozen=True)
class Result:
    """What a command has found out."""

    report: Mapping[str, Any]
    """The result as plain data, which `--json` prints."""
    parts: Sequence[Part] = ()
    """The result for somebody who reads it."""
    exit_code: int = 0
    """1 where the answer is that something is wrong."""

    def as_json(self) -> str:
        """Return the report as JSON; numbers that are not finite are null."""
        return json.dumps(_finite(self.report), indent=2)

    def write(self, stream: TextIO) -> None:
        """Write the result for a reader: tables and colours on a terminal, elsewhere plain text."""
        if stream.isatty():
            _write_to_terminal(self.parts, stream)
        else:
            stream.write("".join(f"{_plain(part)}\n" for part in _spaced(self.parts)))


def say(what: str) -> None:
    """Say on standard error what is being done, for it may take a while."""
    print(f"tensorir: {what}", file=sys.stderr)  # noqa: T201  it is what the command says


def microseconds(seconds: float | None) -> str:
    """Return a time as a text in microseconds, a dash where there is none."""
    return "-" if seconds is None else f"{seconds * 1e6:.4g}"


def counted(number: int, what: str) -> str:
    """Return a number of things, as in "1 record" and "2 records"."""
    return f"{number} {what}{'s' * (number != 1)}"


def _spaced(parts: Sequence[Part]) -> list[Part]:
    """Return the parts, with an empty line wherever two meet that are not both lines of text."""
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
    # Rich takes longer to load than many a command to run, and only terminals need it.
    console = import_module("rich.console").Console(file=stream, highlight=False, emoji=False)
    syntax, table, text = (
        import_module(f"rich.{module}") for module in ("syntax", "table", "text")
    )
    for part in _spaced(parts):
        match part:
            case Code():
                shown = syntax.Syntax(
                    part.text.rstrip("\n"), part.language, background_color="default"
                )
                # Code keeps its lines: what is copied from the screen has to run.
                console.print(shown, soft_wrap=True)
            case Table():
                shown = table.Table(
                    title=text.Text(part.title) if part.title else None, title_justify="left"
                )
                for heading, *cells in zip(part.headings, *part.rows, strict=True):
                    side = "right" if cells and all(map(_is_number, cells)) else "left"
                    shown.add_column(text.Text(heading), justify=side)
                for row in part.rows:
                    shown.add_row(*map(text.Text, row))
                console.print(shown)
            case _:
                console.print(text.Text(part), soft_wrap=True)


def _is_number(cell: str) -> bool:
    return not cell.strip("0123456789.+-e%")


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
