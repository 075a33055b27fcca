"""The elements that a block accesses, one iteration after another, as data to animate."""

from __future__ import annotations

from itertools import islice, product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from search.explorer.program_view import Data, Parts
from tensorir.errors import IRTypeError
from tensorir.function import PrimFunc
from tensorir.indices.index_values import index_values
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import BufferLoad, IntImm, PrimExpr, Var
from tensorir.nodes.stmt import BlockRealize, BufferStore, For, Stmt
from tensorir.rewriting.visit import walk

MOST_ITERATIONS: Final = 512
"""The number of iterations that are animated."""
_CACHE_LINE: Final = 64


def block_accesses(func: PrimFunc, most: int = MOST_ITERATIONS) -> dict[str, list[Data]]:
    """Return by the key of a block what its first iterations access, for blocks that can be shown.

    An access has `buffer`, `kind` ("load" or "store"), `shape` (of the buffer), `line` (the
    elements of a cache line), and `at`, the position of the element in each iteration that the
    condition of the block admits, counted in row-major order. Blocks in loops whose extents are not
    constant are left out, as are indices that are read from memory.
    """
    parts = Parts(func)
    found: dict[str, list[Data]] = {}
    for stmt, around in parts.around.items():
        blocks = [node for node in around if isinstance(node, BlockRealize)]
        key = parts.key(blocks[-1]) if blocks and isinstance(stmt, BufferStore) else None
        if key is None:
            continue
        try:
            values = _iterations(around, most)
            if values is not None:
                found[key] = [_access(*access, values) for access in _accesses(stmt)]
        except IRTypeError:  # an index that is read from memory, or an extent that is an argument
            continue
    return found


def _iterations(around: tuple[Stmt, ...], most: int) -> dict[Var, NDArray[np.int64]] | None:
    """Return the values of loop variables and axes in the first iterations, None if unknown.

    Iterations in which the condition of a block is false are left out.
    """
    loops = [node for node in around if isinstance(node, For)]
    ranges: list[range] = []
    for loop in loops:
        if not isinstance(loop.extent, IntImm) or not isinstance(loop.min, IntImm):
            return None
        ranges.append(range(loop.min.value, loop.min.value + loop.extent.value))
    points = np.array(list(islice(product(*ranges), most)), np.int64).reshape(-1, len(loops))
    values = {loop.loop_var: points[:, k] for k, loop in enumerate(loops)}
    runs = np.ones(len(points), bool)
    for node in around:
        if isinstance(node, BlockRealize):
            runs &= np.asarray(index_values(node.predicate, values), bool)
            for axis, value in zip(node.block.iter_vars, node.iter_values, strict=True):
                values[axis.var] = np.broadcast_to(index_values(value, values), len(points))
    return {var: numbers[runs] for var, numbers in values.items()}


def _accesses(stmt: Stmt) -> list[tuple[Buffer, tuple[PrimExpr, ...], str]]:
    assert isinstance(stmt, BufferStore)
    loads = [part for part in walk(stmt.value) if isinstance(part, BufferLoad)]
    stored = (stmt.buffer, stmt.indices, "store")
    return [*((load.buffer, load.indices, "load") for load in loads), stored]


def _access(
    buffer: Buffer,
    indices: tuple[PrimExpr, ...],
    kind: str,
    values: dict[Var, NDArray[np.int64]],
) -> Data:
    shape = [int(index_values(extent, {})) for extent in buffer.shape]
    position: NDArray[np.int64] | int = 0
    for index, extent in zip(indices, shape, strict=True):
        position = position * extent + index_values(index, values)
    count = len(next(iter(values.values()), np.zeros(1)))
    return {
        "buffer": buffer.name,
        "kind": kind,
        "shape": shape,
        "line": max(1, _CACHE_LINE // buffer.dtype.nbytes),
        "at": np.broadcast_to(position, count).tolist(),
    }
