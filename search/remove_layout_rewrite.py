"""Taking out the blocks that bring weights into the layout that a schedule wants.

Such a block runs once when a model is deployed, not in every call, so it is neither timed nor
described to a cost model: the function then takes the weight in its new layout. It can be had as a
function of its own.
"""

from __future__ import annotations

from search.annotations import LAYOUT_REWRITE_PREPROC
from tensorir.buffer import Buffer
from tensorir.dtype import HANDLE
from tensorir.expr import BufferLoad, IntImm, Var
from tensorir.function import IRModule, PrimFunc
from tensorir.ops import as_expr
from tensorir.stmt import Block, BlockRealize, BufferStore, Evaluate, For, SeqStmt, Stmt, is_no_op
from tensorir.visit import Rewriter, walk


def without_layout_rewrite(mod: IRModule) -> IRModule:
    """Return `mod` without blocks that carry the annotation `meta_schedule.layout_rewrite_preproc`.

    The parameter that such a block reads gets the layout of the buffer that it writes. A block
    whose source is used elsewhere too stays. Returns `mod` itself if there is nothing to do.
    """
    before = mod.prim_funcs()
    functions = {name: _stripped(func) for name, func in before.items()}
    if all(functions[name] is func for name, func in before.items()):
        return mod
    return IRModule({**mod.functions, **functions}, mod.attrs)


def with_separate_layout_rewrite(mod: IRModule) -> IRModule:
    """Return `without_layout_rewrite(mod)` with functions that bring weights into the new layouts.

    The one for parameter number k of the program is called `rewritten_parameter(k)`; it takes the
    weight as the program was given it and an array for the result. Returns `mod` itself if there is
    nothing to do.
    """
    measured = without_layout_rewrite(mod)
    if measured is mod:
        return mod
    functions = dict(measured.functions)
    for key, before in mod.prim_funcs().items():
        after = measured.prim_func(key)
        for position, param in enumerate(before.params):
            source, result = before.buffer_map.get(param), after.buffer_map.get(param)
            if source is not None and result is not None and source is not result:
                name = rewritten_parameter(position)
                functions[name] = _rewrite_alone(before, source, result, name)
    return IRModule(functions, measured.attrs)


def rewritten_parameter(position: int) -> str:
    """Return the name of the function that rewrites the layout of a parameter."""
    return f"layout_rewrite_{position}"


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


def _rewrite_alone(func: PrimFunc, source: Buffer, result: Buffer, name: str) -> PrimFunc:
    """Return a function of two buffers that is only the loops that fill one from the other."""
    root = func.body.block if isinstance(func.body, BlockRealize) else None
    statements = _statements(func.body if root is None else root.body)
    (nest,) = (s for s in statements if result in _preproc_results(s))
    given, made = Var("weight", HANDLE), Var("rewritten", HANDLE)
    body: Stmt = nest
    if root is not None:
        assert isinstance(func.body, BlockRealize)
        alone = root.with_(body=nest, alloc_buffers=[], annotations={})
        body = BlockRealize(func.body.iter_values, func.body.predicate, alone)
    return PrimFunc(
        [given, made],
        body,
        buffer_map={given: source, made: result},
        attrs={"global_symbol": name, "tir.noalias": True},
    )


def _statements(body: Stmt) -> list[Stmt]:
    return list(body.seq) if isinstance(body, SeqStmt) else [body]


def _preproc_results(stmt: Stmt) -> set[Buffer]:
    return {
        node.writes[0].buffer
        for node in walk(stmt)
        if isinstance(node, Block) and _is_preproc(node)
    }


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
