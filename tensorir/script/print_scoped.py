"""Statements that enclose what follows: lets, asserts, attributes, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tensorir.comparison.equal import expr_deep_equal
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import PointerType, Var
from tensorir.nodes.ops import is_const_int
from tensorir.quoting import quote
from tensorir.script.constants import elements_text

if TYPE_CHECKING:
    from tensorir.script.printer import Printer

_Scoped: TypeAlias = (
    s.LetStmt | s.AssertStmt | s.AttrStmt | s.Allocate | s.AllocateConst | s.DeclBuffer
)


def _named(printer: Printer, var: Var) -> str:
    """Return the name of a variable, which is defined here."""
    printer.names.define(var)
    return printer.var(var)


def _scoped(
    printer: Printer, node: _Scoped, last: bool, concise: str, call: str, name: str = ""
) -> None:
    """Print a statement that encloses others, without `with` where it ends its suite."""
    named = f" as {name}" if name else ""
    printer.line(concise if last else f"with {call}{named}:", node)
    if last:
        printer.begin_suite()
        printer.stmt(node.body, True)
    else:
        printer.indented(node.body)
    printer.names.close()


def let(printer: Printer, node: s.LetStmt, last: bool) -> None:
    """Print a let."""
    value = printer.expr(node.value)
    kind = printer.var_type(node.var)
    annotation = f", {kind}" if isinstance(node.var.type_annotation, PointerType) else ""
    call = f"{printer.options.tir_prefix}.LetStmt({value}{annotation})"
    printer.names.open()
    name = _named(printer, node.var)
    _scoped(printer, node, last, f"{name}: {kind} = {value}", call, name)


def assertion(printer: Printer, node: s.AssertStmt, last: bool) -> None:
    """Print an assert."""
    condition, message = printer.expr(node.condition), printer.expr(node.message)
    call = f"{printer.options.tir_prefix}.Assert({condition}, {message})"
    printer.names.open()
    _scoped(printer, node, last, f"assert {condition}, {message}", call)


def attr(printer: Printer, node: s.AttrStmt, last: bool) -> None:
    """Print an attribute."""
    target, value = printer.expr.value(node.node), printer.expr(node.value)
    call = f"{printer.options.tir_prefix}.attr({target}, {quote(node.attr_key)}, {value})"
    printer.names.open()
    _scoped(printer, node, last, call, call)


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
    _pointer(printer, node, "allocate", args, last)


def allocate_const(printer: Printer, node: s.AllocateConst, last: bool) -> None:
    """Print constant memory, every element of it."""
    extents = printer.expr.items(node.extents)
    args = [f"[{elements_text(node.data)}]", quote(node.dtype), f"[{extents}]"]
    _pointer(printer, node, "allocate_const", args, last)


def _pointer(
    printer: Printer, node: s.Allocate | s.AllocateConst, what: str, args: list[str], last: bool
) -> None:
    if node.annotations:
        args.append(f"annotations={printer.expr.mapping(node.annotations)}")
    call = f"{printer.options.tir_prefix}.{what}({', '.join(args)})"
    printer.names.open()
    name = _named(printer, node.buffer_var)
    _scoped(printer, node, last, f"{name} = {call}", call, name)


def decl_buffer(printer: Printer, node: s.DeclBuffer, last: bool) -> None:
    """Print a view of a pointer."""
    printer.var(node.buffer.data)
    _declared(printer, node, last)


def _declared(printer: Printer, node: s.DeclBuffer, last: bool) -> None:
    printer.names.open()
    call = printer.declaration(node.buffer, "decl_buffer")
    name = printer.buffer(node.buffer)
    _scoped(printer, node, last, f"{name} = {call}", call, name)


def _declares_all(node: s.Allocate, buffer: Buffer) -> bool:
    return (
        buffer.data is node.buffer_var
        and buffer.dtype is node.dtype
        and not node.annotations
        and is_const_int(node.condition, 1)
        and len(buffer.shape) == len(node.extents)
        and all(expr_deep_equal(a, b) for a, b in zip(buffer.shape, node.extents, strict=True))
    )
