"""Blocks while they are being read, and the parts of programs that scripts may omit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tensorir.errors import IRTypeError, IRValueError
from tensorir.memory.access import get_block_access_region, require_no_opaque
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer, MatchBufferRegion, Range
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import IterVar, PrimExpr, Var
from tensorir.nodes.ops import TRUE, cast, const
from tensorir.nodes.stmt import Stmt
from tensorir.rewriting.visit import walk
from tensorir.script.records import AxisRecord, BlockFrame, BlockRecord

_DUPLICATE: Final = {
    "where": "Duplicate block predicate declaration",
    "block_attr": "Duplicate block annotations",
    **dict.fromkeys(("reads", "writes"), "Duplicate read/write region declaration"),
}


class BlockParts:
    """The parts of a block, collected until the end of its body."""

    def __init__(self, frame: BlockFrame, depth: int) -> None:
        self.frame = frame
        self.depth = depth
        """The nesting depth of the statements in its body."""
        self.axes: list[IterVar] = []
        self.bindings: list[PrimExpr] = []
        self.declared: dict[str, Any] = {}
        """The values of `reads`, `writes`, `where` and `block_attr`, as far as declared."""
        self.init: Stmt | None = None
        self.alloc_buffers: list[Buffer] = []
        self.match_buffers: list[MatchBufferRegion] = []

    @property
    def missing(self) -> tuple[bool, bool]:
        """Two flags: the reads are not declared, the writes are not declared."""
        return "reads" not in self.declared, "writes" not in self.declared

    def declare(self, record: BlockRecord) -> None:
        """Add a declaration.

        Raises IRValueError if the block has a declaration of the same kind.
        """
        if record.what in self.declared:
            raise IRValueError(_DUPLICATE[record.what])
        self.declared[record.what] = record.value

    def add_axis(self, name: str, record: AxisRecord) -> Var:
        """Return the variable of a new axis.

        Raises IRTypeError if the binding is missing or not an index.
        """
        bits = max(record.low.dtype.bits, record.extent.dtype.bits, DataType(record.dtype).bits)
        dtype = DataType(f"int{bits}")
        var = Var(name, dtype)
        dom = Range.from_min_extent(cast(dtype, record.low), cast(dtype, record.extent))
        self.axes.append(IterVar(dom, var, record.iter_type))
        if self.frame.realize:
            if record.binding is None:
                raise IRTypeError(f"axis {name} needs a binding")
            if not record.binding.dtype.is_int:
                raise IRTypeError(f"axis {name} is bound to a value of {record.binding.dtype}")
            self.bindings.append(record.binding)
        return var

    def block(self, body: Stmt | None) -> s.Block:
        """Return the block with the regions that are declared."""
        return s.Block(
            self.axes,
            self.declared.get("reads", ()),
            self.declared.get("writes", ()),
            self.frame.name,
            s.Evaluate(const(0)) if body is None else body,
            self.init,
            self.alloc_buffers,
            self.match_buffers,
            self.declared.get("block_attr"),
        )

    def realize(self, block: s.Block) -> Stmt:
        """Return the block as a statement."""
        if not self.frame.realize:
            return block
        return s.BlockRealize(self.bindings, self.declared.get("where", TRUE), block)


def complete_block(
    block: s.Block, missing: tuple[bool, bool], visible: Mapping[Var, Buffer]
) -> s.Block:
    """Return a block whose undeclared regions are computed from its body.

    `missing` has two flags, for reads and for writes; `visible` maps pointers to the buffers that
    are declared outside the block. Raises IRValueError if the regions behind a pointer are unknown.
    """
    if not any(missing):
        return block
    reads, writes, opaque = get_block_access_region(block, visible)
    require_no_opaque(block, opaque)
    return block.with_(
        reads=reads if missing[0] else block.reads,
        writes=writes if missing[1] else block.writes,
    )


def with_root_block(
    body: Stmt,
    alloc_buffers: Sequence[Buffer],
    filled: Mapping[s.Block, tuple[bool, bool]] | None = None,
) -> Stmt:
    """Return a function's body, inside a root block if it has blocks or allocations.

    `filled` has the blocks whose reads or writes were computed. If such a block becomes the root,
    these lists are emptied again.
    """
    if isinstance(body, s.BlockRealize) and not body.block.iter_vars and not alloc_buffers:
        reads, writes = (filled or {}).get(body.block, (False, False))
        if not reads and not writes:
            return body
        root = body.block.with_(
            reads=() if reads else body.block.reads, writes=() if writes else body.block.writes
        )
        return s.BlockRealize(body.iter_values, body.predicate, root)
    has_block = any(isinstance(node, s.BlockRealize) for node in walk(body))
    if not alloc_buffers and not has_block:
        return body
    root = s.Block((), (), (), "root", body, alloc_buffers=alloc_buffers)
    return s.BlockRealize((), TRUE, root)
