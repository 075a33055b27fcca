"""Redirecting the accesses of blocks to other buffers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from schedule.analysis.rebuild import BlockRewriter
from tensorir.arith import Analyzer
from tensorir.memory.access import get_block_read_write_region
from tensorir.nodes.buffer import Buffer, BufferRegion, MatchBufferRegion, Range
from tensorir.nodes.expr import PointerType, PrimExpr, Var
from tensorir.nodes.ops import sub
from tensorir.nodes.stmt import Block, BlockRealize, For, Stmt
from tensorir.rewriting.element_rewriter import ElementRewriter


class RedirectBuffers(BlockRewriter):
    """Sends the accesses of some blocks (and of what is nested in them) to other buffers.

    None means everything in a statement.
    """

    def __init__(self, buffers: Mapping[Buffer, Buffer], blocks: Collection[Block] | None) -> None:
        super().__init__()
        self._buffers = dict(buffers)
        self._pointers = {old.data: new.data for old, new in buffers.items()}
        self._blocks = blocks or ()
        self._inside = blocks is None

    def rewrite_Block(self, node: Block) -> Block:  # noqa: N802
        """Enter a block; inside the chosen ones accesses are redirected."""
        around, self._inside = self._inside, self._inside or node in self._blocks
        if self._inside:
            new = super().rewrite_Block(node)
        else:
            body = self(node.body)
            new = node if body is node.body else node.with_body(body)
            if new is not node:
                self.reuse[node] = new
        self._inside = around
        return new

    def rewrite_For(self, node: For) -> Stmt:  # noqa: N802
        """Enter a loop; statements around the chosen blocks are not redirected."""
        if self._inside:
            return self.generic(node)
        body = self(node.body)
        return node if body is node.body else node.with_body(body)

    def rewrite_BlockRealize(self, node: BlockRealize) -> Stmt:  # noqa: N802
        """Enter a block; see `rewrite_For`."""
        if self._inside:
            return self.generic(node)
        block = self(node.block)
        same = block is node.block
        return node if same else BlockRealize(node.iter_values, node.predicate, block)

    def buffer(self, buffer: Buffer) -> Buffer:
        """Return the buffer to which accesses to `buffer` go."""
        return self._buffers.get(buffer, buffer) if self._inside else buffer

    def rewrite_Var(self, node: Var) -> PrimExpr:  # noqa: N802
        """Redirect direct uses of a pointer as well."""
        return self._pointers.get(node, node) if self._inside else node

    def rewrite_MatchBufferRegion(self, node: MatchBufferRegion) -> MatchBufferRegion:  # noqa: N802
        """Redirect a view; one of a buffer in another storage scope moves there, too."""
        source = self.buffer(node.source.buffer)
        view = node.buffer
        if source is not node.source.buffer and source.scope() != view.scope():
            kind = view.data.type_annotation
            assert isinstance(kind, PointerType)
            pointer = PointerType(kind.element_type, source.scope())
            moved = view.with_(data=Var(view.data.name, pointer))
            self._buffers[view] = moved
            self._pointers[view.data] = moved.data
        return self.generic(node)


class RedirectElements(ElementRewriter, RedirectBuffers):
    """Sends accesses of buffers to elements at other indices of the others.

    `places` are what the new indices follow from.
    """

    def __init__(
        self,
        buffers: Mapping[Buffer, Buffer],
        blocks: Collection[Block] | None,
        places: Sequence[PrimExpr] = (),
    ) -> None:
        super().__init__(buffers, blocks)
        self._places = tuple(places)
        self._analyzer = Analyzer()


class RedirectToPart(RedirectElements):
    """Redirects to a buffer that holds a part of the other one, from `places` on."""

    def indices(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> Sequence[PrimExpr]:
        """Count from the first place."""
        pairs = zip(indices, self._places, strict=True)
        return tuple(self._analyzer.simplify(sub(index, first)) for index, first in pairs)


class RedirectToPoint(RedirectElements):
    """Redirects blocks whose instances each touch one element, which is at `places`."""

    def indices(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> Sequence[PrimExpr]:
        """Return the element's place."""
        return self._places

    def region(self, buffer: Buffer, region: Sequence[Range]) -> Sequence[Range]:
        """Return the element's place."""
        return [Range.point(index) for index in self._places]


class RedirectEverywhere(RedirectElements):
    """Redirects all accesses of one buffer; blocks declare what theirs touch then."""

    def __init__(self, old: Buffer, new: Buffer) -> None:
        super().__init__({old: new}, None)
        self._old = old
        self._new = new

    def rewrite_BufferRegion(self, node: BufferRegion) -> BufferRegion:  # noqa: N802
        """Leave a declared access to the block that declares it."""
        return node if node.buffer is self._old else self.generic(node)

    def rewrite_Block(self, node: Block) -> Block:  # noqa: N802
        """Rewrite a block, and derive what it declares of the buffer."""
        new = super().rewrite_Block(node)
        if not any(r.buffer is self._old for r in (*node.reads, *node.writes)):
            return new
        reads, writes = get_block_read_write_region(new, {self._new.data: self._new})
        new = new.with_(
            reads=self._exchanged(new.reads, reads), writes=self._exchanged(new.writes, writes)
        )
        self.reuse[node] = new
        return new

    def _exchanged(
        self, regions: Sequence[BufferRegion], found: Sequence[BufferRegion]
    ) -> list[BufferRegion]:
        own = found[0] if found else BufferRegion.full_region(self._new)
        return [own if region.buffer is self._old else region for region in regions]
