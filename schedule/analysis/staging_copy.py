"""The parts of staging: a buffer that stands for another, and nests that fill or empty it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from schedule.analysis.bindings import loop_range
from schedule.analysis.rebuild import BlockRewriter
from schedule.errors import Problem, check
from schedule.sref import StmtSRef
from schedule.state import ScheduleState
from schedule.stmt_cursor import StmtCursor
from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import BufferLoad, IterVar, PointerType, PrimExpr, PrimType, Var
from tensorir.nodes.ops import TRUE, add, const
from tensorir.nodes.stmt import Block, BlockRealize, BufferStore, For, ForKind, Stmt
from tensorir.rewriting.visit import substitute

INVALID_SCOPE = Problem(
    "InvalidStorageScopeError",
    "{storage_scope!r} is no storage scope",
    "the scopes are global, shared, local, warp and their tagged forms such as shared.dyn",
)
INDEX_OUT_OF_RANGE = Problem(
    "BufferIndexOutOfRangeError",
    "the argument `buffer_index` is {index}, but {0} has {count} {side} region(s)",
    "count from 0",
)

STORAGE_SCOPES = (
    "global",
    "shared",
    "warp",
    "local",
    "wmma.",
    "texture",
    "amx.tmm",
    "m16n8k8.",
    "metal.",
)


# ------------------------------------------------------------------------------------- the buffer


def check_storage_scope(block: StmtSRef, storage_scope: str) -> None:
    """Raise unless there is such a storage scope; the empty one is global."""
    valid = storage_scope == "" or storage_scope.startswith(STORAGE_SCOPES)
    check(valid, INVALID_SCOPE, block, storage_scope=storage_scope)


def checked_buffer(block: StmtSRef, index: int, storage_scope: str, side: str) -> Buffer:
    """Return the buffer of a block's region; raise for a scope or an index that does not exist."""
    check_storage_scope(block, storage_scope)
    regions = block.block.reads if side == "read" else block.block.writes
    inside = 0 <= index < len(regions)
    check(inside, INDEX_OUT_OF_RANGE, block, index=index, count=len(regions), side=side)
    return regions[index].buffer


def stage_buffer(
    buffer: Buffer, name: str, storage_scope: str, shape: Sequence[PrimExpr] | None = None
) -> Buffer:
    """Return a compact buffer of the same elements in its own memory.

    With a `shape`, its dimensions are others than those of `buffer`.
    """
    kind = buffer.data.type_annotation
    assert isinstance(kind, PointerType)
    assert isinstance(kind.element_type, PrimType)
    dtype = buffer.elem_offset.dtype
    if shape is not None:
        dtype = shape[0].dtype if shape else INT64
    return buffer.with_(
        name=name,
        data=Var(name, PointerType(kind.element_type, storage_scope)),
        shape=tuple(buffer.shape if shape is None else shape),
        strides=(),
        elem_offset=const(0, dtype),
        axis_separators=buffer.axis_separators if shape is None else (),
        buffer_type="",
    )


def cache_buffer(
    buffer: Buffer, storage_scope: str, shape: Sequence[PrimExpr] | None = None
) -> Buffer:
    """Return a buffer `<buffer>_<scope>` in another storage scope; see `stage_buffer`."""
    return stage_buffer(buffer, f"{buffer.name}_{storage_scope or 'global'}", storage_scope, shape)


# -------------------------------------------------------------------------------------- the nests


class Staged(NamedTuple):
    """A loop nest and the block in it."""

    nest: Stmt
    block: Block


@dataclass(frozen=True, slots=True)
class Sweep:
    """Loops, outermost first, and the axes of a block in them with what these are bound to."""

    loops: Sequence[tuple[Var, Range]]
    axes: Sequence[IterVar]
    bindings: Sequence[PrimExpr]
    predicate: PrimExpr = TRUE

    @classmethod
    def over(
        cls,
        runs: Sequence[Range],
        domains: Sequence[Range] | None = None,
        *,
        loop: str = "ax",
        axis: str = "v",
    ) -> Sweep:
        """Return a loop from 0 and a data-parallel axis for each of some ranges of values.

        The axes run through `runs`; their domains are these ranges unless `domains` says otherwise.
        """
        loops: list[tuple[Var, Range]] = []
        axes: list[IterVar] = []
        bindings: list[PrimExpr] = []
        for k, (run, dom) in enumerate(zip(runs, domains or runs, strict=True)):
            var = Var(f"{loop}{k}", dom.extent.dtype)
            loops.append((var, Range(run.extent)))
            axes.append(IterVar(dom, Var(f"{axis}{k}", dom.extent.dtype), IterVar.DATA_PAR))
            bindings.append(add(run.min, var))
        return cls(loops, axes, bindings)

    @classmethod
    def like(
        cls,
        loops: Sequence[For],
        axes: Sequence[IterVar],
        bindings: Sequence[PrimExpr],
        predicate: PrimExpr,
    ) -> tuple[Sweep, dict[Var, Var]]:
        """Return copies of loops and axes that are there already, and which axis became which."""
        fresh = {axis.var: axis.var.with_name(axis.var.name) for axis in axes}
        values: dict[Var, PrimExpr] = {}
        copied: list[tuple[Var, Range]] = []
        for old in loops:
            var = old.loop_var.with_name(old.loop_var.name)
            copied.append((var, substitute(loop_range(old), values)))
            values[old.loop_var] = var
        own = [IterVar(a.dom, fresh[a.var], a.iter_type, a.thread_tag) for a in axes]
        bound = [substitute(value, values) for value in bindings]
        return cls(copied, own, bound, substitute(predicate, values)), fresh

    @property
    def places(self) -> list[Var]:
        """The variables of the axes."""
        return [axis.var for axis in self.axes]

    def where(self, predicate: PrimExpr) -> Sweep:
        """Return the sweep that leaves out what a predicate of the loops does not allow."""
        return replace(self, predicate=predicate)

    def running(
        self,
        body: Stmt,
        reads: Sequence[BufferRegion],
        writes: Sequence[BufferRegion],
        name: str,
        annotations: Mapping[str, Any] | None = None,
        init: Stmt | None = None,
    ) -> Staged:
        """Return the loops around a block with a given body."""
        block = Block(self.axes, reads, writes, name, body, init, annotations=annotations)
        nest: Stmt = BlockRealize(self.bindings, self.predicate, block)
        for var, values in reversed(self.loops):
            nest = For(var, values.min, values.extent, ForKind.SERIAL, nest)
        return Staged(nest, block)

    def storing(
        self,
        target: Buffer,
        indices: Sequence[PrimExpr],
        value: PrimExpr,
        name: str,
        reads: Sequence[BufferRegion] = (),
    ) -> Staged:
        """Return the loops around a block that stores a value to an element of `target`."""
        writes = [BufferRegion.from_point(target, indices)]
        return self.running(BufferStore(target, value, indices), reads, writes, name)

    def copying(self, source: Element, target: Element, name: str) -> Staged:
        """Return the loops around a block that copies an element of a buffer to another one."""
        reads = [BufferRegion.from_point(*source)]
        return self.storing(*target, BufferLoad(*source), name, reads)


Element = tuple[Buffer, Sequence[PrimExpr]]
"""A buffer, and where in it."""


def add_stages(
    state: ScheduleState,
    scope: StmtSRef,
    cursor: StmtCursor,
    before: Sequence[Staged],
    after: Sequence[Staged],
    buffers: Sequence[Buffer],
    redirect: BlockRewriter,
    unused: Collection[Buffer] = (),
) -> None:
    """Put nests before and after a place in a scope, and rewrite what uses them.

    The scope allocates `buffers`, and no longer those that are `unused` then.
    """
    nests = [[staged.nest for staged in side] for side in (before, after)]
    body = redirect(cursor.replace(*nests[0], *cursor.stmts, *nests[1]))
    old = scope.block
    kept = [buffer for buffer in old.alloc_buffers if buffer not in unused]
    new = old.with_(body=body, alloc_buffers=(*kept, *buffers))
    state.replace(scope, new, redirect.reuse)
