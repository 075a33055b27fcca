"""Rewriters that give blocks other axes or buffers, and record which block became which."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tensorir.arith import Analyzer
from tensorir.memory.access import get_block_read_write_region
from tensorir.nodes.buffer import Buffer, BufferRegion, MatchBufferRegion, Range
from tensorir.nodes.expr import BufferLoad, IntImm, IterVar, PointerType, PrimExpr, Var
from tensorir.nodes.ops import sub
from tensorir.nodes.stmt import Block, BlockRealize, BufferStore, For, Stmt
from tensorir.rewriting.element_rewriter import ElementRewriter, indices_in_source
from tensorir.rewriting.visit import Rewriter, rewrite, substitute, walk


class BlockRewriter(Rewriter):
    """A rewriter that maps old blocks to new blocks in `reuse`."""

    def __init__(self) -> None:
        self.reuse: dict[Block, Block] = {}

    def rewrite_Block(self, node: Block) -> Block:  # noqa: N802
        """Rewrite the parts of a block."""
        new: Block = self.generic(node)
        if new is not node:
            self.reuse[node] = new
            if node.init is not None:
                # Blocks in an init cannot be scheduled, so nothing refers to them.
                for inner in walk(node.init):
                    if type(inner) is Block:
                        self.reuse.pop(inner, None)
        return new

    def rewrite_Range(self, node: Range) -> Range:  # noqa: N802
        """Rewrite the ends of a range, except constants, which no such rewriter changes."""
        low = node.min if type(node.min) is IntImm else self(node.min)
        extent = node.extent if type(node.extent) is IntImm else self(node.extent)
        same = low is node.min and extent is node.extent
        return node if same else Range.from_min_extent(low, extent)

    def rewrite_IterVar(self, node: IterVar) -> IterVar:  # noqa: N802
        """Rewrite the domain of an axis."""
        dom = None if node.dom is None else self.rewrite_Range(node.dom)
        return node if dom is node.dom else IterVar(dom, node.var, node.iter_type, node.thread_tag)


class ReplaceAxes(BlockRewriter):
    """Replaces the axes of a block, and simplifies the expressions in which they occur."""

    def __init__(self, values: Mapping[Var, PrimExpr], analyzer: Analyzer) -> None:
        super().__init__()
        self._values = values
        self._analyzer = analyzer
        self._rewritten: dict[PrimExpr, PrimExpr] = {}
        """Rewritten expressions, by expression: the same axes and indices occur many times."""

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:  # noqa: N802
        """Rewrite an expression if an axis occurs in it."""
        new = self._rewritten.get(node)
        if new is None:
            new = substitute(node, self._values)
            if new is not node:
                new = self._analyzer.simplify(new)
            self._rewritten[node] = new
        return new

    def rewrite_BufferStore(self, node: BufferStore) -> Stmt:  # noqa: N802
        """Rewrite a store; arithmetic on loaded values is not simplified."""
        replaced: list[Var] = []

        def put(var: Var, _: Rewriter) -> PrimExpr:
            if var in self._values:
                replaced.append(var)
            return self._values.get(var, var)

        rules = {Var: put, BufferLoad: lambda load, _: self.generic(load)}
        value = rewrite(node.value, before=rules)
        if replaced:
            value = self._analyzer.simplify(value)
        indices, predicate = self.each(node.indices), self.maybe(node.predicate)
        same = value is node.value and indices is node.indices and predicate is node.predicate
        return node if same else BufferStore(node.buffer, value, indices, predicate)


# ------------------------------------------------------------------------------------ other buffers


class RedirectBuffers(BlockRewriter):
    """Redirects the accesses of some blocks and of their nested statements to other buffers.

    If `blocks` is None, all accesses in a statement are redirected.
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
        """Redirect a view, and give it the storage scope of the new buffer."""
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
    """Redirects accesses to other indices of other buffers.

    `places` determine the new indices.
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
    """Redirects to a buffer that holds the part of the other buffer from `places` on."""

    def indices(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> Sequence[PrimExpr]:
        """Subtract the first place."""
        pairs = zip(indices, self._places, strict=True)
        return tuple(self._analyzer.simplify(sub(index, first)) for index, first in pairs)


class RedirectToPoint(RedirectElements):
    """Redirects blocks whose instances each access one element, to the element at `places`."""

    def indices(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> Sequence[PrimExpr]:
        """Return the element's place."""
        return self._places

    def region(self, buffer: Buffer, region: Sequence[Range]) -> Sequence[Range]:
        """Return the element's place."""
        return [Range.point(index) for index in self._places]


class RedirectEverywhere(RedirectElements):
    """Redirects all accesses of one buffer; the declared regions of blocks are derived again."""

    def __init__(self, old: Buffer, new: Buffer) -> None:
        super().__init__({old: new}, None)
        self._old = old
        self._new = new

    def rewrite_BufferRegion(self, node: BufferRegion) -> BufferRegion:  # noqa: N802
        """Leave a declared region to `rewrite_Block`."""
        return node if node.buffer is self._old else self.generic(node)

    def rewrite_Block(self, node: Block) -> Block:  # noqa: N802
        """Rewrite a block, and derive its declared regions of the buffer."""
        new = super().rewrite_Block(node)
        if not any(r.buffer is self._old for r in (*node.reads, *node.writes)):
            return new
        reads, writes = get_block_read_write_region(new, {self._new.data: self._new})
        new = new.with_(
            reads=self._redirect_regions(new.reads, reads),
            writes=self._redirect_regions(new.writes, writes),
        )
        self.reuse[node] = new
        return new

    def _redirect_regions(
        self, regions: Sequence[BufferRegion], found: Sequence[BufferRegion]
    ) -> list[BufferRegion]:
        own = found[0] if found else BufferRegion.full_region(self._new)
        return [own if region.buffer is self._old else region for region in regions]


# -------------------------------------------------------------------------------------------- views


class InlineViews(RedirectElements):
    """Redirects accesses through views of a buffer, and views of these, to the buffer itself.

    Before: V = T.match_buffer(A[vi, 0:8], (8,)); V[j] = x
    After:  A[vi, j] = x

    `is_complete` is True if only loads and stores used the views.
    """

    def __init__(self, buffer: Buffer) -> None:
        super().__init__({}, None)
        self._buffer = buffer
        self._sources: dict[Buffer, BufferRegion] = {}
        self._extents: dict[Var, PrimExpr] = {}
        self._memory: set[Var] = set()
        """The pointers, strides and offsets of the removed views."""

    def is_complete(self, stmt: Stmt) -> bool:
        """Return True if a rewritten statement no longer uses the views."""
        return not any(node in self._memory for node in walk(stmt) if type(node) is Var)

    def rewrite_Block(self, node: Block) -> Block:  # noqa: N802
        """Remove the views from a block."""
        kept: list[MatchBufferRegion] = []
        for match in node.match_buffers:
            source = self(match.source)
            if source.buffer is self._buffer:
                self._define(match.buffer, source)
            else:
                kept.append(match)
        if len(kept) == len(node.match_buffers):
            return super().rewrite_Block(node)
        plain = node.with_(match_buffers=kept)
        new = super().rewrite_Block(plain)
        self.reuse.pop(plain, None)
        self.reuse[node] = new
        return new

    def _define(self, view: Buffer, source: BufferRegion) -> None:
        self._sources[view] = source
        self._buffers[view] = source.buffer
        surplus = len(source.region) - len(view.shape)
        for extent, dim in zip(view.shape, source.region[surplus:], strict=True):
            if type(extent) is Var:
                self._extents[extent] = dim.extent
        memory = (view.data, view.elem_offset, *view.strides)
        self._memory.update(var for var in memory if type(var) is Var)

    def rewrite_Var(self, node: Var) -> PrimExpr:  # noqa: N802
        """Replace the extents of views."""
        return self._extents.get(node, node)

    def indices(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> list[PrimExpr]:
        """Return the indices in the buffer for an element of a view."""
        return indices_in_source(self._sources[buffer], indices)
