"""The dependencies between the blocks of a scope."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from schedule.analysis.accesses import Accesses, Memory
from schedule.sref import StmtSRef
from schedule.state import ScheduleState, memoize_on_state
from tensorir.indices.accesses import loads_in
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import Var
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import walk


class DepKind(IntEnum):
    """The reason why one block must stay after another."""

    RAW = 0
    """The later block reads what the earlier one writes."""
    WAW = 1
    """Both write."""
    WAR = 2
    """The later block overwrites what the earlier one reads."""
    OPAQUE = 3


_FLOW: Final = (DepKind.RAW, DepKind.WAW)


@dataclass(frozen=True, slots=True)
class Dependency:
    """An edge between two blocks of a scope."""

    src: StmtSRef
    dst: StmtSRef
    kind: DepKind
    buffer: Buffer


class BlockScope:
    """The dependency graph over the child blocks of a scope.

    Buffers are compared as wholes: two blocks that access different parts of a buffer count as
    dependent. Buffers that share memory count as one.
    """

    def __init__(
        self,
        children: list[StmtSRef],
        touched: Callable[[Block], tuple[list[Buffer], list[Buffer]]],
        memory: Memory,
    ) -> None:
        self.children = children
        self._touched = touched
        self.memory = memory
        self.buffer_writers: dict[Buffer, list[StmtSRef]] = {}
        self.buffer_readers: dict[Buffer, list[StmtSRef]] = {}
        self._out: dict[StmtSRef, list[Dependency]] = defaultdict(list)
        self._into: dict[StmtSRef, list[Dependency]] = defaultdict(list)
        readers: dict[Var, list[StmtSRef]] = {}
        writers: dict[Var, list[StmtSRef]] = {}
        for child in children:
            read, written = touched(child.block)
            for buffer in read:
                data = memory.of(buffer)
                self.buffer_readers[buffer] = _add_block(readers, data, child)
                self._link(writers.get(data, ()), child, DepKind.RAW, buffer)
            for buffer in written:
                data = memory.of(buffer)
                self._link(writers.get(data, ()), child, DepKind.WAW, buffer)
                self._link(readers.get(data, ()), child, DepKind.WAR, buffer)
                self.buffer_writers[buffer] = _add_block(writers, data, child)
        names = self.buffer_readers.keys() | self.buffer_writers.keys()
        self.has_aliases = len(names) > len(readers.keys() | writers.keys())
        """True if some memory is touched through several buffers."""

    def _link(self, sources: object, dst: StmtSRef, kind: DepKind, buffer: Buffer) -> None:
        for src in sources:  # type: ignore[attr-defined]
            if src is not dst:
                edge = Dependency(src, dst, kind, buffer)
                self._out[src].append(edge)
                self._into[dst].append(edge)

    def out_of(self, src: StmtSRef) -> list[Dependency]:
        """Return the edges that start at `src`, in program order."""
        return self._out.get(src, [])

    def edges_to(self, dst: StmtSRef) -> list[Dependency]:
        """Return the edges that end at `dst`, in program order."""
        return self._into.get(dst, [])

    def producers_of(self, block: StmtSRef) -> list[StmtSRef]:
        """Return the blocks that write a buffer that the block reads or overwrites."""
        return list(dict.fromkeys(d.src for d in self.edges_to(block) if d.kind in _FLOW))

    def consumers_of(self, block: StmtSRef) -> list[StmtSRef]:
        """Return the blocks that read or overwrite a buffer that the block writes."""
        return list(dict.fromkeys(d.dst for d in self.out_of(block) if d.kind in _FLOW))

    def ignoring(self, buffers: Collection[Buffer]) -> BlockScope:
        """Return the graph without the dependencies through some buffers."""
        if not any(buffer in self.buffer_writers for buffer in buffers):
            return self

        def touched(block: Block) -> tuple[list[Buffer], list[Buffer]]:
            read, written = self._touched(block)
            return [b for b in read if b not in buffers], [b for b in written if b not in buffers]

        return BlockScope(self.children, touched, self.memory)

    def edges(self) -> list[Dependency]:
        """Return every edge."""
        return [edge for child in self.children for edge in self._into.get(child, ())]


def _add_block(table: dict[Var, list[StmtSRef]], data: Var, block: StmtSRef) -> list[StmtSRef]:
    """Add a block to the list of the blocks that access some memory, unless it is there."""
    found = table.setdefault(data, [])
    if not found or found[-1] is not block:
        found.append(block)
    return found


@memoize_on_state
def dependencies(
    state: ScheduleState, scope: StmtSRef, *, declared_only: bool = False
) -> BlockScope:
    """Return the dependency graph of a scope block, or of the blocks right below a loop.

    It uses the declared accesses of blocks. Unless `declared_only`, it adds accesses that two
    primitives leave undeclared: those inside the pieces of `loop_partition`, and loads from the
    tables of `cache_index`. Block lookups use the declared accesses only, as in TVM, so that saved
    traces find the same blocks.
    """
    blocks = state.child_blocks(scope)
    if declared_only:
        return BlockScope(blocks, _declared_buffers, Memory(scope))
    root = scope if scope.is_block else state.scope_root(scope)
    tables = [b for b in root.block.alloc_buffers if is_table(b)]
    touched = (lambda block: _with_tables(block, tables)) if tables else _seen_through
    return BlockScope(blocks, touched, Memory(scope))


def is_table(buffer: Buffer) -> bool:
    """Return whether a buffer has the mark of the tables that `cache_index` makes."""
    return bool(buffer.strides) and is_const_int(buffer.strides[-1], 1)


def _declared_buffers(block: Block) -> tuple[list[Buffer], list[Buffer]]:
    """Return the buffers that a block declares to read and write."""
    read = dict.fromkeys(r.buffer for r in block.reads)
    return list(read), list(dict.fromkeys(r.buffer for r in block.writes))


def declares_nothing(block: Block) -> bool:
    """Return True for the transparent blocks that `loop_partition` wraps around pieces."""
    return not (block.iter_vars or block.reads or block.writes)


def _seen_through(block: Block) -> tuple[list[Buffer], list[Buffer]]:
    """Return the buffers that a block reads and writes.

    For a block without axes and declarations, as `loop_partition` makes, these are the buffers of
    the blocks inside.
    """
    if not declares_nothing(block):
        return _declared_buffers(block)
    inner = [_declared_buffers(node) for node in walk(block.body) if type(node) is Block]
    bare = Accesses.of(block.body)
    read = dict.fromkeys(buffer for reads, _ in inner for buffer in reads)
    written = dict.fromkeys(buffer for _, writes in inner for buffer in writes)
    return list(read | bare.read), list(written | bare.written)


def _with_tables(block: Block, tables: list[Buffer]) -> tuple[list[Buffer], list[Buffer]]:
    """Return the buffers that a block reads and writes, including the tables of `cache_index`."""
    read, written = _seen_through(block)
    loaded = dict.fromkeys(load.buffer for load in loads_in(block) if load.buffer in tables)
    return [*read, *(b for b in loaded if b not in read)], written
