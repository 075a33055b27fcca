"""Files that the command line reads and writes: programs, models, traces and arrays.

All are read as data: no code of a file runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from schedule import Trace, TraceError
from search.command_line.options import checking_arguments
from search.database.records import Workload
from search.errors import ArgumentError, DatabaseError, TuningError
from search.kinds import suggestion
from tensorir import frontend, parse
from tensorir.errors import DiagnosticError
from tensorir.function import IRModule
from tensorir.replaced_file import replaced_file
from tensorir.script.script_file import read_script_file

_SHOWN: Final = 5
"""Values of an array that are printed."""


# ----------------------------------------------------------------------------- programs and models


def read_program(path: str, shapes: Sequence[str] | None = None) -> IRModule:
    """Return the module of a script, a model file, or a JSON file that `show` or a search wrote.

    `shapes` are those of the inputs of an ONNX model, as in `x=1,3,224,224`. Raises ArgumentError
    for a missing file and for bad shapes, ImportError if the package that reads the file is not
    installed, DiagnosticError for an invalid script, and the errors of the front ends.
    """
    place, name = existing_file(path)
    if place.suffix == ".onnx":
        return frontend.from_onnx(place, _shapes(shapes or ()))
    if shapes:
        raise ArgumentError(f"--shape is for ONNX models; {place} contains its shapes")
    if place.suffix == ".pt2":
        return frontend.from_exported_program(_read_exported(place))
    found = _program_in_json(place) if place.suffix == ".json" else read_script_file(place, name)
    return found if isinstance(found, IRModule) else IRModule.from_expr(found)


def existing_file(path: str) -> tuple[Path, str | None]:
    """Return the file of a program, and the name after a colon; ArgumentError for another place."""
    place, name = Path(path), None
    front, colon, last = path.rpartition(":")
    if colon and last.isidentifier() and not place.exists():
        place, name = Path(front), last
    if not place.exists():
        raise ArgumentError(f"there is no file {place}")
    if place.is_dir():
        raise ArgumentError(f"{place} is a directory, not a program or a model")
    return place, name


def is_model(mod: IRModule) -> bool:
    """True if a module has a graph function `main`."""
    return "main" in mod.graph_funcs()


def _read_exported(path: Path) -> Any:
    """Return the program in a file of `torch.export.save`."""
    torch: Any = import_module("torch")
    try:
        return torch.export.load(path)
    except OSError:
        raise
    except Exception as error:  # torch raises many classes for a file of another kind
        raise TuningError(
            f"{path} is not a whole file of torch.export.save: {type(error).__name__}: {error}"
        ) from error


def _shapes(texts: Sequence[str]) -> dict[str, list[int | str]]:
    """Return the shapes of inputs by name; a dimension is a number, or a name if symbolic."""
    shapes: dict[str, list[int | str]] = {}
    for text in texts:
        name, equals, extents = text.partition("=")
        parts = [part.strip() for part in extents.split(",")] if extents.strip() else []
        good = all(part.isdecimal() or part.isidentifier() for part in parts)
        if not (equals and name and good):
            raise ArgumentError(f"a shape is given as NAME=1,3,224,224, got {text!r}")
        if name in shapes:
            raise ArgumentError(f"the shape of {name!r} is given twice")
        shapes[name] = [int(part) if part.isdecimal() else part for part in parts]
    return shapes


def _program_in_json(path: Path) -> Any:
    """Return the program in a JSON file: `{"script": text}`, or a workload of a database."""
    try:
        obj = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise TuningError(f"{path} is not the JSON of a program: {error}") from error
    if isinstance(obj, dict) and "nodes" in obj:
        raise TuningError(
            f"{path} is an object dump of another tool, which cannot be read; save the script of "
            "the program, mod.script(), as text"
        )
    if isinstance(obj, dict) and isinstance(obj.get("script"), str):
        return parse(obj["script"], filename=str(path))
    try:
        return Workload.from_json(obj).mod
    except DatabaseError as error:
        raise TuningError(
            f'{path} has no program: expected {{"script": text}} or a workload: {error}'
        ) from error


# ------------------------------------------------------------------------------------------- traces


def read_trace(path: str | Path) -> Trace:
    """Return the trace in a file: the JSON of `Trace.save`, or the Python that a trace prints as.

    TraceError or DiagnosticError with file and place if it is not a trace.
    """
    place = Path(path)
    if place.suffix == ".json":
        return Trace.load(place)
    try:
        return Trace.from_python(place.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise TraceError(f"{path} is not a trace: it is not text in UTF-8") from error
    except DiagnosticError as error:
        raise DiagnosticError(
            error.message,
            filename=str(path),
            line=error.line,
            column=error.column,
            end_column=error.end_column,
            source_line=error.source_line,
        ) from error


def is_trace_file(path: str) -> bool:
    """True for a JSON file with the two lists of a trace: instructions and decisions."""
    place = Path(path)
    if place.suffix != ".json" or not place.is_file():
        return False
    try:
        obj = json.loads(place.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return False
    return isinstance(obj, list) and len(obj) == 2 and all(isinstance(part, list) for part in obj)


# ------------------------------------------------------------------------------------------- arrays


def read_arrays(texts: Sequence[str], known: Sequence[str], what: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of options `NAME=FILE.npy` by name; `known` are the inputs of `what`.

    Raises ArgumentError for another form, a repeated or unknown name, and a file that cannot be
    read. No object of a file is unpickled.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if name in arrays:
            raise ArgumentError(f"the input {name!r} is given twice")
        if not equals or not path:
            raise ArgumentError(f"an input is given as NAME=FILE.npy, got {text!r}")
        if name not in known:
            raise ArgumentError(
                f"the {what} has no input {name!r}; it has {', '.join(known)}"
                f"{suggestion(name, known)}"
            )
        try:
            with checking_arguments():
                array = np.load(path, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise ArgumentError(
                f"{path} is not an array file of NumPy, as numpy.save writes it"
            ) from error
        if not isinstance(array, np.ndarray):
            raise ArgumentError(f"{path} holds several arrays; write one by numpy.save")
        arrays[name] = array
    return arrays


def save_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to a file of `numpy.savez`; a reader never sees half of it."""
    with replaced_file(path) as file:
        np.savez(file, **dict(arrays))  # type: ignore[arg-type]


def summary(array: NDArray[Any]) -> dict[str, Any]:
    """Return shape, dtype and first values of an array as plain data."""
    values = [float(value) for value in array.reshape(-1)[:_SHOWN]]
    return {"shape": list(array.shape), "dtype": str(array.dtype), "values": values}


def summary_line(name: str, array: NDArray[Any]) -> str:
    """Return shape, dtype and first values of an array as a line of text."""
    facts = summary(array)
    values = ", ".join(f"{value:.6g}" for value in facts["values"])
    more = ", ..." if array.size > _SHOWN else ""
    return f"{name}: {facts['dtype']}{facts['shape']} {values}{more}"
