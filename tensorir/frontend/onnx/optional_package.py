"""The package `onnx`, which is needed for reading models only."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from tensorir.errors import IRValueError


@cache
def onnx_package() -> Any:
    """Return the package `onnx`; IRValueError that says how to install it."""
    try:
        package = import_module("onnx")
        for part in ("checker", "defs", "external_data_helper", "helper", "numpy_helper"):
            import_module(f"onnx.{part}")
    except ImportError as error:
        raise IRValueError(
            "reading an ONNX model takes the package onnx; install it by "
            "pip install 'tensorir[onnx]'"
        ) from error
    return package
