"""The plain binding of programs that have no schedule for a GPU."""

from __future__ import annotations

from codegen.lower.thread_axes import BLOCK, thread_loops
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import IterVar, Var
from tensorir.nodes.ops import const
from tensorir.rewriting.visit import rewrite, statements

_AXIS = f"{BLOCK}.x"


def bind_unbound(func: PrimFunc) -> PrimFunc:
    """Return a function whose nests are all bound, so that a GPU runs it: correct, and slow.

    Before: for i in 8: for j in 4: block(i: S, j: S)        for k in 8: block(k: R)
    After:  for i (blockIdx.x, 8): for j in 4: ...           for _ (blockIdx.x, 1): for k in 8: ...

    The outermost loop of a nest becomes blocks of one thread if it is parallel, or data-parallel
    around a single block; other nests run in one thread. Bound nests stay as they are.
    """
    return func.with_body(_bound(func.body))


def _bound(node: s.Stmt) -> s.Stmt:
    if thread_loops(node) and not isinstance(node, (s.SeqStmt, s.BlockRealize)):
        return node
    if isinstance(node, s.SeqStmt):
        return s.sequence([_bound(part) for part in node.seq])
    if isinstance(node, s.BlockRealize) and not node.block.iter_vars:
        return node.changed(block=node.block.with_body(_bound(node.block.body)))
    if s.is_no_op(node):
        return node
    if isinstance(node, s.For) and _is_parallel(node):
        body = rewrite(node.body, {s.For: _as_serial})
        kind = s.ForKind.THREAD_BINDING
        return node.changed(kind=kind, body=body, thread_binding=_binding(node.loop_var.dtype))
    var = Var("once", "int32")
    body = rewrite(node, {s.For: _as_serial})
    kind, binding = s.ForKind.THREAD_BINDING, _binding(var.dtype)
    return s.For(var, const(0), const(1), kind, body, binding)


def _binding(dtype: DataType) -> IterVar:
    return IterVar(None, Var(_AXIS, dtype), IterVar.THREAD_INDEX, _AXIS)


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
