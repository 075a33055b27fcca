"""A slow reference interpreter over NumPy arrays, which defines the meaning of programs.

It accepts programs in every form, from blocks to the last pass of lowering: statements and
expressions become Python closures once, then run. Operations are those of `tensorir.semantics`.
Memory is flat; every access is checked against the bounds of its buffer and of the allocation.
Loops of every kind run in order, except the threads of a launch, which run in lock step
(`tensorir.interp.launch`). The `init` of a block runs when its reduction axes have their
first values, and for an empty reduction (`tensorir.memory.empty_reductions`). Allocated memory
starts as NaN or a pattern, which exposes reads before writes. A division by 0 and a failed
assumption are errors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorir.function import IRModule, PrimFunc
from tensorir.interp.arguments import bind_arguments, random_arguments
from tensorir.interp.memory import InterpreterError
from tensorir.interp.statements import FunctionCompiler, Functions
from tensorir.recursion import run_as_deep_as

__all__ = ["InterpreterError", "interpret", "random_arguments"]


def interpret(
    program: PrimFunc | IRModule,
    *args: NDArray[Any] | float,
    func_name: str | None = None,
    refuse_undefined: bool = False,
) -> Any:
    """Run a function on arrays and scalars; outputs are written in place.

    `func_name` selects the function of a module, by default `main` or the only function. Returns
    the value of `T.ret`, None without it. Raises TypeError for a graph function; TypeError or
    ValueError, which names the parameter, for arguments that do not fit; InterpreterError, which
    names buffer, index and bounds, for an access out of bounds, and with `refuse_undefined` for a
    read of unwritten memory.
    """
    func = _function_to_run(program, func_name)
    functions = Functions(program if isinstance(program, IRModule) else None, refuse_undefined)
    layout = FunctionCompiler(func, functions)
    env = bind_arguments(func, args, lambda node, env: layout.expr(node)(env))
    with np.errstate(all="ignore"):
        return run_as_deep_as(func, functions.run, func, env)


def _function_to_run(program: PrimFunc | IRModule, name: str | None) -> PrimFunc:
    if isinstance(program, PrimFunc):
        return program
    if name is None:
        functions = program.prim_funcs()
        name = "main" if "main" in program or len(functions) != 1 else next(iter(functions))
    return program.prim_func(name)
