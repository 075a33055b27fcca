"""Completion of parts that a script leaves out: the root block, the regions of blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorir.memory.access import get_block_access_region, require_no_opaque
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import Var
from tensorir.nodes.ops import TRUE
from tensorir.nodes.stmt import Block, BlockRealize, Stmt
from tensorir.rewriting.visit import walk


def complete_block(
    block: Block, missing: tuple[bool, bool], visible: Mapping[Var, Buffer]
) -> Block:
    """Return a block with the regions filled in that the script does not declare.

    `missing` says whether reads and writes are absent, `visible` gives the buffers that are known
    outside the block. Raises IRValueError if a pointer is used in a way that hides what is touched.
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
    filled: Mapping[Block, tuple[bool, bool]] | None = None,
) -> Stmt:
    """Return a function's body, inside a root block where there is anything to schedule.

    `filled` says of which blocks the reads and writes are not from the script: a block that turns
    out to be the root keeps these lists empty.
    """
    if isinstance(body, BlockRealize) and not body.block.iter_vars and not alloc_buffers:
        reads, writes = (filled or {}).get(body.block, (False, False))
        if not reads and not writes:
            return body
        root = body.block.with_(
            reads=() if reads else body.block.reads, writes=() if writes else body.block.writes
        )
        return BlockRealize(body.iter_values, body.predicate, root)
    has_block = any(isinstance(node, BlockRealize) for node in walk(body))
    if not alloc_buffers and not has_block:
        return body
    root = Block((), (), (), "root", body, alloc_buffers=alloc_buffers)
    return BlockRealize((), TRUE, root)
