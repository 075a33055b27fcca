"""Replacing the axes of blocks by the expressions that they are bound to."""

from __future__ import annotations

from typing import Any

from codegen.lower.forms import DIM_ALIGN, EXPLICIT_REGIONS
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.node import EMPTY_ATTRS, Attrs
from tensorir.rewriting.visit import Substitution

_STILL_NEEDED = (*EXPLICIT_REGIONS, DIM_ALIGN)


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
