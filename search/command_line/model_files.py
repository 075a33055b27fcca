"""Model files of the command line, whichever tool wrote them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from search.errors import TuningError
from tensorir import frontend
from tensorir.function import IRModule


def read_model(path: str) -> IRModule:
    """Return the module of a model file.

    OSError for one that is not there, ImportError where the package that reads it is not installed,
    TuningError for a file of another kind, and what the front ends raise.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no model file {path}")
    suffix = Path(path).suffix
    if suffix == ".onnx":
        return frontend.from_onnx(path)
    if suffix == ".pt2":
        torch: Any = import_module("torch")
        return frontend.from_exported_program(torch.export.load(path))
    raise TuningError(f"{path} is no model file that is known: .onnx, or .pt2 of torch.export.save")
