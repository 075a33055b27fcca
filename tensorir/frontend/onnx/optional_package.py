"""The package `onnx`, which is needed only for reading models."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from tensorir.errors import IRValueError


@cache
def onnx_package() -> Any:
    """Return the package `onnx`; the IRValueError for a missing package tells how to install it."""
    try:
        package = import_module("onnx")
        for part in ("checker", "defs", "external_data_helper", "helper", "numpy_helper"):
            import_module(f"onnx.{part}")
    except ImportError as error:
        raise IRValueError(
            "reading an ONNX model requires the package onnx; install it by "
            "pip install 'tensorir[onnx]'"
        ) from error
    return package
