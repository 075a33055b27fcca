"""The plain binding of programs that have no schedule for a GPU."""

from __future__ import annotations

from collections.abc import Iterable, Set

from codegen.lower.thread_axes import BLOCK, thread_loops
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import IterVar, PointerType, PrimExpr, Var
from tensorir.nodes.ops import const
from tensorir.rewriting.visit import rewrite, statements, substitute_buffers, uses_var

_AXIS = f"{BLOCK}.x"


def bind_unbound(func: PrimFunc) -> PrimFunc:
    """Return a function whose nests are all bound, so that a GPU runs it: correct, and slow.

    Before: for i in 8: for j in 4: block(i: S, j: S)        for k in 8: block(k: R)
    After:  for i (blockIdx.x, 8): for j in 4: ...           for _ (blockIdx.x, 1): for k in 8: ...

    The outermost loop of a nest becomes blocks of one thread if it is parallel, or data-parallel
    around a single block, unless its iterations store to the same elements of a temporary; other
    nests run in one thread. Memory of constant size that a nest allocates belongs to its thread.
    Bound nests stay as they are.
    """
    return func.with_body(_bound(func.body, {b.data for b in func.buffer_map.values()}))


def _bound(node: s.Stmt, arguments: Set[Var]) -> s.Stmt:
    if thread_loops(node) and not isinstance(node, (s.SeqStmt, s.BlockRealize)):
        return node
    if isinstance(node, s.SeqStmt):
        return s.sequence([_bound(part, arguments) for part in node.seq])
    if isinstance(node, s.BlockRealize) and not node.block.iter_vars:
        return node.changed(block=node.block.with_body(_bound(node.block.body, arguments)))
    if s.is_no_op(node):
        return node
    if isinstance(node, s.For) and _is_parallel(node) and not _shares_temporary(node, arguments):
        body = _of_one_thread(node.body)
        kind = s.ForKind.THREAD_BINDING
        return node.changed(kind=kind, body=body, thread_binding=_binding(node.loop_var.dtype))
    var = Var("once", "int32")
    body = _of_one_thread(node)
    kind, binding = s.ForKind.THREAD_BINDING, _binding(var.dtype)
    return s.For(var, const(0), const(1), kind, body, binding)


def _binding(dtype: DataType) -> IterVar:
    return IterVar(None, Var(_AXIS, dtype), IterVar.THREAD_INDEX, _AXIS)


def _of_one_thread(body: s.Stmt) -> s.Stmt:
    """Return a body with serial loops, and local memory instead of global memory."""
    serial = rewrite(body, {s.For: _as_serial})
    moved: dict[Buffer, Buffer] = {}
    for node in statements(serial):
        if isinstance(node, s.Block):
            allocated = [b for b in node.alloc_buffers if b.scope() == "global"]
            moved |= {b: _local(b) for b in allocated if b.has_constant_layout}
            views = [v.buffer for v in node.match_buffers if v.source.buffer in moved]
            moved |= {b: _local(b) for b in views}
    return substitute_buffers(serial, moved)


def _local(buffer: Buffer) -> Buffer:
    pointer = buffer.data.type_annotation
    assert isinstance(pointer, PointerType)
    return buffer.with_(data=Var(buffer.data.name, PointerType(pointer.element_type, "local")))


def _as_serial(loop: s.For) -> s.For:
    return loop.changed(kind=s.ForKind.SERIAL) if loop.kind is s.ForKind.PARALLEL else loop


def _is_parallel(loop: s.For) -> bool:
    """Return True if no iteration of a loop needs another one."""
    if loop.kind is s.ForKind.PARALLEL:
        return True
    blocks = [node for node in statements(loop) if isinstance(node, s.BlockRealize)]
    if loop.kind is not s.ForKind.SERIAL or len(blocks) != 1:
        return False
    axes = zip(blocks[0].block.iter_vars, blocks[0].iter_values, strict=True)
    return any(v is loop.loop_var and a.iter_type == IterVar.DATA_PAR for a, v in axes)


def _shares_temporary(loop: s.For, arguments: Set[Var]) -> bool:
    """Return True if a loop stores to memory around it, other than of arguments, at indices that
    do not use its variable.
    """
    private, varying = set(arguments), {loop.loop_var}
    varies = varying.__contains__
    stores: list[tuple[Buffer, Iterable[PrimExpr]]] = []
    for node in statements(loop):
        bindings: list[tuple[Var, PrimExpr]] = []
        if isinstance(node, s.BlockRealize):
            block = node.block
            axes = zip(block.iter_vars, node.iter_values, strict=True)
            bindings = [(axis.var, value) for axis, value in axes]
            private |= {buffer.data for buffer in block.alloc_buffers}
            for view in block.match_buffers:
                private.add(view.buffer.data)
                stores.append((view.source.buffer, [r.min for r in view.source.region]))
        elif isinstance(node, s.For):
            bindings = [(node.loop_var, node.min)]
        elif isinstance(node, s.LetStmt):
            bindings = [(node.var, node.value)]
        elif isinstance(node, s.Allocate):
            private.add(node.buffer_var)
        elif isinstance(node, s.BufferStore):
            stores.append((node.buffer, node.indices))
        varying |= {var for var, value in bindings if uses_var(value, varies)}
    return any(
        buffer.data not in private and not any(uses_var(i, varies) for i in indices)
        for buffer, indices in stores
    )
