"""Programs and models of the command line, whichever tool wrote them. All are read as data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from search.database.records import Workload
from search.errors import ArgumentError, DatabaseError, TuningError
from tensorir import frontend, parse
from tensorir.function import IRModule
from tensorir.script.script_file import read_script_file

_SCRIPT: Final = "script"
"""The field of the JSON of a program that has its text."""


def read_program(path: str, shapes: Sequence[str] | None = None) -> IRModule:
    """Return the module of a script, a model file, or a JSON file that `show` or a search wrote.

    `shapes` are those of the inputs of a model, as in `x=1,3,224,224`. ArgumentError for a missing
    file and for bad shapes, ImportError where the package that reads the file is not installed,
    DiagnosticError for a script that cannot be read, and what the front ends raise.
    """
    return program_file(path, shapes).read()


@dataclass(frozen=True)
class ProgramFile:
    """An existing file of a program or a model."""

    place: Path
    name: str | None
    """The name of the definition in the file that is meant, if one is."""
    shapes: Mapping[str, list[int | str]]
    """Shapes of the inputs of a model of ONNX, by name."""

    def read(self) -> IRModule:
        """Return the module in the file; the errors are those of `read_program`."""
        if self.place.suffix == ".onnx":
            return frontend.from_onnx(self.place, self.shapes)
        if self.place.suffix == ".pt2":
            return frontend.from_exported_program(_exported(self.place))
        if self.place.suffix == ".json":
            return _module_of_json(self.place)
        found = read_script_file(self.place, self.name)
        return found if isinstance(found, IRModule) else IRModule.from_expr(found)


def program_file(path: str, shapes: Sequence[str] | None = None) -> ProgramFile:
    """Return the file at a path; ArgumentError for a missing one and for bad shapes."""
    place, name = _named(path)
    if not place.exists():
        raise ArgumentError(f"there is no file {place}")
    if place.is_dir():
        raise ArgumentError(f"{place} is a directory, not a program or a model")
    found = _shapes(shapes)
    if found and place.suffix != ".onnx":
        raise ArgumentError(
            f"--shape is for models of ONNX; the shapes of {place} are written in it"
        )
    return ProgramFile(place, name, found)


def is_model(mod: IRModule) -> bool:
    """Say whether a module has a graph function `main`, and is not a kernel or several."""
    return "main" in mod.graph_funcs()


def _exported(path: Path) -> Any:
    """Return the program in a file of `torch.export.save`."""
    torch: Any = import_module("torch")
    try:
        return torch.export.load(path)
    except OSError:
        raise
    except Exception as error:  # torch says in many ways that it is no such file
        raise TuningError(
            f"{path} is no file of torch.export.save, or not all of one: "
            f"{type(error).__name__}: {error}"
        ) from error


def _named(path: str) -> tuple[Path, str | None]:
    """Return the file, and the name of the definition in it that is meant, if one is."""
    front, colon, name = path.rpartition(":")
    if colon and name.isidentifier() and not Path(path).exists():
        return Path(front), name
    return Path(path), None


def _shapes(texts: Sequence[str] | None) -> dict[str, list[int | str]]:
    """Return the shapes of inputs by name; a dimension is a number, or a name if symbolic."""
    shapes: dict[str, list[int | str]] = {}
    for text in texts or ():
        name, equals, extents = text.partition("=")
        parts = [part.strip() for part in extents.split(",")] if extents.strip() else []
        good = all(part.isdecimal() or part.isidentifier() for part in parts)
        if not (equals and name and good):
            raise ArgumentError(f"a shape is given as NAME=1,3,224,224, got {text!r}")
        if name in shapes:
            raise ArgumentError(f"the shape of {name!r} is given twice")
        shapes[name] = [int(part) if part.isdecimal() else part for part in parts]
    return shapes


def _module_of_json(path: Path) -> IRModule:
    """Return the module in a JSON file: `{"script": text}`, or a workload of a database."""
    try:
        obj = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise TuningError(f"{path} is no JSON of a program: {error}") from error
    if isinstance(obj, dict) and "nodes" in obj:
        raise TuningError(
            f"{path} is an object dump of another tool, which cannot be read; save the script of "
            "the program, mod.script(), as text"
        )
    if isinstance(obj, Mapping) and isinstance(obj.get(_SCRIPT), str):
        found = parse(obj[_SCRIPT], filename=str(path))
        return found if isinstance(found, IRModule) else IRModule.from_expr(found)
    try:
        return Workload.from_json(obj).mod
    except DatabaseError as error:
        raise TuningError(
            f'{path} has no program: neither {{"{_SCRIPT}": text}} nor a workload: {error}'
        ) from error
