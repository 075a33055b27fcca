"""The arguments of a template as encoded in logs, and the keys that contain them."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np

from search.compat.autotvm.errors import ArgumentsError
from tensorir import te
from tensorir.nodes.expr import FloatImm, IntImm, StringImm

Workload: TypeAlias = tuple[Any, ...]
"""The name of a template and its encoded arguments: the key of a task in logs."""

_TENSOR: Final = "TENSOR"


def serialize_args(args: Any) -> tuple[Any, ...]:
    """Return arguments as strings, numbers, None and tuples of those.

    A tensor becomes `("TENSOR", shape, dtype)`, a list a tuple, a NumPy number a Python number.
    Raises ArgumentsError, a RuntimeError, for other types.
    """
    if not isinstance(args, (tuple, list)):
        raise ArgumentsError(
            f"the arguments of a task are a tuple, got {type(args).__name__}: {args!r}; write (n,) "
            "for one argument"
        )
    return tuple([_encode(arg, f"argument {k}") for k, arg in enumerate(args)])


def deserialize_args(args: Any) -> list[Any]:
    """Return arguments with encoded tensors as placeholders of the same shape and dtype."""
    return [_decode(arg) for arg in args]


def args_to_workload(args: Any, task_name: str | None = None) -> Workload:
    """Return the key of a call: the name of the template, then the encoded arguments."""
    encoded = serialize_args(args)
    return encoded if task_name is None else (task_name, *encoded)


def as_tuples(value: Any) -> Any:
    """Return a value from JSON with tuples for lists."""
    return tuple(map(as_tuples, value)) if isinstance(value, (list, tuple)) else value


def _encode(arg: Any, where: str) -> Any:
    if isinstance(arg, te.Tensor):
        return (
            _TENSOR,
            tuple([_encode(n, f"the shape of {where}") for n in arg.shape]),
            str(arg.dtype),
        )
    if isinstance(arg, (tuple, list)):
        return tuple([_encode(one, f"{where}[{k}]") for k, one in enumerate(arg)])
    if arg is None or isinstance(arg, (str, int, float)):
        return arg
    if isinstance(arg, np.generic):
        return _encode(arg.item(), where)
    if isinstance(arg, (StringImm, IntImm, FloatImm)):
        return arg.value
    raise ArgumentsError(
        f"{where} of a task is a {type(arg).__name__}, which a log cannot hold: {arg!r}; expected "
        "a tensor, a string, a number, None, or lists of those"
    )


def _decode(arg: Any) -> Any:
    if isinstance(arg, tuple) and len(arg) == 3 and arg[0] == _TENSOR:
        return te.placeholder(arg[1], dtype=arg[2])
    return tuple([_decode(one) for one in arg]) if isinstance(arg, tuple) else arg
