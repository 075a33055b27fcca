"""Small compiled programs for tests, built straight from nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import codegen
from codegen.target import Target
from tensorir.function import PrimFunc
from tensorir.nodes.buffer import decl_buffer
from tensorir.nodes.expr import BufferLoad, PrimExpr, Ramp, Var
from tensorir.nodes.ops import as_expr, const
from tensorir.nodes.stmt import BufferStore, For, ForKind, sequence

Array = np.ndarray[Any, np.dtype[Any]]


def elementwise_program(
    make: Callable[..., PrimExpr | Sequence[PrimExpr]], inputs: Sequence[str], lanes: int = 1
) -> PrimFunc:
    """Return a function of arrays that applies `make(x, y, ...)` element by element.

    `make` gets a load of each input (a vector of `lanes` elements) and returns one expression or
    several; the arrays that take their values follow the inputs. The number of elements must be a
    multiple of `lanes`.
    """
    n = Var("n")
    index = Var("i")
    at = Ramp(index * lanes, as_expr(1), lanes) if lanes > 1 else index
    sources = [decl_buffer((n,), dtype, f"in{k}") for k, dtype in enumerate(inputs)]
    made = make(*(BufferLoad(b, (at,)) for b in sources))
    values = [made] if isinstance(made, PrimExpr) else list(made)
    results = [decl_buffer((n,), v.dtype.element, f"out{k}") for k, v in enumerate(values)]
    body = sequence([BufferStore(b, v, (at,)) for b, v in zip(results, values, strict=True)])
    loop = For(index, const(0), n // lanes, ForKind.SERIAL, body)
    attrs = {"global_symbol": "f", "tir.noalias": True}
    return PrimFunc([*sources, *results], loop, attrs=attrs)


def outputs_of(func: PrimFunc, arrays: Sequence[Array]) -> list[Array]:
    """Return arrays for the parameters of a program of `elementwise_program` that are outputs."""
    buffers = list(func.buffer_map.values())[len(arrays) :]
    return [np.empty(len(arrays[0]), buffer.dtype.to_numpy()) for buffer in buffers]


def elementwise(
    make: Callable[..., PrimExpr | Sequence[PrimExpr]],
    inputs: Sequence[str],
    lanes: int = 1,
    target: str | Target = "llvm",
) -> Callable[..., list[Array]]:
    """Return the compiled `elementwise_program`, as a function from arrays to arrays."""
    func = elementwise_program(make, inputs, lanes)
    compiled = codegen.build(func, target)["f"]

    def apply(*arrays: Array) -> list[Array]:
        outputs = outputs_of(func, arrays)
        compiled(*arrays, *outputs)
        return outputs

    return apply
