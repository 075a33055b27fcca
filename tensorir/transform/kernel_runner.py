"""Running tensor functions while a module is transformed: compiled, or interpreted.

A package that compiles tensor functions registers an extension (`tensorir.extensions`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np

from tensorir.extensions import KERNEL_RUNNER, extension
from tensorir.function import IRModule
from tensorir.interp import InterpreterError, interpret
from tensorir.memory.element_copies import ElementCopies
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import Call, IntImm
from tensorir.nodes.node import Node
from tensorir.relax.call_graph import all_callees
from tensorir.rewriting.visit import children, walk

Run: TypeAlias = Callable[[Sequence[Any]], bool]
"""Runs a tensor function on arrays and integers; the function writes its outputs in place.

Returns False if the function cannot be run; then the outputs are undefined.
"""
KernelRunner: TypeAlias = Callable[[IRModule, str], Run | None]
"""Prepares a tensor function for any number of runs; returns None if it cannot be run.

The module has only tensor functions: the function that is run, and its callees.
"""

logger = logging.getLogger("tensorir.transform")

MOST_STEPS: Final = 1_000_000
"""The maximum number of statements that the interpreter runs, in about a second."""
_FEW_STEPS: Final = 4_000
"""The number of statements that the interpreter runs while a function of them is compiled."""

_OUTSIDE: Final = frozenset(
    {"call_packed", "call_cpacked", "tvm_call_packed", "tvm_call_cpacked", "call_extern"}
)
"""Operations that call functions other than tensor functions and may have effects."""


def runnable_kernel(mod: IRModule, name: str) -> Run | None:
    """Return the runner of a tensor function of a module; None if it cannot be run.

    NumPy runs functions that only copy elements, and the interpreter functions that end before they
    were compiled. Functions that call library functions are not run.
    Inputs need no alignment, so they may be weights in a memory-mapped file.
    """
    functions = mod.prim_funcs()
    copies = ElementCopies.of(functions[name])
    if copies is not None:
        return copies.run
    kernels = IRModule({n: functions[n] for n in all_callees(functions, [name]) if n in functions})
    for func in kernels.prim_funcs().values():
        for node in walk(func.body):
            if isinstance(node, Call) and getattr(node.op, "short_name", "") in _OUTSIDE:
                return None
    is_short = steps(functions[name].body, MOST_STEPS) <= _FEW_STEPS
    run = interpreted(kernels, name) if is_short else _runner()(kernels, name)
    return None if run is None else lambda args: run([_aligned(arg) for arg in args])


@cache
def _runner() -> KernelRunner:
    """Return the extension that compiles tensor functions, otherwise warn and interpret them."""
    found: KernelRunner | None = extension(KERNEL_RUNNER)
    if found is None:
        logger.warning(
            "no installed package provides a compiler for constants: the interpreter computes "
            "them, slowly; install tensorir again"
        )
    return found or interpreted


def _aligned(arg: Any) -> Any:
    """Return an array with aligned elements: the array itself if it is aligned, as outputs are."""
    return np.require(arg, requirements="A") if isinstance(arg, np.ndarray) else arg


def interpreted(mod: IRModule, name: str) -> Run:
    """Return the runner that interprets a tensor function.

    Return None if that takes more than about a second.
    """
    func = mod.prim_funcs()[name]

    def run(args: Sequence[Any]) -> bool:
        longest = max((n for arg in args for n in getattr(arg, "shape", ())), default=1)
        if steps(func.body, max(1, longest)) > MOST_STEPS:
            return False
        try:
            interpret(mod, *args, func_name=name)
        except InterpreterError:
            return False
        return True

    return run


def steps(node: Node, longest: int) -> int:
    """Return the maximum number of executed statements; `longest` replaces unknown extents."""
    if isinstance(node, s.For):
        count = node.extent.value if isinstance(node.extent, IntImm) else longest
        return count * steps(node.body, longest)
    if isinstance(node, s.While):
        return MOST_STEPS + 1  # unknown
    inner = [child for child in children(node) if isinstance(child, s.Stmt)]
    return max(1, sum(steps(child, longest) for child in inner))
