"""Traces in files: the JSON that `Trace.save` writes, or the Python that a trace prints as."""

from __future__ import annotations

import json
from pathlib import Path

from schedule import Trace, TraceError
from search.errors import ArgumentError
from tensorir.errors import DiagnosticError


def read_trace(path: str) -> Trace:
    """Return the trace in a file; no code of it runs.

    ArgumentError for a missing file, TraceError or DiagnosticError that names file
    and place for one that is no trace.
    """
    place = Path(path)
    if not place.is_file():
        raise ArgumentError(f"there is no file {path}")
    if place.suffix == ".json":
        return Trace.load(place)
    try:
        return Trace.from_python(place.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise TraceError(f"{path} is no text in UTF-8, so no trace") from error
    except DiagnosticError as error:
        raise DiagnosticError(
            error.message,
            filename=path,
            line=error.line,
            column=error.column,
            end_column=error.end_column,
            source_line=error.source_line,
        ) from error


def is_trace_file(path: str) -> bool:
    """Say whether a JSON file has the two lists that a trace has: instructions and decisions."""
    place = Path(path)
    if place.suffix != ".json" or not place.is_file():
        return False
    try:
        obj = json.loads(place.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return False
    return isinstance(obj, list) and len(obj) == 2 and all(isinstance(part, list) for part in obj)
