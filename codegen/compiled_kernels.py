"""Tensor functions that run while a module is transformed are compiled."""

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
"""This machine, whatever the module that is transformed is built for."""


def compiled_kernel(mod: IRModule, name: str) -> Run | None:
    """Return what runs a function of tensor functions, None if it cannot be compiled."""
    try:
        with PassContext():  # what looks on at the transform is not to see how it computes
            function = build(mod, _HERE)[name]
    except CodegenError:
        return None

    def run(args: Sequence[Any]) -> bool:
        function(*args)
        return True

    return run
