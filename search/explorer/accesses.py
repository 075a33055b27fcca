"""The elements that a block accesses, one iteration after another, as data to animate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from search.explorer.program_view import Data, Parts
from tensorir.errors import IRTypeError
from tensorir.function import PrimFunc
from tensorir.indices.index_values import index_values
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import And, BufferLoad, Call, IterVar, Or, PrimExpr, Var
from tensorir.nodes.intrin import Op
from tensorir.nodes.node import Node
from tensorir.nodes.ops import logical_not
from tensorir.nodes.stmt import Block, BlockRealize, BufferStore, For, IfThenElse, Stmt, While
from tensorir.rewriting.visit import children

MOST_ITERATIONS: Final = 512
"""The number of iterations that are animated."""
_CACHE_LINE: Final = 64
_IF_THEN_ELSE: Final = Op.get("if_then_else")

Values: TypeAlias = dict[Var, NDArray[np.int64]]
"""The values of loop variables and axes, one for each iteration."""
Mask: TypeAlias = NDArray[np.bool_]


def block_accesses(func: PrimFunc, most: int = MOST_ITERATIONS) -> dict[str, list[Data]]:
    """Return by the key of a block what its first iterations access, for blocks that can be shown.

    An access has `buffer`, `kind` ("load" or "store"), `shape` (of the buffer), `line` (the
    elements of a cache line), and `at`, the position of the element in each iteration that the
    condition of the block admits, counted in row-major order. The position is None in an iteration
    without the access: in the other branch of an `if` or `if_then_else`, and for the stores of
    `T.init` after the first iteration of a reduction. Blocks with while loops or with loops whose
    extents are not constant are left out, as are blocks with indices or conditions that are read
    from memory.
    """
    parts = Parts(func)
    found: dict[str, list[Data]] = {}
    unknown: set[str] = set()
    for stmt, around in parts.around.items():
        blocks = [node for node in around if isinstance(node, BlockRealize)]
        key = parts.key(blocks[-1]) if blocks else None
        if key is None or not isinstance(stmt, BufferStore):
            continue
        try:
            found.setdefault(key, []).extend(_accesses(stmt, around, most))
        except IRTypeError:  # an index that is read from memory, or an extent that is an argument
            unknown.add(key)
    return {key: accesses for key, accesses in found.items() if key not in unknown}


def _accesses(stmt: BufferStore, around: Sequence[Stmt], most: int) -> Iterator[Data]:
    values, runs = _iterations([*around, stmt], most)
    for load, conditions in _loads(stmt.value):
        happens = runs
        for condition in conditions:
            happens = happens & _holds(condition, values)
        yield _access(load.buffer, load.indices, "load", values, happens)
    yield _access(stmt.buffer, stmt.indices, "store", values, runs)


def _iterations(path: Sequence[Stmt], most: int) -> tuple[Values, Mask]:
    """Return the values of loop variables and axes in the first iterations of a statement's block,
    and the iterations in which the statement runs.

    `path` has the statements around the statement, outermost first, and the statement itself.
    Iterations in which the block does not run are left out.
    """
    loops = [node for node in path if isinstance(node, For)]
    starts = [int(index_values(loop.min, {})) for loop in loops]
    extents = [max(0, int(index_values(loop.extent, {}))) for loop in loops]
    runs = np.ones(min(most, prod(extents)), bool)
    rest = np.arange(len(runs))
    values: Values = {}
    for loop, start, extent in zip(loops[::-1], starts[::-1], extents[::-1], strict=True):
        rest, steps = np.divmod(rest, extent)
        values[loop.loop_var] = start + steps
    for node, inner in pairwise(path):
        if isinstance(node, BlockRealize):
            runs = runs & _holds(node.predicate, values)
            values = {var: numbers[runs] for var, numbers in values.items()}
            runs = runs[runs]
            for axis, value in zip(node.block.iter_vars, node.iter_values, strict=True):
                values[axis.var] = np.broadcast_to(index_values(value, values), len(runs))
        elif isinstance(node, Block) and inner is node.init:
            for axis in node.iter_vars:
                if axis.iter_type == IterVar.COMM_REDUCE and axis.dom is not None:
                    runs = runs & (values[axis.var] == index_values(axis.dom.min, values))
        elif isinstance(node, IfThenElse):
            runs = runs & (_holds(node.condition, values) == (inner is node.then_case))
        elif isinstance(node, While):
            raise IRTypeError(f"the iterations of `while {node.condition}` are unknown")
    return values, runs


def _holds(condition: PrimExpr, values: Values) -> Any:
    return np.asarray(index_values(condition, values), bool)


def _loads(value: PrimExpr) -> Iterator[tuple[BufferLoad, tuple[PrimExpr, ...]]]:
    """Yield the loads in an expression, each with the conditions under which it is evaluated."""
    pending: list[tuple[Node, tuple[PrimExpr, ...]]] = [(value, ())]
    while pending:
        node, conditions = pending.pop()
        if isinstance(node, BufferLoad):
            yield node, conditions
        parts = [(part, (*conditions, *more)) for part, more in _conditional_parts(node)]
        pending.extend(reversed(parts))


def _conditional_parts(node: Node) -> Iterator[tuple[Node, tuple[PrimExpr, ...]]]:
    """Yield the parts of an expression, each with its condition, if it has one."""
    if isinstance(node, Call) and node.op is _IF_THEN_ELSE:
        condition, yes, no = node.args
        yield condition, ()
        yield yes, (condition,)
        yield no, (logical_not(condition),)
    elif isinstance(node, (And, Or)):
        yield node.a, ()
        yield node.b, (node.a if isinstance(node, And) else logical_not(node.a),)
    else:
        yield from ((part, ()) for part in children(node))


def _access(
    buffer: Buffer, indices: tuple[PrimExpr, ...], kind: str, values: Values, happens: Mask
) -> Data:
    shape = [int(index_values(extent, {})) for extent in buffer.shape]
    position: NDArray[np.int64] | int = 0
    for index, extent in zip(indices, shape, strict=True):
        position = position * extent + index_values(index, values)
    return {
        "buffer": buffer.name,
        "kind": kind,
        "shape": shape,
        "line": max(1, _CACHE_LINE // buffer.dtype.nbytes),
        "at": np.where(happens, position, np.array(None)).tolist(),
    }
