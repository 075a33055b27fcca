"""Functions that only copy elements, run by NumPy: transposes, packing of weights.

Compiling such a function takes longer than running it, and it runs once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorir.errors import IRTypeError
from tensorir.function import PrimFunc
from tensorir.indices.index_values import index_values
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import BufferLoad, IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import BlockRealize, BufferStore, For, SeqStmt, Stmt

_AT_ONCE: Final = 1 << 16
"""The number of elements for which indices are computed together."""


class ElementCopies:
    """A function whose blocks copy elements between its parameters, one copy an instance."""

    def __init__(self, func: PrimFunc, copies: Sequence[_Copy]) -> None:
        self._position = {func.buffer_map[p]: k for k, p in enumerate(func.params)}
        self._copies = copies

    @staticmethod
    def of(func: PrimFunc) -> ElementCopies | None:
        """Return the copies of a function; None for a function that computes something else.

        All loops and buffers must have constant shapes, and buffers no strides.
        """
        if not all(param in func.buffer_map for param in func.params):
            return None
        body: Stmt = func.body
        if isinstance(body, BlockRealize) and not body.block.iter_vars:
            root = body.block
            if root.init is not None or root.alloc_buffers or root.match_buffers:
                return None
            body = root.body
        nests = body.seq if isinstance(body, SeqStmt) else [body]
        copies = [copy for nest in nests if (copy := _copy_of(nest)) is not None]
        buffers = {buffer for copy in copies for buffer in (copy.load.buffer, copy.store.buffer)}
        is_known = len(copies) == len(nests) and buffers <= set(func.buffer_map.values())
        return ElementCopies(func, copies) if is_known else None

    def run(self, args: Sequence[Any]) -> bool:
        """Copy elements between arrays of the shapes and types of the parameters.

        Arrays that are written are contiguous. Returns False for an index outside of its buffer.
        """
        for copy in self._copies:
            source, target = (args[self._position[x.buffer]] for x in (copy.load, copy.store))
            source, target = source.reshape(-1), target.reshape(-1)
            for values in copy.instances():
                offsets = [_offsets(access, values) for access in (copy.load, copy.store)]
                if any(offset is None for offset in offsets):
                    return False
                read, written = np.broadcast_arrays(*offsets)
                target[written] = source[read]
        return True


class _Copy(NamedTuple):
    loops: Sequence[tuple[Var, int]]
    """The variables of the loops with their extents, outermost first."""
    bindings: Mapping[Var, PrimExpr]
    """The axes of the block with their values in the loops."""
    load: BufferLoad
    store: BufferStore

    def instances(self) -> Iterator[dict[Var, NDArray[np.int64]]]:
        """Yield the values of all axes for some iterations of the outermost loop at a time."""
        extents = [extent for _, extent in self.loops]
        step = max(1, _AT_ONCE // max(1, prod(extents[1:])))
        for start in range(0, extents[0] if extents else 1, step):
            ranges = [np.arange(extent) for extent in extents]
            ranges[:1] = [part[start : start + step] for part in ranges[:1]]
            grid = np.meshgrid(*ranges, indexing="ij", sparse=True)
            values = {var: at for (var, _), at in zip(self.loops, grid, strict=True)}
            yield {axis: index_values(value, values) for axis, value in self.bindings.items()}


def _copy_of(nest: Stmt) -> _Copy | None:
    """Return the copy of a loop nest with one data-parallel block; None for another statement."""
    loops: list[tuple[Var, int]] = []
    while isinstance(nest, For):
        if not isinstance(nest.extent, IntImm) or not is_const_int(nest.min, 0):
            return None
        loops.append((nest.loop_var, nest.extent.value))
        nest = nest.body
    if not isinstance(nest, BlockRealize) or not is_const_int(nest.predicate, 1):
        return None
    block = nest.block
    store = block.body
    if block.init or block.alloc_buffers or block.match_buffers:
        return None
    if not isinstance(store, BufferStore) or not isinstance(store.value, BufferLoad):
        return None
    load = store.value
    if load.buffer is store.buffer or load.buffer.dtype is not store.buffer.dtype:
        return None
    axes = [axis.var for axis in block.iter_vars]
    is_parallel = all(axis.iter_type == IterVar.DATA_PAR for axis in block.iter_vars)
    if not is_parallel or not _is_compact(load.buffer) or not _is_compact(store.buffer):
        return None
    copy = _Copy(loops, dict(zip(axes, nest.iter_values, strict=True)), load, store)
    try:
        zeros = dict.fromkeys(axes, np.zeros(1, np.int64))
        for access in (load, store):
            _offsets(access, zeros)
        for value in nest.iter_values:
            index_values(value, {var: np.zeros(1, np.int64) for var, _ in loops})
    except IRTypeError:
        return None
    return copy


def _is_compact(buffer: Buffer) -> bool:
    return not buffer.strides and all(isinstance(extent, IntImm) for extent in buffer.shape)


def _offsets(access: BufferLoad | BufferStore, values: Mapping[Var, NDArray[np.int64]]) -> Any:
    """Return the positions of elements in row-major order; None if one is outside of the buffer."""
    offset: Any = np.int64(0)
    stride = 1
    for index, extent in zip(access.indices[::-1], access.buffer.shape[::-1], strict=True):
        assert isinstance(extent, IntImm)
        place = index_values(index, values)
        if np.size(place) and (np.min(place) < 0 or np.max(place) >= extent.value):
            return None
        offset = offset + place * stride
        stride *= extent.value
    return offset
