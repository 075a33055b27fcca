"""From blocks to plain statements: their inits, their axes, and what remains of them."""

from __future__ import annotations

from typing import Any

from codegen.errors import LoweringError
from codegen.lower.forms import DIM_ALIGN, EXPLICIT_REGIONS
from codegen.lower.rewriters import StatementRewriter
from tensorir.function import PrimFunc
from tensorir.memory.empty_reductions import initialise_empty_reductions
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import EQ, IntImm, IterVar, PrimExpr
from tensorir.nodes.node import EMPTY_ATTRS, Attrs
from tensorir.nodes.ops import TRUE, all_of, compare, const, mul
from tensorir.rewriting.visit import Substitution, rewrite, substitute_buffers, walk

_STILL_NEEDED = (*EXPLICIT_REGIONS, DIM_ALIGN)


def drop_partial_strides(func: PrimFunc) -> PrimFunc:
    """Remove the strides of allocated buffers with fewer strides than dimensions.

    The tables that `cache_index` allocates have a single stride for any rank, as in TVM; they are
    compact.
    """
    compact: dict[Buffer, Buffer] = {
        buffer: buffer.with_(strides=())
        for node in walk(func.body)
        if isinstance(node, s.Block)
        for buffer in node.alloc_buffers
        if 0 < len(buffer.strides) < len(buffer.shape)
    }
    return func.with_body(substitute_buffers(func.body, compact))


def lower_init(func: PrimFunc) -> PrimFunc:
    """Run the `init` of a block as the first part of its body.

    Before: with init: S; T
    After:  if vk == 0 and vr == 0: S
            T

    The condition holds if every reduction axis has the first value of its domain; a block without
    reduction axes always initialises. The results of reductions without a step are written before
    their loops.
    """
    func = initialise_empty_reductions(func)
    return func.with_body(rewrite(func.body, {s.Block: _with_init}, over=StatementRewriter()))


def _with_init(node: s.Block) -> s.Block:
    """Return a block whose init is a part of its body."""
    if node.init is None:
        return node
    at_first = all_of(
        compare(EQ, axis.var, axis.dom.min)
        for axis in node.iter_vars
        if axis.iter_type == IterVar.COMM_REDUCE and axis.dom is not None
    )
    init = node.init if at_first is TRUE else s.IfThenElse(at_first, node.init)
    return node.with_(init=None, body=s.sequence([init, node.body]))


def open_blocks(func: PrimFunc) -> PrimFunc:
    """Substitute bindings for axes, so that blocks have none.

    Before: for i, j: with block: vi = i * 4 + j; where(i * 4 + j < 30); B[vi] = A[vi]
    After:  for i, j: with block: where(i * 4 + j < 30); B[i * 4 + j] = A[i * 4 + j]

    The declared regions of a block are not used after this pass, and are dropped, except where
    an annotation refers to it (`explicit_read_region`, `explicit_write_region`,
    `buffer_dim_align`). Other annotations of blocks are hints for earlier stages and are dropped as
    well.
    """
    return func.with_body(_OpenBlocks()(func.body))


class _OpenBlocks(Substitution):
    def rewrite_BlockRealize(self, node: s.BlockRealize) -> s.Stmt:  # noqa: N802
        block, predicate = node.block, self(node.predicate)
        for axis, value in zip(block.iter_vars, self.each(node.iter_values), strict=True):
            self._values[axis.var] = value.astype(axis.var.dtype)
        kept = Attrs({k: v for k, v in block.annotations.items() if k in _STILL_NEEDED})
        changes: dict[str, Any] = {"iter_vars": (), "annotations": kept or EMPTY_ATTRS}
        if not kept:
            changes |= {"reads": (), "writes": ()}
        return s.BlockRealize((), predicate, self(block.with_(**changes)))

    def value(self, value: Any) -> Any:
        return value


def remove_blocks(func: PrimFunc) -> PrimFunc:
    """Turn the allocations of blocks into `Allocate` and their predicates into branches.

    Before: with block: where(p); alloc B; S
    After:  if p: allocate B; S

    Raises LoweringError for a block that still has axes, an init or views.
    """
    body = rewrite(func.body, {s.BlockRealize: _as_statement}, over=StatementRewriter())
    return func.with_body(body)


def _as_statement(node: s.BlockRealize) -> s.Stmt:
    block = node.block
    if block.iter_vars or block.init is not None or block.match_buffers:
        raise LoweringError(
            f"block {block.name_hint!r} still has axes, an init or match_buffers; run "
            f"lower_init, open_blocks and lower_match_buffers first"
        )
    body = block.body
    for buffer in reversed(block.alloc_buffers):
        body = s.Allocate(buffer.data, buffer.dtype, allocated_shape(buffer), TRUE, body)
    if type(node.predicate) is IntImm and node.predicate.value:
        return body
    return s.IfThenElse(node.predicate, body)


def allocated_shape(buffer: Buffer) -> tuple[PrimExpr, ...]:
    """Return extents whose product is the number of elements that `buffer` needs."""
    if not buffer.shape:
        return (const(1),)
    if not buffer.strides:
        return buffer.shape
    return (mul(buffer.strides[0], buffer.shape[0]), *(const(1) for _ in buffer.shape[1:]))
