"""Modules of torch, exported, imported and built, beside torch itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

import codegen
from tensorir import IRModule, frontend
from tensorir.transform import LegalizeOps

TARGET = "llvm -opt-level=1"
"""Machine code that is made quickly."""


class Several(torch.nn.Module):
    """Functions of the same inputs as one module, because an export takes its time."""

    def __init__(self, functions: Sequence[Callable[..., Any]]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, *inputs: Any) -> list[Any]:
        return [function(*inputs) for function in self.functions]


def imported(module: torch.nn.Module, inputs: Sequence[Any], dynamic: Any = None) -> IRModule:
    """Return a module as it comes in."""
    exported = torch.export.export(module.eval(), tuple(inputs), dynamic_shapes=dynamic)
    return frontend.from_exported_program(exported)


def built(mod: IRModule) -> codegen.VirtualMachine:
    """Return a machine that runs a module, whose kernels are as they are written."""
    return codegen.VirtualMachine(codegen.vm_build(LegalizeOps()(mod), TARGET), codegen.cpu())


def compare(result: Any, expected: Any, rtol: float, atol: float) -> None:
    """Compare a result, flat if it is a tuple, with what a module of torch gives, shapes and dtypes included."""
    wanted = [leaf for leaf in tree_leaves(expected) if leaf is not None]
    if isinstance(expected, torch.Tensor):
        result = [result]
    assert len(result) == len(wanted)
    for array, leaf in zip(result, wanted, strict=True):
        tensor = leaf.detach().numpy() if isinstance(leaf, torch.Tensor) else np.asarray(leaf)
        assert array.numpy().shape == tensor.shape
        assert array.numpy().dtype == tensor.dtype
        np.testing.assert_allclose(array.numpy(), tensor, rtol=rtol, atol=atol)


def check(
    module: torch.nn.Module,
    inputs: Sequence[Any],
    *others: Sequence[Any],
    dynamic: Any = None,
    rtol: float = 1e-5,
    atol: float = 1e-5,
) -> IRModule:
    """Import and build a module, and compare it with torch for some inputs; return it as it came.

    Tolerances are of single elements; sums of float32 in another order differ by some last bits.
    """
    mod = imported(module, inputs, dynamic)
    vm = built(mod)
    for arguments in (inputs, *others):
        with torch.no_grad():
            compare(vm["main"](*arguments), module(*arguments), rtol, atol)
    return mod
