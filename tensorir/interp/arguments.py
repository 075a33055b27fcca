"""Binding of arguments: arrays as memory, and the variables of shapes and layouts."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tensorir.errors import IRTypeError, IRValueError
from tensorir.function import PrimFunc
from tensorir.interp.memory import Memory, compact_strides
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import IntImm, PrimExpr, Var, integer_limits
from tensorir.rewriting.visit import collect_vars
from tensorir.semantics import rounding

Env: TypeAlias = dict[Var, Any]
"""Values of variables; a pointer is a `Memory`."""
Evaluate: TypeAlias = Callable[[PrimExpr, Env], int]


def bind_arguments(func: PrimFunc, args: tuple[Any, ...], evaluate: Evaluate) -> Env:
    """Return the values of parameters and symbolic extents.

    Raises IRTypeError or IRValueError, which name the parameter, for an argument that does not fit.
    """
    if len(args) != len(func.params):
        raise IRTypeError(f"the function takes {len(func.params)} arguments, got {len(args)}")
    env: Env = {}
    arrays: list[tuple[Buffer, NDArray[Any]]] = []
    for param, arg in zip(func.params, args, strict=True):
        buffer = func.buffer_map.get(param)
        if buffer is not None:
            arrays.append((buffer, _checked_array(buffer, arg)))
        elif param.dtype.is_handle:
            env[param] = None if arg is None else _memory_of(np.asarray(arg))
        else:
            env[param] = scalar(param, arg)
    # First bind each variable that is a whole dimension; then compare all expressions.
    for equate in (_bind, _compare):
        for buffer, array in arrays:
            for what, wanted, actual in _facts(buffer, array):
                equate(buffer, what, wanted, actual, env, evaluate)
    for buffer, array in arrays:
        memory = _memory_of(array)
        # The array begins at element `elem_offset` of the memory.
        env[buffer.data] = memory.after(-evaluate(buffer.elem_offset, env))
    return env


def scalar(param: Var, arg: Any) -> Any:
    """Return a scalar argument as a value of the parameter's type."""
    dtype = param.dtype
    if dtype.is_bool:
        return bool(arg)
    if not dtype.is_integral:
        return rounding(dtype)(float(arg))
    number = operator.index(arg)
    low, high = integer_limits(dtype)
    if not low <= number <= high:
        raise IRValueError(f"argument {param.name}: {number} does not fit {dtype}")
    return number


def _checked_array(buffer: Buffer, arg: Any) -> NDArray[Any]:
    if not isinstance(arg, np.ndarray):
        raise IRTypeError(f"argument {buffer.name} must be a NumPy array, got {type(arg).__name__}")
    expected = buffer.dtype.element.to_numpy()
    if arg.dtype != expected:
        raise IRTypeError(f"argument {buffer.name} has dtype {arg.dtype}, expected {expected}")
    rank = len(buffer.shape) + (buffer.dtype.lanes > 1)
    if arg.ndim != rank:
        raise IRValueError(f"argument {buffer.name} has {arg.ndim} dimension(s), expected {rank}")
    return arg


def _facts(buffer: Buffer, array: NDArray[Any]) -> list[tuple[str, PrimExpr, int]]:
    """Return facts about shape, strides and offset of the buffer that follow from the array."""
    rank = len(buffer.shape)
    sizes, steps = array.shape[:rank], [step // array.itemsize for step in array.strides[:rank]]
    dims = enumerate(zip(buffer.shape, sizes, strict=True))
    facts = [(f"extent {size} in dimension {k}", n, size) for k, (n, size) in dims]
    if not buffer.strides:
        # The stride of a dimension with one element is arbitrary.
        wanted = compact_strides(sizes)
        if 0 not in sizes and any(
            a != b and n > 1 for a, b, n in zip(steps, wanted, sizes, strict=True)
        ):
            raise IRValueError(f"argument {buffer.name} must be contiguous in row-major order")
        return facts
    strides = zip(buffer.strides, steps, sizes, strict=True)
    return facts + [
        (f"stride {step} in dimension {k}", stride, step)
        for k, (stride, step, size) in enumerate(strides)
        if size != 1 or isinstance(stride, Var)
    ]


def _bind(
    buffer: Buffer, what: str, wanted: PrimExpr, actual: int, env: Env, evaluate: Evaluate
) -> None:
    if isinstance(wanted, Var):
        env.setdefault(wanted, actual)
    if isinstance(buffer.elem_offset, Var):
        env.setdefault(buffer.elem_offset, 0)


def _compare(
    buffer: Buffer, what: str, wanted: PrimExpr, actual: int, env: Env, evaluate: Evaluate
) -> None:
    unknown = [v.name for v in collect_vars(wanted) if v not in env]
    if unknown:
        raise IRValueError(f"no argument determines {', '.join(unknown)} in argument {buffer.name}")
    expected = wanted.value if isinstance(wanted, IntImm) else evaluate(wanted, env)
    if expected != actual:
        raise IRValueError(f"argument {buffer.name} has {what}, expected {expected}")


def _memory_of(array: NDArray[Any]) -> Memory:
    """Return the memory of an array view, from its lowest element to its highest."""
    if array.size == 0:
        return Memory(np.empty(0, array.dtype))
    reach = [(n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)]
    below = -sum(r for r in reach if r < 0) // array.itemsize
    above = sum(r for r in reach if r > 0) // array.itemsize
    lowest = array[(..., *(slice(None, None, -1) if r < 0 else slice(None) for r in reach))]
    return Memory(as_strided(lowest, (below + above + 1,), (array.itemsize,)), below)


def random_arguments(func: PrimFunc, seed: int = 0) -> list[NDArray[Any]]:
    """Return random arrays of the shapes and dtypes of a function's parameters.

    Floats are in [1, 2), integers in [1, 8). Raises IRValueError for a shape that is not constant.
    """
    rng = np.random.default_rng(seed)
    arrays: list[NDArray[Any]] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None or not all(isinstance(n, IntImm) for n in buffer.shape):
            raise IRValueError(f"parameter {param.name} must be a buffer of constant shape")
        shape = [int(n) for n in buffer.shape]  # type: ignore[call-overload]
        kind = buffer.dtype.to_numpy()
        values = rng.uniform(1, 2, shape) if buffer.dtype.is_float else rng.integers(1, 8, shape)
        arrays.append(np.asarray(values).astype(kind))
    return arrays
