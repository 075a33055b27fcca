"""Loops of graph functions: a library function that calls a graph function repeatedly.

    y, last, all = relax.call_loop(step, [x], [w], trips=10, scans=[x.struct_info], out_sinfo=...)

The body of a loop is a function of the module, `step`, which is transformed and compiled like any
other; values from around the loop are passed as arguments. A step may return arrays of other shapes
than it receives. The loop itself runs in Python, with constant stack depth:

    k = 0
    while (trips is absent or k < trips) and go_on:
        go_on, *carried, *parts = step(k, *carried, *captured)
        k = k + 1
    return (*carried, *stacked parts of all rounds)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import GlobalVar, PrimExpr, Var
from tensorir.relax.calls import call_pure_packed
from tensorir.relax.declaration import library_call
from tensorir.relax.expr import (
    GraphCall,
    GraphExpr,
    GraphVar,
    MatchCast,
    PrimValue,
    ShapeExpr,
    StringValue,
    Tuple,
)
from tensorir.relax.function import Function
from tensorir.relax.operator import LIBRARY_PREFIX
from tensorir.relax.struct_info import (
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    defining_extents,
)
from tensorir.rewriting.visit import collect_vars, walk

LOOP: Final = LIBRARY_PREFIX + "loop"
"""The library function: `(step, dtypes as JSON, shapes, trips, go_on, carried, captured)`."""


def call_loop(
    step: GlobalVar,
    carried: Sequence[GraphExpr],
    captured: Sequence[GraphExpr] = (),
    *,
    out_sinfo: Sequence[StructInfo],
    trips: GraphExpr | PrimExpr | int | None = None,
    go_on: GraphExpr | bool = True,
    scans: Sequence[TensorStructInfo] = (),
) -> GraphCall:
    """Return the call of a loop, which returns a tuple: final carried values, then stacked parts.

    `step(k, *carried, *captured)` returns a tuple: the condition to continue (a bool without
    dimensions), the values for the next round, and a part for each stacked output; `k` is an int64
    without dimensions, counted from 0. The loop ends after `trips` rounds (None: unlimited), or
    when `go_on` or the step's first result is false. `scans` are the struct infos of the parts;
    they define the stacked outputs of a loop without rounds (unknown extents are 0 then).
    `out_sinfo` states the fields of the result, which are checked at run time. Raises IRTypeError
    for parts of unknown dtype or rank. Raises IRValueError for another number of results.
    """
    if len(out_sinfo) != len(carried) + len(scans):
        raise IRValueError(
            f"a loop that carries {len(carried)} value(s) and stacks {len(scans)} returns "
            f"{len(carried) + len(scans)}, but out_sinfo states {len(out_sinfo)}"
        )
    rounds: GraphExpr = Tuple(())
    if trips is not None:
        rounds = trips if isinstance(trips, GraphExpr) else PrimValue(trips)
    return call_pure_packed(
        LOOP,
        step,
        StringValue(json.dumps([_dtype(info) for info in scans])),
        Tuple(ShapeExpr([0] * info.ndim if info.shape is None else info.shape) for info in scans),
        rounds,
        PrimValue(go_on) if isinstance(go_on, bool) else go_on,
        Tuple(carried),
        Tuple(captured),
        sinfo_args=TupleStructInfo(out_sinfo),
    )


def with_sizes(step: Function) -> tuple[Function, list[GraphExpr]]:
    """Return a step that receives the sizes that it uses but does not define.

    Also return the argument for its new last parameter, or no argument without such sizes.
    """
    defined = sizes_of_parameters(step)
    for node in walk(step.body):
        if isinstance(node, MatchCast):
            extents = defining_extents(node.struct_info)
            defined.update(extent for extent in extents if isinstance(extent, Var))
    used = [var for param in step.params for var in collect_vars(param.struct_info)]
    used += collect_vars(step.body)
    sizes = [var for var in dict.fromkeys(used) if var not in defined]
    if not sizes:
        return step, []
    shape = GraphVar("sizes", ShapeStructInfo(sizes))
    result = Function([*step.params, shape], step.body, None, step.is_pure, step.attrs)
    return result, [ShapeExpr(sizes)]


def sizes_of_parameters(func: Function) -> set[Var]:
    """Return the symbolic sizes that the parameters of a function define."""
    return {
        extent
        for param in func.params
        for extent in defining_extents(param.struct_info)
        if isinstance(extent, Var)
    }


def _dtype(info: TensorStructInfo) -> str:
    if info.dtype is None or info.ndim < 0:
        raise IRTypeError(f"a loop stacks tensors whose dtype and rank are known, got {info}")
    return str(info.dtype)


@library_call("loop")
def run_loop(
    step: Callable[..., Any],
    dtypes: str,
    shapes: tuple[tuple[int, ...], ...],
    trips: Any,
    go_on: Any,
    carried: tuple[Any, ...],
    captured: tuple[Any, ...],
) -> tuple[Any, ...]:
    """Run a loop: the library function that `call_loop` names."""
    limit = None if isinstance(trips, tuple) else int(np.reshape(trips, ()))
    parts: list[list[Any]] = [[] for _ in shapes]
    k = 0
    while go_on and (limit is None or k < limit):
        go_on, *values = step(np.array(k, np.int64), *carried, *captured)
        carried = tuple(values[: len(carried)])
        for found, part in zip(parts, values[len(carried) :], strict=True):
            found.append(part)
        k += 1
    return (*carried, *map(_stacked, json.loads(dtypes), shapes, parts))


def _stacked(dtype: str, shape: Sequence[int], parts: Sequence[Any]) -> NDArray[Any]:
    """Return arrays stacked along a new axis. Raises IRValueError if their shapes differ.

    Without arrays, `shape` is the shape of a missing array.
    """
    first = parts[0].shape if parts else tuple(shape)
    for k, part in enumerate(parts):
        if part.shape != first:
            raise IRValueError(
                f"round {k} of a loop returns an array of shape {part.shape}, but earlier rounds "
                f"returned the shape {first}"
            )
    stacked = np.empty((len(parts), *first), DataType(dtype).to_numpy())
    for k, part in enumerate(parts):
        stacked[k] = part
    return stacked
