"""From blocks without axes to plain statements."""

from __future__ import annotations

from codegen.errors import LoweringError
from codegen.lower.rewriters import StatementRewriter
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.ops import TRUE, const, mul
from tensorir.rewriting.visit import rewrite


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
