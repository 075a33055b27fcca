"""Refusing programs that need a GPU, before any other pass."""

from __future__ import annotations

from collections.abc import Iterable

from codegen.errors import LoweringError
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import PointerType, StringImm, Var
from tensorir.rewriting.visit import statements

_MEMORY = ("global", "local")
"""Scopes (with any tag, such as `global.packed`) that mean ordinary memory."""


def check_supported(func: PrimFunc) -> PrimFunc:
    """Refuse a program that needs a GPU; return any other unchanged.

    Raises LoweringError naming a loop that is bound to a thread, or a buffer whose storage scope
    is not ordinary memory.
    """
    _check_buffers(func.buffer_map.values(), func)

    for node in statements(func.body):
        if isinstance(node, s.For):
            _check_loop(node, func)
        elif isinstance(node, s.Block):
            _check_buffers(node.alloc_buffers, func)
        elif isinstance(node, s.Allocate):
            _check_pointer(node.buffer_var, func)
        elif isinstance(node, s.AttrStmt) and node.attr_key in ("thread_extent", "virtual_thread"):
            raise LoweringError(
                f"{name_of(func)} declares the thread axis {node.node} ({node.attr_key}); "
                f"a CPU has none: write the loop with T.parallel or T.serial"
            )
    return func


def _check_loop(loop: s.For, func: PrimFunc) -> None:
    if loop.kind is not s.ForKind.THREAD_BINDING:
        return
    axis = loop.thread_binding
    tag = axis.thread_tag if axis is not None else "a thread"
    raise LoweringError(
        f"loop {loop.loop_var.name} of {name_of(func)} is bound to {tag}, which a CPU does not "
        f"have; use sch.parallel(loop) instead of sch.bind, or leave the loop serial"
    )


def _check_buffers(buffers: Iterable[Buffer], func: PrimFunc) -> None:
    for buffer in buffers:
        _check_pointer(buffer.data, func)


def _check_pointer(pointer: Var, func: PrimFunc) -> None:
    kind = pointer.type_annotation
    scope = kind.storage_scope if isinstance(kind, PointerType) else ""
    if scope and scope.split(".")[0] not in _MEMORY:
        raise LoweringError(
            f"buffer {pointer.name} of {name_of(func)} lives in scope {scope!r}, which a CPU does "
            f'not have; use "global" or "local" (sch.set_scope changes it)'
        )


def name_of(func: PrimFunc) -> str:
    """Return how messages call a function."""
    symbol = func.attrs.get("global_symbol")
    if isinstance(symbol, StringImm):
        symbol = symbol.value
    return f"function {symbol}" if symbol else "the function"
