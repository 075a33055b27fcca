"""Blocks that convert weights to the layout of a schedule, and functions without these blocks.

Such a block copies a parameter to a buffer with another layout, from which all other blocks read. A
weight is constant between calls, so the block need not run in each call: the function can accept
the converted weight, and a separate function can convert it once.

Before: def f(X, W, Y):  for ...: W_packed[...] = W[...];  for ...: Y[...] = X[...] * W_packed[...]
After:  def f(X, W_packed, Y):  for ...: Y[...] = X[...] * W_packed[...]
        def pack(W, W_packed):  for ...: W_packed[...] = W[...]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tensorir.function import PrimFunc
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.dtype import HANDLE
from tensorir.nodes.expr import IntImm, Var
from tensorir.nodes.stmt import Block, BlockRealize, For, SeqStmt, Stmt, sequence
from tensorir.rewriting.fresh_copy import renew_defs
from tensorir.rewriting.visit import defined, used_buffers, walk

LAYOUT_FREE_BUFFERS: Final = "layout_free_buffers"
"""An attribute of a function: the positions of the parameters whose layout may change."""

LAYOUT_REWRITE_PREPROC: Final = "meta_schedule.layout_rewrite_preproc"
"""An annotation, true on a block that converts a weight to another layout."""


def layout_free_positions(func: PrimFunc) -> tuple[int, ...]:
    """Return the positions of the parameters whose layout may change."""
    return tuple(int(k) for k in func.attrs.get(LAYOUT_FREE_BUFFERS, ()))


class LayoutRewrite(NamedTuple):
    """A parameter, by its position, and the loop nest that copies it to another layout."""

    position: int
    weight: Buffer
    packed: Buffer
    nest: Stmt
    """The nest directly below the root block; its only block is the annotated one."""


def layout_rewrites(func: PrimFunc) -> list[LayoutRewrite]:
    """Return the layout rewrites that can be removed from a function, by parameter position.

    A block cannot be removed if it is inside of other loops, if its buffers have strides, if other
    blocks read or write the weight, if others write the result, or if it depends on other values
    than the weight (for example on a size parameter).
    """
    if not isinstance(func.body, BlockRealize) or not isinstance(func.body.block.body, SeqStmt):
        return []
    root = func.body.block
    positions = {func.buffer_map[p]: k for k, p in enumerate(func.params) if p in func.buffer_map}
    statements = func.body.block.body.seq
    found = []
    for nest in statements:
        block = _annotated_block(nest)
        if block is None:
            continue
        weight, packed = block.reads[0].buffer, block.writes[0].buffer
        others = [stmt for stmt in statements if stmt is not nest]
        if (
            weight in positions
            and packed in root.alloc_buffers
            and packed.scope() == "global"
            and _is_compact(weight)
            and _is_compact(packed)
            and not _has_free_vars(nest)
            and not any(_mentions(stmt, weight) or _writes(stmt, packed) for stmt in others)
        ):
            found.append(LayoutRewrite(positions[weight], weight, packed, nest))
    return sorted(found, key=lambda rewrite: rewrite.position)


def without_layout_rewrites(func: PrimFunc, rewrites: Sequence[LayoutRewrite]) -> PrimFunc:
    """Return a function that accepts the converted weights; `func` itself for no rewrites."""
    if not rewrites:
        return func
    assert isinstance(func.body, BlockRealize)
    root = func.body.block
    assert isinstance(root.body, SeqStmt)
    nests = {rewrite.nest for rewrite in rewrites}
    packed = {rewrite.weight: rewrite.packed for rewrite in rewrites}
    rest = root.with_(
        body=sequence([stmt for stmt in root.body.seq if stmt not in nests]),
        alloc_buffers=[b for b in root.alloc_buffers if b not in packed.values()],
        reads=[r for r in root.reads if r.buffer not in packed],
    )
    return func.with_(
        body=BlockRealize(func.body.iter_values, func.body.predicate, rest),
        buffer_map={p: packed.get(b, b) for p, b in func.buffer_map.items()},
    )


def layout_rewrites_alone(func: PrimFunc, rewrites: Sequence[LayoutRewrite]) -> PrimFunc:
    """Return a function that only converts; its parameters are the weights, then the results.

    The function keeps the other attributes of `func`. All its definitions are new.
    """
    assert isinstance(func.body, BlockRealize)
    given = {Var(r.weight.name, HANDLE): r.weight for r in rewrites}
    result = {Var(r.packed.name, HANDLE): r.packed for r in rewrites}
    nests = [_without_annotation(r.nest) for r in rewrites]
    root = func.body.block.with_(
        body=sequence(nests), alloc_buffers=(), reads=(), writes=(), annotations={}
    )
    body = BlockRealize(func.body.iter_values, func.body.predicate, root)
    attrs = func.attrs.without(LAYOUT_FREE_BUFFERS)
    return renew_defs(
        PrimFunc([*given, *result], body, buffer_map={**given, **result}, attrs=attrs)
    )


def _annotated_block(stmt: Stmt) -> Block | None:
    """Return the annotated block inside of a loop nest; None for other statements."""
    while isinstance(stmt, For):
        stmt = stmt.body
    if not isinstance(stmt, BlockRealize):
        return None
    block = stmt.block
    flag = block.annotations.get(LAYOUT_REWRITE_PREPROC)
    marked = isinstance(flag, IntImm) and bool(flag.value)
    return block if marked and len(block.reads) == 1 and len(block.writes) == 1 else None


def _without_annotation(nest: Stmt) -> Stmt:
    if isinstance(nest, For):
        body: Stmt = nest.with_(body=_without_annotation(nest.body))
        return body
    assert isinstance(nest, BlockRealize)
    kept = {k: v for k, v in nest.block.annotations.items() if k != LAYOUT_REWRITE_PREPROC}
    block = nest.block.with_(annotations=kept)
    return BlockRealize(nest.iter_values, nest.predicate, block)


def _is_compact(buffer: Buffer) -> bool:
    """Return True if a buffer is compact and of constant shape."""
    return not buffer.strides and all(isinstance(extent, IntImm) for extent in buffer.shape)


def _has_free_vars(nest: Stmt) -> bool:
    nodes = list(walk(nest))
    own = {var for node in nodes for var in defined(node)}
    return any(isinstance(node, Var) and node not in own for node in nodes)


def _mentions(stmt: Stmt, buffer: Buffer) -> bool:
    """Return True if a statement accesses the memory of a buffer, under any name."""
    return any(
        node is buffer.data or any(used.data is buffer.data for used in used_buffers(node))
        for node in walk(stmt)
    )


def _writes(stmt: Stmt, buffer: Buffer) -> bool:
    blocks = (node for node in walk(stmt) if isinstance(node, Block))
    return any(region.buffer is buffer for block in blocks for region in block.writes)
