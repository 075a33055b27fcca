"""The refusal of programs that are not bound to the threads of a GPU, before they are lowered."""

from __future__ import annotations

from typing import Final

from codegen.errors import LoweringError
from codegen.lower.check_supported import name_of
from codegen.lower.thread_axes import AXES, VIRTUAL, axis_of, kind_of, thread_loops
from tensorir.function import PrimFunc
from tensorir.memory.storage_scopes import memory_of
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import IterVar, PrimExpr, Var
from tensorir.nodes.ops import const
from tensorir.rewriting.visit import rewrite, statements, substitute

_MEMORY: Final = ("global", "shared", "local")


def check_bound(func: PrimFunc) -> PrimFunc:
    """Refuse a program that no thread of a GPU runs, or that needs what a GPU does not have.

    Thread axes that are declared by attributes, `T.launch_thread`, become loops. Raises
    LoweringError naming the loop or buffer, and what to bind.
    """
    body = rewrite(func.body, {s.AttrStmt: _as_loop})
    name = name_of(func)
    if not thread_loops(body):
        raise LoweringError(
            f"{name} has no loop that is bound to threads; bind loops to blockIdx.x and "
            f"threadIdx.x (sch.bind), or apply the default schedule of the target"
        )
    for buffer in func.buffer_map.values():
        _check_memory(buffer.data, name)
    for node in statements(body):
        if isinstance(node, s.For):
            _check_loop(node, name)
        elif isinstance(node, s.Block):
            for buffer in node.alloc_buffers:
                _check_memory(buffer.data, name)
        elif isinstance(node, s.Allocate):
            _check_memory(node.buffer_var, name)
    return func.with_body(body)


def _as_loop(node: s.AttrStmt) -> s.Stmt | None:
    axis = node.node
    if node.attr_key not in ("thread_extent", "virtual_thread") or not isinstance(axis, IterVar):
        return None
    var = Var(axis.var.name, axis.var.dtype)
    tag = VIRTUAL if node.attr_key == "virtual_thread" else axis.thread_tag
    binding = IterVar(None, Var(tag, var.dtype), IterVar.THREAD_INDEX, tag)
    extent: PrimExpr = node.value.astype(var.dtype)
    body = substitute(node.body, {axis.var: var})
    return s.For(var, const(0, var.dtype), extent, s.ForKind.THREAD_BINDING, body, binding)


def _check_loop(loop: s.For, name: str) -> None:
    if loop.kind is s.ForKind.PARALLEL:
        raise LoweringError(
            f"loop {loop.loop_var.name} of {name} is parallel, which means cores of a CPU; bind it "
            f"to blockIdx.x or threadIdx.x with sch.bind"
        )
    tag = axis_of(loop)
    if tag and tag not in AXES and kind_of(loop) != VIRTUAL:
        raise LoweringError(
            f"loop {loop.loop_var.name} of {name} is bound to {tag}, which is no axis of a GPU; "
            f"the axes are {', '.join(AXES)} and {VIRTUAL}.x, .y, .z"
        )


def _check_memory(pointer: Var, name: str) -> None:
    scope = memory_of(pointer)
    if scope not in _MEMORY:
        raise LoweringError(
            f"buffer {pointer.name} of {name} lives in scope {scope!r}; a GPU's program has "
            f"{', '.join(_MEMORY)} (sch.set_scope changes it)"
        )
