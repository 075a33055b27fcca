"""The kernels of a program whose loops are bound to threads of a GPU, and the resources they use.

A program is read before or after postprocessing. Before it, a copy that the threads of a block
share (`COOPERATIVE_FETCH`) is not bound yet, and counts as if it were.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from codegen.lower.compact_buffers import Alignment, aligned_strides, alignments_of
from codegen.target.gpu import WARP
from codegen.target.tensor_cores import registers_of
from search.feature_extractor.stored_program import interval
from search.space_generator.annotations import COOPERATIVE_FETCH
from tensorir.errors import IRTypeError
from tensorir.function import PrimFunc
from tensorir.indices.accesses import Bindings, common_prefix, loads_in, placed_statements
from tensorir.indices.index_values import index_values
from tensorir.memory.storage_scopes import is_fragment, memory_of
from tensorir.nodes.buffer import Buffer, BufferRegion
from tensorir.nodes.expr import IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.ops import const, is_const_int
from tensorir.nodes.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
)
from tensorir.rewriting.element_rewriter import indices_in_source
from tensorir.rewriting.visit import collect_vars

Ints = NDArray[np.int64]

SHARED: Final = ("shared", "shared.dyn")
_UNKNOWN: Final = 1
"""The extent of a loop that is not constant."""


@dataclass(frozen=True, eq=False, slots=True)
class Access:
    """A load or store of a buffer in a nest."""

    buffer: Buffer
    indices: tuple[PrimExpr, ...]

    @property
    def scope(self) -> str:
        """The storage scope, such as `"global"`."""
        return self.buffer.scope()


@dataclass(eq=False, slots=True)
class ThreadStore:
    """A store with the loops around it, outermost first; its first access is the store."""

    node: BufferStore
    loops: tuple[For, ...]
    accesses: tuple[Access, ...]
    fetch: int
    """The vector length of a copy that threads share and that is not bound yet, else 0."""
    is_guarded: bool
    """True below a condition, which may leave out some iterations."""

    @property
    def uses_fragments(self) -> bool:
        """True if it accesses a fragment: the threads of a warp run its iterations together."""
        return any(is_fragment(access.buffer.data) for access in self.accesses)

    @property
    def own_loops(self) -> list[For]:
        """The loops that each thread runs, virtual threads included."""
        return [loop for loop in self.loops if not loop.thread_tag.startswith(_HARDWARE)]

    @property
    def vector(self) -> int:
        """The number of elements that a thread accesses at a time."""
        lanes = [extent(x) for x in self.loops if x.kind is ForKind.VECTORIZED]
        return self.fetch or math.prod(lanes)


_HARDWARE: Final = ("blockIdx", "threadIdx")


@dataclass(eq=False)
class Kernel:
    """A nest at the top of a program: its thread axes and its stores.

    `axes` has the extents of the thread axes; if several loops are bound to one axis, the largest.
    """

    axes: dict[str, int] = field(default_factory=dict)
    stores: list[ThreadStore] = field(default_factory=list)
    scope: Bindings = field(default_factory=Bindings)
    """The values of block axes and lets, in terms of loops."""
    alignments: Mapping[Buffer, Alignment] = field(default_factory=dict)
    """The alignments of the dimensions of buffers (`Schedule.storage_align`)."""

    def count(self, kind: str) -> int:
        """Return the number of `"blockIdx"`, `"threadIdx"` or `"vthread"` iterations."""
        return math.prod(n for axis, n in self.axes.items() if axis.startswith(kind))

    @property
    def is_bound(self) -> bool:
        """True if all stores are in thread blocks and run by their threads."""
        return all(
            any(loop.thread_tag.startswith(kind) for loop in store.loops)
            or store.fetch > 0
            or (store.uses_fragments and kind == _HARDWARE[1])
            for store in self.stores
            for kind in _HARDWARE
        )

    def spans(self, store: ThreadStore, access: Access, fixed: Sequence[For]) -> list[int]:
        """Return the extents of the box that an access touches while some loops are fixed."""
        ranges = {loop.loop_var: (0, extent(loop) - 1) for loop in store.loops}
        ranges.update(dict.fromkeys((loop.loop_var for loop in fixed), (0, 0)))
        sizes = []
        for index, size in zip(access.indices, access.buffer.shape, strict=True):
            low, high = interval(index, ranges, self.scope) or (0, 0)
            whole = size.value if isinstance(size, IntImm) else high - low + 1
            sizes.append(min(high - low + 1, whole))
        return sizes

    def elements(self, store: ThreadStore, access: Access, values: Mapping[Var, Ints]) -> Ints:
        """Return the position in its buffer of an access for values of loops; others are 0.

        An allocated buffer has the shape of its live region.
        """
        position = np.zeros(1, np.int64)
        for index, stride in zip(access.indices, self.strides(access.buffer), strict=True):
            position = position + _at(index, values, self.scope.values) * stride
        return position

    def strides(self, buffer: Buffer) -> list[int]:
        """Return the distances of the elements of a buffer along its dimensions."""
        shape = self.allocated.get(buffer)
        if shape is None:
            shape = [n.value if isinstance(n, IntImm) else 1 for n in buffer.shape]
        if not shape:
            return []
        found = aligned_strides([const(n) for n in shape], self.alignments.get(buffer, {}))
        return [stride.value for stride in found if isinstance(stride, IntImm)]

    @cached_property
    def allocated(self) -> dict[Buffer, list[int]]:
        """The buffers in shared and local memory and fragments, with the extents of live regions.

        A region is that of one thread block, of one virtual thread, or of one warp.
        """
        uses: dict[Buffer, list[tuple[ThreadStore, Access]]] = {}
        for store in self.stores:
            for access in store.accesses:
                if memory_of(access.buffer.data) != "global":
                    uses.setdefault(access.buffer, []).append((store, access))
        regions = {}
        for buffer, found in uses.items():
            around = common_prefix([list(store.loops) for store, _ in found])
            # A guarded store may run beyond the region that the others have.
            found = [(s, a) for s, a in found if not s.is_guarded] or found
            kinds = _HARDWARE[:1] if buffer.scope() in SHARED else (*_HARDWARE, "vthread")
            common = [x for x in around if not x.thread_tag]
            boxes = [
                self.spans(
                    store,
                    access,
                    [*common, *(x for x in store.loops if x.thread_tag.startswith(kinds))],
                )
                for store, access in found
            ]
            regions[buffer] = [max(sizes) for sizes in zip(*boxes, strict=True)]
        return regions

    @property
    def local_words(self) -> int:
        """The 32-bit words of local memory and fragments of a thread.

        All its virtual threads have their own.
        """
        words = 0
        for buffer, box in self.allocated.items():
            if buffer.scope() == "local":
                words += math.prod(box) * -(-buffer.dtype.nbytes // 4)
            elif buffer.scope() not in SHARED:
                words += registers_of(buffer.scope(), buffer.dtype, math.prod(box))
        return words * self.count("vthread")

    @property
    def vector_bytes(self) -> int:
        """The bytes of the widest load or store of a thread."""
        return max(
            (s.vector * a.buffer.dtype.nbytes for s in self.stores for a in s.accesses), default=0
        )


def extent(loop: For) -> int:
    """Return the extent of a loop, 1 if it is not constant."""
    return loop.extent.value if isinstance(loop.extent, IntImm) else _UNKNOWN


def kernels_of(func: PrimFunc) -> list[Kernel]:
    """Return the kernels of a scheduled function, in order; statements outside of loops are one."""
    found: dict[Stmt | None, Kernel] = {}
    scope, alignments = Bindings(), alignments_of(func.body)
    views: dict[Buffer, BufferRegion] = {}
    for node, around in placed_statements(func.body):
        if isinstance(node, BlockRealize):
            axes = (axis.var for axis in node.block.iter_vars)
            scope.values.update(zip(axes, node.iter_values, strict=True))
        elif isinstance(node, Block):
            views.update((view.buffer, view.source) for view in node.match_buffers)
        elif isinstance(node, LetStmt):
            scope.values[node.var] = node.value
        elif isinstance(node, BufferStore):
            loops = tuple(outer for outer in around if isinstance(outer, For))
            outermost = loops[0] if loops else None
            kernel = found.setdefault(outermost, Kernel(scope=scope, alignments=alignments))
            for loop in loops:
                axis = loop.thread_tag
                if axis:
                    kernel.axes[axis] = max(kernel.axes.get(axis, 1), extent(loop))
            accesses = tuple(
                _access(buffer, indices, views)
                for buffer, indices in (
                    (node.buffer, node.indices),
                    *((load.buffer, load.indices) for load in loads_in(node.value)),
                )
            )
            guarded = any(_is_condition(outer) for outer in around)
            own = _without_reduction(loops, around, node)
            fetch = _fetch(around)
            if fetch and extent(loops[-1]) % fetch:
                fetch = 1  # as `RewriteCooperativeFetch` does
            store = ThreadStore(node, own, accesses, fetch, guarded)
            kernel.stores.append(store)
            if store.uses_fragments:
                kernel.axes["threadIdx.x"] = WARP
    return list(found.values())


def _access(
    buffer: Buffer, indices: Sequence[PrimExpr], views: Mapping[Buffer, BufferRegion]
) -> Access:
    """Return an access, through a view to the buffer itself."""
    if buffer in views:
        source = views[buffer]
        return _access(source.buffer, indices_in_source(source, indices), views)
    return Access(buffer, tuple(indices))


def _without_reduction(
    loops: tuple[For, ...], around: Sequence[Stmt], node: Stmt
) -> tuple[For, ...]:
    """Return the loops around a store, for an init without the serial ones of its reduction."""
    inside = (*around, node)
    for realize, block, inner in zip(inside, inside[1:], inside[2:], strict=False):
        if isinstance(realize, BlockRealize) and isinstance(block, Block) and inner is block.init:
            axes = zip(block.iter_vars, realize.iter_values, strict=True)
            reduced = {
                var
                for axis, value in axes
                if axis.iter_type == IterVar.COMM_REDUCE
                for var in collect_vars(value)
            }
            return tuple(x for x in loops if x.thread_tag or x.loop_var not in reduced)
    return loops


def _is_condition(node: Stmt) -> bool:
    if isinstance(node, BlockRealize):
        return not is_const_int(node.predicate, 1)
    return isinstance(node, IfThenElse)


def _fetch(around: Sequence[Stmt]) -> int:
    block = around[-1] if around else None
    length: Any = block.annotations.get(COOPERATIVE_FETCH) if isinstance(block, Block) else None
    return length.value if isinstance(length, IntImm) else length or 0


def _at(index: PrimExpr, loops: Mapping[Var, Ints], values: Mapping[Var, PrimExpr]) -> Ints:
    """Return the values of an index for arrays of values of some loops; other variables are 0.

    An index that is loaded is 0, and so is a quotient by 0.
    """
    known = {
        var: _at(values[var], loops, values) if var in values else loops.get(var, _ZERO)
        for var in collect_vars(index)
    }
    try:
        with np.errstate(divide="ignore"):
            return np.atleast_1d(index_values(index, known))
    except IRTypeError:
        return _ZERO


_ZERO: Final[Ints] = np.zeros(1, np.int64)
