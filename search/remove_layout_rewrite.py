"""Taking out the blocks that bring weights into the layout that a schedule wants.

Such a block runs once when a model is deployed, not in every call, so it is neither timed nor
described to a cost model: the function then takes the weight in its new layout.
"""

from __future__ import annotations

from search.annotations import LAYOUT_REWRITE_PREPROC
from tensorir.buffer import Buffer
from tensorir.expr import BufferLoad, IntImm
from tensorir.function import IRModule, PrimFunc
from tensorir.ops import as_expr
from tensorir.stmt import Block, BlockRealize, BufferStore, Evaluate, For, Stmt, is_no_op
from tensorir.visit import Rewriter, walk


def without_layout_rewrite(mod: IRModule) -> IRModule:
    """Return `mod` without blocks that carry the annotation `meta_schedule.layout_rewrite_preproc`.

    The parameter that such a block reads gets the layout of the buffer that it writes. A block
    whose source is used elsewhere too stays. Returns `mod` itself if there is nothing to do.
    """
    functions = {name: _stripped(func) for name, func in mod.functions.items()}
    if all(functions[name] is func for name, func in mod.functions.items()):
        return mod
    return IRModule(functions, mod.attrs)


def _stripped(func: PrimFunc) -> PrimFunc:
    parameters = set(func.buffer_map.values())
    blocks = [
        node
        for node in walk(func.body)
        if isinstance(node, Block) and _is_preproc(node) and node.reads[0].buffer in parameters
    ]
    renamed = {b.reads[0].buffer: b.writes[0].buffer for b in blocks}
    if not renamed:
        return func
    body = _Remove(set(blocks), renamed)(func.body)
    still_used = {
        node.buffer for node in walk(body) if isinstance(node, (BufferLoad, BufferStore))
    } & renamed.keys()
    if still_used:
        kept = [b for b in blocks if b.reads[0].buffer not in still_used]
        renamed = {b.reads[0].buffer: b.writes[0].buffer for b in kept}
        if not renamed:
            return func
        body = _Remove(set(kept), renamed)(func.body)
    return func.with_(
        body=body, buffer_map={p: renamed.get(b, b) for p, b in func.buffer_map.items()}
    )


def _is_preproc(block: Block) -> bool:
    flag = block.annotations.get(LAYOUT_REWRITE_PREPROC)
    marked = isinstance(flag, IntImm) and bool(flag.value)
    return marked and len(block.reads) == 1 and len(block.writes) == 1


class _Remove(Rewriter):
    """Removes blocks with the loops around them, and what they read and write."""

    def __init__(self, blocks: set[Block], renamed: dict[Buffer, Buffer]) -> None:
        self.blocks = blocks
        self.sources = renamed.keys()
        self.results = set(renamed.values())

    def rewrite_BlockRealize(self, node: BlockRealize) -> Stmt:  # noqa: N802
        return Evaluate(as_expr(0)) if node.block in self.blocks else self.generic(node)

    def rewrite_For(self, node: For) -> Stmt:  # noqa: N802
        body = self(node.body)
        if body is node.body:
            return node
        return body if is_no_op(body) else node.with_(body=body)

    def rewrite_Block(self, node: Block) -> Block:  # noqa: N802
        body = self(node.body)
        if body is node.body:
            return node
        return node.with_(
            body=body,
            alloc_buffers=[b for b in node.alloc_buffers if b not in self.results],
            reads=[r for r in node.reads if r.buffer not in self.sources],
        )
