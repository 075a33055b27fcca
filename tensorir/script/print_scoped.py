"""Statements that enclose what follows: lets, asserts, attributes, memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tensorir.comparison.equal import expr_deep_equal
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import PointerType, Var
from tensorir.nodes.ops import is_const_int
from tensorir.quoting import quote
from tensorir.script.constants import elements_text

if TYPE_CHECKING:
    from tensorir.script.printer import Printer


def _scoped(
    printer: Printer,
    node: s.Stmt,
    last: bool,
    concise: Callable[[str], str],
    explicit: Callable[[str], str],
    defined: Var | None,
    body: s.Stmt,
) -> None:
    """Print a statement that encloses others, without `with` where it ends its suite."""
    printer.names.open()
    name = ""
    if defined is not None:
        printer.names.define(defined)
        name = printer.var(defined)
    printer.line(concise(name) if last else explicit(name), node)
    _enclosed(printer, body, last)
    printer.names.close()


def _enclosed(printer: Printer, body: s.Stmt, last: bool) -> None:
    """Print what a statement that opened the current scope encloses."""
    if last:
        printer.begin_suite()
        printer.stmt(body, True)
    else:
        printer.indented(body)


def let(printer: Printer, node: s.LetStmt, last: bool) -> None:
    """Print a let."""
    value = printer.expr(node.value)
    kind = printer.var_type(node.var)
    pointer = isinstance(node.var.type_annotation, PointerType)
    annotation = f", {kind}" if pointer else ""
    _scoped(
        printer,
        node,
        last,
        lambda name: f"{name}: {kind} = {value}",
        lambda name: f"with {printer.options.tir_prefix}.LetStmt({value}{annotation}) as {name}:",
        node.var,
        node.body,
    )


def assertion(printer: Printer, node: s.AssertStmt, last: bool) -> None:
    """Print an assert."""
    condition, message = printer.expr(node.condition), printer.expr(node.message)
    _scoped(
        printer,
        node,
        last,
        lambda _: f"assert {condition}, {message}",
        lambda _: f"with {printer.options.tir_prefix}.Assert({condition}, {message}):",
        None,
        node.body,
    )


def attr(printer: Printer, node: s.AttrStmt, last: bool) -> None:
    """Print an attribute."""
    target, value = printer.expr.value(node.node), printer.expr(node.value)
    call = f"{printer.options.tir_prefix}.attr({target}, {quote(node.attr_key)}, {value})"
    _scoped(printer, node, last, lambda _: call, lambda _: f"with {call}:", None, node.body)


def allocate(printer: Printer, node: s.Allocate, last: bool) -> None:
    """Print an allocation, with the buffer declared on it where there is one."""
    body = node.body
    merges = last and printer.sugar and isinstance(body, s.DeclBuffer)
    if merges and isinstance(body, s.DeclBuffer) and _declares_all(node, body.buffer):
        _declared(printer, body, last)
        return
    kind = node.buffer_var.type_annotation
    scope = kind.storage_scope if isinstance(kind, PointerType) else ""
    args = [f"[{printer.expr.items(node.extents)}]", quote(node.dtype), quote(scope or "global")]
    if not is_const_int(node.condition, 1):
        args.append(printer.expr(node.condition))
    if node.annotations:
        args.append(f"annotations={printer.expr.mapping(node.annotations)}")
    _pointer(printer, node, f"{printer.options.tir_prefix}.allocate({', '.join(args)})", last)


def allocate_const(printer: Printer, node: s.AllocateConst, last: bool) -> None:
    """Print constant memory, every element of it."""
    extents = printer.expr.items(node.extents)
    args = [f"[{elements_text(node.data)}]", quote(node.dtype), f"[{extents}]"]
    if node.annotations:
        args.append(f"annotations={printer.expr.mapping(node.annotations)}")
    call = f"{printer.options.tir_prefix}.allocate_const({', '.join(args)})"
    _pointer(printer, node, call, last)


def _pointer(printer: Printer, node: s.Allocate | s.AllocateConst, call: str, last: bool) -> None:
    _scoped(
        printer,
        node,
        last,
        lambda name: f"{name} = {call}",
        lambda name: f"with {call} as {name}:",
        node.buffer_var,
        node.body,
    )


def decl_buffer(printer: Printer, node: s.DeclBuffer, last: bool) -> None:
    """Print a view of a pointer."""
    printer.var(node.buffer.data)
    _declared(printer, node, last)


def _declared(printer: Printer, node: s.DeclBuffer, last: bool) -> None:
    printer.names.open()
    call = printer.declaration("decl_buffer", node.buffer)
    name = printer.buffer(node.buffer)
    printer.line(f"{name} = {call}" if last else f"with {call} as {name}:", node)
    _enclosed(printer, node.body, last)
    printer.names.close()


def _declares_all(node: s.Allocate, buffer: Buffer) -> bool:
    return (
        buffer.data is node.buffer_var
        and buffer.dtype is node.dtype
        and not node.annotations
        and is_const_int(node.condition, 1)
        and len(buffer.shape) == len(node.extents)
        and all(expr_deep_equal(a, b) for a, b in zip(buffer.shape, node.extents, strict=True))
    )
