"""Statements as script text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from tensorir.comparison.equal import expr_deep_equal
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import IterVar, PointerType, PrimExpr, Var
from tensorir.nodes.ops import add, is_const_int
from tensorir.nodes.stmt import ForKind
from tensorir.quoting import quote
from tensorir.rewriting.visit import collect_vars
from tensorir.script.constants import elements_text
from tensorir.script.printer import Printer

_LOOP_CALL: Final = {
    ForKind.PARALLEL: "parallel",
    ForKind.VECTORIZED: "vectorized",
    ForKind.UNROLLED: "unroll",
    ForKind.THREAD_BINDING: "thread_binding",
}
_Scoped: TypeAlias = (
    s.LetStmt | s.AssertStmt | s.AttrStmt | s.Allocate | s.AllocateConst | s.DeclBuffer
)


# --------------------------------------------------------------------------------------- blocks


def _block(p: Printer, block: s.Block, realize: s.BlockRealize | None = None) -> None:
    """Print a block, with the bindings of its axes if it is realized."""
    bare = "" if realize is not None else ", no_realize=True"
    shown = (block,) if realize is None else (realize, block)
    p.line(f"with {p.t}.block({quote(block.name_hint)}{bare}):", *shown)
    p.names.open()
    p.depth += 1
    _axes(p, block, realize)
    if realize is not None and not is_const_int(realize.predicate, 1):
        p.line(f"{p.t}.where({p(realize.predicate)})")
    p.inside(block, _signature, p, block)
    for buffer in block.alloc_buffers:
        p.declare("alloc_buffer", buffer)
    for view in block.match_buffers:
        p.declare("match_buffer", view.buffer, p.region(view.source))
    p.begin_body()
    if block.init is not None:
        p.line(f"with {p.t}.init():")
        p.body(block.init)
    p.stmt(block.body, True)
    p.depth -= 1
    p.names.close()


def _signature(p: Printer, block: s.Block) -> None:
    """Print the regions of a block, and its annotations."""
    t = p.t
    p.line(f"{t}.reads({', '.join(p.region(r) for r in block.reads)})")
    p.line(f"{t}.writes({', '.join(p.region(r) for r in block.writes)})")
    if block.annotations:
        p.line(f"{t}.block_attr({p.mapping(block.annotations)})")


def _axes(p: Printer, block: s.Block, realize: s.BlockRealize | None) -> None:
    values: Sequence[PrimExpr | None] = (
        realize.iter_values if realize is not None else [None] * len(block.iter_vars)
    )
    run: list[tuple[IterVar, PrimExpr]] = []
    bound = [None if v is None else p(v) for v in values]
    for axis, value, text in zip(block.iter_vars, values, bound, strict=True):
        if value is not None and _is_remappable(p, axis, value):
            run.append((axis, value))
            continue
        _print_remapped(p, run)
        run = []
        _axis(p, axis, text)
    _print_remapped(p, run)


def _is_remappable(p: Printer, axis: IterVar, value: PrimExpr) -> bool:
    if not p.sugar or axis.iter_type not in (IterVar.DATA_PAR, IterVar.COMM_REDUCE):
        return False
    loop = p.loops.get(value) if isinstance(value, Var) else None
    if loop is None or axis.dom is None or axis.var.dtype is not loop.loop_var.dtype:
        return False
    return expr_deep_equal(loop.min, axis.dom.min) and expr_deep_equal(loop.extent, axis.dom.extent)


def _print_remapped(p: Printer, run: list[tuple[IterVar, PrimExpr]]) -> None:
    if len(run) == 1:
        _axis(p, run[0][0], p(run[0][1]))
    elif run:
        kinds = "".join("S" if a.iter_type == IterVar.DATA_PAR else "R" for a, _ in run)
        values = ", ".join(p(v) for _, v in run)
        for axis, _ in run:
            p.names.define(axis.var)
        names = ", ".join([p.marked(a, p.var(a.var)) for a, _ in run])
        p.line(f'{names} = {p.t}.axis.remap("{kinds}", [{values}])')


def _axis(p: Printer, axis: IterVar, value: str | None) -> None:
    kind = {0: "spatial", 2: "reduce", 3: "scan", 4: "opaque"}[axis.iter_type]
    assert axis.dom is not None
    dom = p(axis.dom.extent)
    if not is_const_int(axis.dom.min, 0):
        dom = f"({p(axis.dom.min)}, {p(add(axis.dom.min, axis.dom.extent))})"
    dtype = axis.var.dtype
    args = [dom] if value is None else [dom, value]
    if dtype.bits != max(32, axis.dom.min.dtype.bits, axis.dom.extent.dtype.bits):
        args.append(f"dtype={quote(dtype)}")
    p.names.define(axis.var)
    p.line(f"{p.marked(axis, p.var(axis.var))} = {p.t}.axis.{kind}({', '.join(args)})")


# ----------------------------------------------------------------------------------- statements


def _loop(p: Printer, node: s.For, last: bool) -> None:
    """Print a loop, or a nest as `T.grid`."""
    nest = _grid(node) if p.sugar else [node]
    if len(nest) > 1:
        values = f"{p.t}.grid({p.items([lp.extent for lp in nest])})"
    else:
        values = _loop_call(p, node)
    p.names.open()
    for lp in nest:
        p.loops[lp.loop_var] = lp
        p.names.define(lp.loop_var)
    names = ", ".join([p.marked(lp, p.var(lp.loop_var)) for lp in nest])
    p.line(f"for {names} in {values}:", *nest)
    p.indented(nest[-1].body)
    for lp in nest:
        del p.loops[lp.loop_var]
    p.names.close()


def _grid(node: s.For) -> list[s.For]:
    nest: list[s.For] = []
    current: s.Stmt = node
    own: set[Var] = set()
    while isinstance(current, s.For) and _is_grid_loop(current):
        if own and any(v in own for v in collect_vars(current.extent)):
            break
        nest.append(current)
        own.add(current.loop_var)
        current = current.body
    return nest or [node]


def _loop_call(p: Printer, node: s.For) -> str:
    args = [p(node.extent)]
    if not is_const_int(node.min, 0):
        args = [p(node.min), p(add(node.min, node.extent))]
    if node.kind is ForKind.SERIAL and not node.annotations:
        return f"range({', '.join(args)})"
    if node.thread_binding is not None:
        args.append(f"thread={quote(node.thread_binding.thread_tag)}")
    if node.annotations:
        args.append(f"annotations={p.mapping(node.annotations)}")
    return f"{p.t}.{_LOOP_CALL.get(node.kind, 'serial')}({', '.join(args)})"


def _store(p: Printer, node: s.BufferStore, last: bool) -> None:
    """Print a store."""
    value = p(node.value)
    buffer = p.buffer(node.buffer)
    if node.predicate is not None:
        indices = f"[{p.items(node.indices)}]"
        predicate = p(node.predicate)
        p.line(f"{buffer}.vstore({indices}, {value}, predicate={predicate})", node)
        return
    p.line(f"{buffer}[{p.indices(node.indices)}] = {value}", node)


def _sequence(p: Printer, node: s.SeqStmt, last: bool) -> None:
    """Print statements in order."""
    for k, child in enumerate(node.seq):
        p.stmt(child, last and k == len(node.seq) - 1)


def _branch(p: Printer, node: s.IfThenElse, last: bool) -> None:
    """Print an if."""
    p.line(f"if {p(node.condition)}:", node)
    p.body(node.then_case)
    if node.else_case is not None:
        p.line("else:")
        p.body(node.else_case)


def _loop_while(p: Printer, node: s.While, last: bool) -> None:
    """Print a while loop."""
    p.line(f"while {p(node.condition)}:", node)
    p.body(node.body)


def _evaluate(p: Printer, node: s.Evaluate, last: bool) -> None:
    """Print an expression that is evaluated for its effect."""
    value = node.value
    if isinstance(value, e.Call):
        if isinstance(value.op, e.GlobalVar) or value.op.short_name != "ret":
            p.line(p(value), node)
        else:
            p.line(f"return {p(value.args[0])}", node)
    else:
        p.line(f"{p.t}.evaluate({p(value)})", node)


def _is_grid_loop(loop: s.For) -> bool:
    return loop.kind is ForKind.SERIAL and not loop.annotations and is_const_int(loop.min, 0)


# ------------------------------------------------------ statements that enclose those after them


def _print_scoped(
    p: Printer, node: _Scoped, last: bool, concise: str, call: str, name: str = ""
) -> None:
    """Print a statement that encloses others, without `with` if it is the last of its body."""
    named = f" as {name}" if name else ""
    p.line(concise if last else f"with {call}{named}:", node)
    if last:
        p.begin_body()
        p.stmt(node.body, True)
    else:
        p.indented(node.body)
    p.names.close()


def _let(p: Printer, node: s.LetStmt, last: bool) -> None:
    """Print a let."""
    value = p(node.value)
    kind = p.var_type(node.var)
    annotation = f", {kind}" if isinstance(node.var.type_annotation, PointerType) else ""
    call = f"{p.t}.LetStmt({value}{annotation})"
    p.names.open()
    name = p.defined(node.var)
    _print_scoped(p, node, last, f"{name}: {kind} = {value}", call, name)


def _assertion(p: Printer, node: s.AssertStmt, last: bool) -> None:
    """Print an assert."""
    condition, message = p(node.condition), p(node.message)
    call = f"{p.t}.Assert({condition}, {message})"
    p.names.open()
    _print_scoped(p, node, last, f"assert {condition}, {message}", call)


def _attr(p: Printer, node: s.AttrStmt, last: bool) -> None:
    """Print an attribute."""
    target, value = p.value(node.node), p(node.value)
    call = f"{p.t}.attr({target}, {quote(node.attr_key)}, {value})"
    p.names.open()
    _print_scoped(p, node, last, call, call)


def _allocate(p: Printer, node: s.Allocate, last: bool) -> None:
    """Print an allocation, together with the declaration of its buffer if possible."""
    body = node.body
    merges = last and p.sugar and isinstance(body, s.DeclBuffer)
    if merges and isinstance(body, s.DeclBuffer) and _declares_all(node, body.buffer):
        _print_declaration(p, body, last)
        return
    kind = node.buffer_var.type_annotation
    scope = kind.storage_scope if isinstance(kind, PointerType) else ""
    args = [f"[{p.items(node.extents)}]", quote(node.dtype), quote(scope or "global")]
    if not is_const_int(node.condition, 1):
        args.append(p(node.condition))
    _pointer(p, node, "allocate", args, last)


def _allocate_const(p: Printer, node: s.AllocateConst, last: bool) -> None:
    """Print constant memory with all of its elements."""
    extents = p.items(node.extents)
    args = [f"[{elements_text(node.data)}]", quote(node.dtype), f"[{extents}]"]
    _pointer(p, node, "allocate_const", args, last)


def _pointer(
    p: Printer, node: s.Allocate | s.AllocateConst, what: str, args: list[str], last: bool
) -> None:
    if node.annotations:
        args.append(f"annotations={p.mapping(node.annotations)}")
    call = f"{p.t}.{what}({', '.join(args)})"
    p.names.open()
    name = p.defined(node.buffer_var)
    _print_scoped(p, node, last, f"{name} = {call}", call, name)


def _decl_buffer(p: Printer, node: s.DeclBuffer, last: bool) -> None:
    """Print a view of a pointer."""
    p.var(node.buffer.data)
    _print_declaration(p, node, last)


def _print_declaration(p: Printer, node: s.DeclBuffer, last: bool) -> None:
    p.names.open()
    call = p.declaration(node.buffer, "decl_buffer")
    name = p.buffer(node.buffer)
    _print_scoped(p, node, last, f"{name} = {call}", call, name)


def _declares_all(node: s.Allocate, buffer: Buffer) -> bool:
    return (
        buffer.data is node.buffer_var
        and buffer.dtype is node.dtype
        and not node.annotations
        and is_const_int(node.condition, 1)
        and len(buffer.shape) == len(node.extents)
        and all(expr_deep_equal(a, b) for a, b in zip(buffer.shape, node.extents, strict=True))
    )


FORMS: Final[dict[type, Callable[[Printer, Any, bool], None]]] = {
    s.BufferStore: _store,
    s.For: _loop,
    s.While: _loop_while,
    s.IfThenElse: _branch,
    s.SeqStmt: _sequence,
    s.LetStmt: _let,
    s.AssertStmt: _assertion,
    s.Evaluate: _evaluate,
    s.Allocate: _allocate,
    s.AllocateConst: _allocate_const,
    s.DeclBuffer: _decl_buffer,
    s.AttrStmt: _attr,
    s.Block: lambda p, n, _: _block(p, n),
    s.BlockRealize: lambda p, n, _: _block(p, n.block, n),
}
