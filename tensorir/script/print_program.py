"""Modules and tensor functions as script text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorir.function import IRModule, PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import TupleType, Var
from tensorir.nodes.ops import is_const_int
from tensorir.rewriting.visit import collect_vars, walk
from tensorir.script.print_buffer import is_simple

if TYPE_CHECKING:
    from tensorir.script.printer import Printer


def module(printer: Printer, mod: IRModule) -> None:
    """Print a module."""
    options = printer.options
    printer.module_name = options.name or "Module"
    printer.name_functions(mod.functions)
    printer.names.reserve(printer.module_name)
    if options.is_oldest:
        # There, functions are called by their names alone.
        for name in mod.functions:
            printer.names.reserve(printer.symbol(name))
    printer.line(
        "@tvm.script.ir_module" if options.is_oldest else f"@{options.ir_prefix}.ir_module"
    )
    printer.line(f"class {printer.module_name}:")
    printer.depth += 1
    if mod.attrs:
        printer.line(f"{options.ir_prefix}.module_attrs({printer.expr.mapping(mod.attrs)})")
    graphs = mod.graph_funcs()
    # The oldest form has graph functions first.
    names = sorted(
        mod.functions, key=lambda n: ((n in graphs) != options.is_oldest, n == "main", n)
    )
    for k, name in enumerate(names):
        if k:
            printer.lines.append("")
        printer.function(mod.functions[name], name)
    if not names:
        printer.line("pass")
    printer.depth -= 1


def tensor_function(printer: Printer, func: PrimFunc, name: str) -> None:
    """Print a tensor function."""
    printer.decorator(f"{printer.options.tir_prefix}.prim_func", func, name)
    printer.names.open()
    used = set(collect_vars(func.body)) if printer.sugar else set()
    inline = {p for p in func.params if printer.sugar and _prints_inline(func, p, used)}
    params = [_parameter(printer, func, p, p in inline) for p in func.params]
    printer.line(f"def {printer.symbol(name)}({', '.join(params)}){_result(printer, func)}:", func)
    printer.depth += 1
    _func_attrs(printer, func, name)
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is not None and param not in inline:
            printer.declare("match_buffer", buffer, printer.var(param))
    _body(printer, func.body)
    printer.depth -= 1
    printer.names.end_function()


def _func_attrs(printer: Printer, func: PrimFunc, name: str) -> None:
    oldest = printer.options.is_oldest
    attrs = dict(func.attrs)
    if not oldest and attrs.get("global_symbol") == name:
        del attrs["global_symbol"]
    if oldest:
        printer.line("# function attr dict")
    if attrs:
        printer.line(f"{printer.options.tir_prefix}.func_attr({printer.expr.mapping(attrs)})")
    if oldest:
        printer.line("# body")


def _result(printer: Printer, func: PrimFunc) -> str:
    if isinstance(func.ret_type, TupleType) and not func.ret_type.elements:
        return " -> None" if printer.options.is_oldest else ""
    return f" -> {printer.type(func.ret_type)}"


def _parameter(printer: Printer, func: PrimFunc, param: Var, inline: bool) -> str:
    if not inline:
        printer.names.define(param)
        return f"{printer.var(param)}: {printer.var_type(param)}"
    buffer = func.buffer_map[param]
    printer.names.alias(buffer.data, f"{printer.names.define(buffer)}.data")
    return f"{printer.buffer(buffer)}: {printer.buffer_type(buffer)}"


def _body(printer: Printer, body: s.Stmt) -> None:
    """Print a function's body; a root block without content of its own is left out."""
    printer.begin_suite()
    if not (printer.sugar and isinstance(body, s.BlockRealize) and _is_plain_root(body)):
        printer.stmt(body, True)
        return
    block = body.block
    printer.line(f'# with {printer.options.tir_prefix}.block("root"):', body, block)
    printer.names.open()
    for buffer in block.alloc_buffers:
        printer.declare("alloc_buffer", buffer)
    printer.begin_suite()
    printer.stmt(block.body, True)
    printer.names.close()


def _prints_inline(func: PrimFunc, param: Var, used: set[Var]) -> bool:
    """Say whether a parameter is printed as the buffer that it is bound to."""
    buffer = func.buffer_map.get(param)
    if buffer is None or not is_simple(buffer):
        return False
    shared = sum(1 for b in func.buffer_map.values() if b.data is buffer.data)
    return shared == 1 and param not in used


def _is_plain_root(realize: s.BlockRealize) -> bool:
    block = realize.block
    if (
        realize.iter_values
        or not is_const_int(realize.predicate, 1)
        or block.annotations
        or block.match_buffers
        or block.reads
        or block.writes
        or block.init is not None
        or block.name_hint != "root"
    ):
        return False
    if block.alloc_buffers:
        return True
    if isinstance(block.body, s.BlockRealize):
        return bool(block.body.block.iter_vars)
    return any(isinstance(n, s.BlockRealize) for n in walk(block.body))
