"""Modules and tensor functions as script text, and the dispatch on the printed node."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence

from tensorir.errors import IRValueError
from tensorir.function import BaseFunc, IRModule, PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer, MatchBufferRegion
from tensorir.nodes.expr import TupleType, Type, Var
from tensorir.nodes.node import Node
from tensorir.nodes.ops import is_const_int
from tensorir.quoting import is_name, quote
from tensorir.relax.expr import Constant
from tensorir.relax.function import Function
from tensorir.rewriting.visit import collect_vars, walk
from tensorir.script import print_expr, print_graph, print_stmt
from tensorir.script.constants import KEY, LEFT_OUT
from tensorir.script.printer import EXPRESSIONS, STATEMENTS, Printer, PrintOptions, is_simple

EXPRESSIONS.update({**print_expr.FORMS, **print_graph.FORMS})
STATEMENTS.update(print_stmt.FORMS)


def print_node(p: Printer, node: Node) -> str:
    """Return a program, statement, expression, buffer or type as text."""
    if isinstance(node, IRModule):
        _module(p, node)
        _add_front(p, node.functions.values(), True)
    elif isinstance(node, BaseFunc):
        symbol = node.attrs.get("global_symbol")
        if not isinstance(symbol, str) or not is_name(symbol):
            symbol = "main"
        _function(p, node, p.options.name or symbol)
        _add_front(p, [node], False)
    elif isinstance(node, s.Stmt):
        p.begin_body()
        p.stmt(node, True)
    elif isinstance(node, print_graph.PARTS):
        print_graph.part(p, node)
    elif isinstance(node, Buffer):
        p.declare("Buffer", node)
    elif isinstance(node, MatchBufferRegion):
        p.declare("match_buffer", node.buffer, p.region(node.source))
    else:
        text = p.type(node) if isinstance(node, Type) else p(node)
        if not p.options.verbose_expr:
            p.lines.clear()
        p.line(text)
    return "\n".join(line.rstrip() for line in p.lines)


def _add_front(p: Printer, functions: Iterable[BaseFunc], is_module: bool) -> None:
    """Put the imports and the arrays of a program in front of its lines."""
    options = p.options
    graphs = [func for func in functions if isinstance(func, Function)]
    names = [("tir", "T", options.tir_prefix)]
    if graphs:
        names.insert(0, ("relax", "R", options.relax_prefix))
    if is_module or any(map(print_graph.calls_by_name, graphs)):
        names.insert(0, ("ir", "I", options.ir_prefix))
    if options.dialect == "tensorir":
        imported = (
            own_name if own_name == used else f"{own_name} as {used}" for _, own_name, used in names
        )
        front = [f"from tensorir import {', '.join(imported)}", ""]
    else:
        front = [
            *(f"# from tvm.script import {tvm_name} as {used}" for tvm_name, _, used in names),
            "",
        ]
    if p.constants and options.show_meta:
        front += _metadata_lines(p.constants, options)
    elif p.constants:
        p.lines += ["", LEFT_OUT]
    p.lines[:0] = front


def _function(p: Printer, func: BaseFunc, name: str) -> None:
    printed = print_graph.function if isinstance(func, Function) else _tensor_function
    p.inside(func, printed, p, func, name)


def _module(p: Printer, mod: IRModule) -> None:
    """Print a module."""
    options = p.options
    p.module_name = options.name or "Module"
    p.name_functions(mod.functions)
    p.names.reserve(p.module_name)
    p.line(f"@{options.ir_prefix}.ir_module")
    p.line(f"class {p.module_name}:")
    p.depth += 1
    if mod.attrs:
        p.line(f"{options.ir_prefix}.module_attrs({p.mapping(mod.attrs)})")
    graphs = mod.graph_funcs()
    names = sorted(mod.functions, key=lambda n: (n in graphs, n == "main", n))
    for k, name in enumerate(names):
        if k:
            p.lines.append("")
        _function(p, mod.functions[name], name)
    if not names:
        p.line("pass")
    p.depth -= 1


def _tensor_function(p: Printer, func: PrimFunc, name: str) -> None:
    """Print a tensor function."""
    p.decorator(f"{p.t}.prim_func", func, name)
    p.names.open()
    used = set(collect_vars(func.body)) if p.sugar else set()
    inline = {v for v in func.params if p.sugar and _prints_inline(func, v, used)}
    params = [_parameter(p, func, v, v in inline) for v in func.params]
    p.line(f"def {p.symbol(name)}({', '.join(params)}){_result(p, func)}:", func)
    p.depth += 1
    attrs = {k: v for k, v in func.attrs.items() if (k, v) != ("global_symbol", name)}
    if attrs:
        p.line(f"{p.t}.func_attr({p.mapping(attrs)})")
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is not None and param not in inline:
            p.declare("match_buffer", buffer, p.var(param))
    _body(p, func.body)
    p.depth -= 1
    p.names.end_function()


def _result(p: Printer, func: PrimFunc) -> str:
    if isinstance(func.ret_type, TupleType) and not func.ret_type.elements:
        return ""
    return f" -> {p.type(func.ret_type)}"


def _parameter(p: Printer, func: PrimFunc, param: Var, inline: bool) -> str:
    if not inline:
        p.names.define(param)
        return f"{p.var(param)}: {p.var_type(param)}"
    buffer = func.buffer_map[param]
    p.names.alias(buffer.data, f"{p.names.define(buffer)}.data")
    return f"{p.buffer(buffer)}: {p.inside(buffer, _buffer_type, p, buffer)}"


def _buffer_type(p: Printer, buffer: Buffer) -> str:
    """Return the annotation of a parameter that is a buffer."""
    return f"{p.t}.Buffer({p.tuple_of(buffer.shape)}, {quote(buffer.dtype)})"


def _body(p: Printer, body: s.Stmt) -> None:
    """Print the body of a function, without the root block if it only has allocations."""
    p.begin_body()
    if not (p.sugar and isinstance(body, s.BlockRealize) and _is_plain_root(body)):
        p.stmt(body, True)
        return
    block = body.block
    p.line(f'# with {p.t}.block("root"):', body, block)
    p.names.open()
    for buffer in block.alloc_buffers:
        p.declare("alloc_buffer", buffer)
    p.begin_body()
    p.stmt(block.body, True)
    p.names.close()


def _prints_inline(func: PrimFunc, param: Var, used: set[Var]) -> bool:
    """Return True if a parameter is printed as the buffer that it is bound to."""
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


def _metadata_lines(constants: Sequence[Constant], options: PrintOptions) -> list[str]:
    """Return the statement that defines `metadata`, the arrays of a program.

    Raises IRValueError for a dialect of TVM, because its format of arrays is not supported.
    """
    if options.dialect != "tensorir":
        raise IRValueError(
            f"arrays cannot be printed in the dialect {options.dialect!r}; use show_meta=False, or "
            "the dialect 'tensorir'"
        )
    lines = ["metadata = {", f'    "{KEY}": [']
    for constant in constants:
        dtype = constant.struct_info.dtype  # type: ignore[attr-defined]
        array = constant.data
        data = base64.b64encode(array.astype(array.dtype.newbyteorder("<")).tobytes()).decode()
        lines.append(f'        {options.relax_prefix}.array("{dtype}", {array.shape}, "{data}"),')
    return [*lines, "    ],", "}", ""]
