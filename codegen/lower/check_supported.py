"""The refusal of programs that need a GPU, before anything is lowered."""

from __future__ import annotations

from collections.abc import Iterable

from codegen.errors import LoweringError
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import PointerType, PrimExpr, StringImm, Var
from tensorir.nodes.node import Node
from tensorir.rewriting.visit import pre_order_visit

_MEMORY = ("global", "local")
"""Scopes (with any tag, such as `global.packed`) that mean ordinary memory."""


def check_supported(func: PrimFunc) -> PrimFunc:
    """Return `func` unchanged.

    Raises LoweringError naming a loop that is bound to a thread, or a buffer whose storage scope
    is not ordinary memory.
    """
    _check_buffers(func.buffer_map.values(), func)

    def visit(node: Node) -> bool | None:
        kind = type(node)
        if kind is s.BufferStore or isinstance(node, PrimExpr):
            return False
        if kind is s.For:
            _check_loop(node, func)  # type: ignore[arg-type]
        elif kind is s.Block:
            _check_buffers(node.alloc_buffers, func)  # type: ignore[attr-defined]
        elif kind is s.Allocate:
            _check_pointer(node.buffer_var, func)  # type: ignore[attr-defined]
        elif kind is s.AttrStmt and node.attr_key in ("thread_extent", "virtual_thread"):  # type: ignore[attr-defined]
            raise LoweringError(
                f"{_name(func)} declares the thread axis {node.node} ({node.attr_key}); "  # type: ignore[attr-defined]
                f"a CPU has none: write the loop with T.parallel or T.serial"
            )
        return None

    pre_order_visit(func.body, visit)
    return func


def _check_loop(loop: s.For, func: PrimFunc) -> None:
    if loop.kind is not s.ForKind.THREAD_BINDING:
        return
    axis = loop.thread_binding
    tag = axis.thread_tag if axis is not None else "a thread"
    raise LoweringError(
        f"loop {loop.loop_var.name} of {_name(func)} is bound to {tag}, which a CPU does not have; "
        f"use sch.parallel(loop) instead of sch.bind, or leave the loop serial"
    )


def _check_buffers(buffers: Iterable[Buffer], func: PrimFunc) -> None:
    for buffer in buffers:
        _check_pointer(buffer.data, func)


def _check_pointer(pointer: Var, func: PrimFunc) -> None:
    kind = pointer.type_annotation
    scope = kind.storage_scope if isinstance(kind, PointerType) else ""
    if scope and scope.split(".")[0] not in _MEMORY:
        raise LoweringError(
            f"buffer {pointer.name} of {_name(func)} lives in scope {scope!r}, which a CPU does "
            f'not have; use "global" or "local" (sch.set_scope changes it)'
        )


def _name(func: PrimFunc) -> str:
    symbol = func.attrs.get("global_symbol")
    if isinstance(symbol, StringImm):
        symbol = symbol.value
    return f"function {symbol}" if symbol else "the function"
