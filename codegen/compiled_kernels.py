"""Compiling tensor functions that run while a module is transformed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from codegen.errors import CodegenError
from codegen.runtime.module import build
from codegen.target import Target
from tensorir.function import IRModule
from tensorir.transform import PassContext
from tensorir.transform.kernel_runner import Run

_HERE: Final = Target("llvm")
"""The target of these functions is this machine, independent of the target of the module."""


def compiled_kernel(mod: IRModule, name: str) -> Run | None:
    """Return a callable for a tensor function of a module, None if it cannot be compiled."""
    try:
        with PassContext():  # hide these compilations from the instruments of the transform
            function = build(mod, _HERE)[name]
    except CodegenError:
        return None

    def run(args: Sequence[Any]) -> bool:
        function(*args)
        return True

    return run
