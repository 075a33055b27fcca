"""Rebuilding blocks with other axes, keeping track of which became which."""

from __future__ import annotations

from collections.abc import Mapping

from tensorir.arith import Analyzer
from tensorir.nodes.buffer import Range
from tensorir.nodes.expr import BufferLoad, IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.stmt import Block, BufferStore, Stmt
from tensorir.rewriting.visit import Rewriter, rewrite, substitute, walk


class BlockRewriter(Rewriter):
    """A rewriter that records in `reuse` which block became which."""

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
        """Rewrite the ends that are not constants; most are, and no such rewriter changes those."""
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
        """By expression: most are axes, and regions consist of the indices of accesses."""

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
