"""Declarations of buffers as script text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tensorir.nodes import expr as e
from tensorir.nodes.buffer import Buffer, wide_index
from tensorir.nodes.dtype import INT64, DataType
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.ops import is_const_int
from tensorir.quoting import identifier, quote
from tensorir.rewriting.visit import collect_vars
from tensorir.script.print_expr import tuple_text

if TYPE_CHECKING:
    from tensorir.script.printer import Printer


def buffer_call(printer: Printer, constructor: str, buffer: Buffer, source: str = "") -> str:
    """Return the call that makes a buffer, and name the buffer and what comes with it.

    What no one knows yet of its memory, strides and offset is called by the buffer's name from
    here on: `A.data`, `A.strides[0]`, `A.elem_offset`.
    """
    names, expr = printer.names, printer.expr
    fresh = list(buffer.shape) if constructor == "match_buffer" else []
    offset, usual = buffer.elem_offset, _usual_offset(buffer)
    fresh += [v for v in (*buffer.strides, offset) if v.dtype is not usual or type(v) is e.SizeVar]
    if buffer.strides:
        fresh += _used_twice((*buffer.strides, offset))
    _define_before(printer, fresh)
    name = names.define(buffer)
    args = [source] if source else []
    oldest = printer.options.is_oldest and constructor == "alloc_buffer"
    args.append(f"[{expr.items(buffer.shape)}]" if oldest else shape(printer, buffer.shape))
    if oldest:
        args.append(f"dtype={quote(buffer.dtype)}")
    elif buffer.dtype != printer.options.buffer_dtype:
        args.append(quote(buffer.dtype))
    shares = buffer.data in names.texts
    if shares:
        args.append(f"data={printer.var(buffer.data)}")
    else:
        names.alias(buffer.data, f"{name}.data")
    if buffer.strides:
        args.append(f"strides={_strides(printer, buffer, name)}")
    fresh_offset = isinstance(offset, Var) and offset not in names.texts
    if fresh_offset and isinstance(offset, Var):
        names.alias(offset, f"{name}.elem_offset")
    elif is_const_int(offset, 0) and offset.dtype is not usual:
        args.append(f"elem_offset={expr.typed(offset)}")
    elif not is_const_int(offset, 0):
        args.append(f"elem_offset={expr(offset)}")
    if buffer.scope() != "global" and not shares:
        args.append(f"scope={quote(buffer.scope())}")
    if buffer.data_alignment != 64:
        args.append(f"align={buffer.data_alignment}")
    if buffer.offset_factor != 1 or fresh_offset:
        args.append(f"offset_factor={buffer.offset_factor}")
    if buffer.buffer_type:
        args.append(f"buffer_type={quote(buffer.buffer_type)}")
    if buffer.axis_separators:
        args.append(f"axis_separators={list(buffer.axis_separators)}")
    return f"{printer.options.tir_prefix}.{constructor}({', '.join(args)})"


def _usual_offset(buffer: Buffer) -> DataType:
    """Return the type of strides and offsets that goes without saying."""
    return wide_index(buffer.shape[0].dtype) if buffer.shape else INT64


def _used_twice(fields: Sequence[PrimExpr]) -> list[Var]:
    """Return the variables that no one field of a buffer can introduce, as others use them too."""
    used = Counter(v for field in fields for v in collect_vars(field))
    return [v for v, count in used.items() if count > 1]


def _define_before(printer: Printer, fields: Sequence[PrimExpr]) -> None:
    """Print the definition of the variables among `fields` that have none."""
    known = printer.names.texts
    fresh = [v for v in dict.fromkeys(fields) if isinstance(v, Var) and v not in known]
    if fresh:
        for var in fresh:
            printer.names.define(var)
        names = ", ".join(printer.var(v) for v in fresh)
        printer.line(f"{names} = {', '.join(printer.fresh_var(v) for v in fresh)}")


def shape(printer: Printer, dims: Sequence[PrimExpr]) -> str:
    """Return a shape as a tuple."""
    return tuple_text([printer.expr(n) for n in dims])


def _strides(printer: Printer, buffer: Buffer, name: str) -> str:
    parts = []
    for k, stride in enumerate(buffer.strides):
        if isinstance(stride, Var) and stride not in printer.names.texts:
            printer.names.alias(stride, f"{name}.strides[{k}]")
            parts.append(quote(identifier(stride.name)))
        else:
            parts.append(printer.expr(stride))
    return tuple_text(parts)


def is_simple(buffer: Buffer) -> bool:
    """Say whether shape and type are all there is to a buffer."""
    return (
        not buffer.strides
        and all(isinstance(n, IntImm) for n in buffer.shape)
        and is_const_int(buffer.elem_offset, 0)
        and buffer.elem_offset.dtype is _usual_offset(buffer)
        and buffer.scope() == "global"
        and buffer.data_alignment == 64
        and buffer.offset_factor == 1
        and not buffer.buffer_type
        and not buffer.axis_separators
    )
