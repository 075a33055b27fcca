"""Tensor functions that run while a module is transformed are compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from codegen.errors import CodegenError
from codegen.runtime.module import build
from codegen.target import Target
from tensorir.function import IRModule
from tensorir.transform import PassContext
from tensorir.transform.kernel_runner import set_kernel_runner

_HERE: Final = Target("llvm")
"""This machine, whatever the module that is transformed is built for."""


def run_compiled(mod: IRModule, name: str, args: Sequence[Any]) -> bool:
    """Run a function of tensor functions on arrays, say whether it can be compiled."""
    try:
        with PassContext():  # what looks on at the transform is not to see how it computes
            module = build(mod, _HERE)
    except CodegenError:
        return False
    module[name](*args)
    return True


set_kernel_runner(run_compiled)
