"""Programs as script text that parses back to the same program."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tensorir import expr as e
from tensorir import stmt as s
from tensorir.buffer import Buffer
from tensorir.equal import expr_deep_equal
from tensorir.expr import IntImm, IterVar, PointerType, PrimExpr, PrimType, TupleType, Var
from tensorir.function import IRModule, PrimFunc
from tensorir.node import Node
from tensorir.ops import add, is_const_int
from tensorir.script.print_expr import ExprPrinter, quote
from tensorir.stmt import ForKind
from tensorir.visit import collect_vars, uses_var, walk

_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_]")
_RESERVED: Final = frozenset({*keyword.kwlist, "I", "T", "R", "cls", "range", "metadata"})
_LOOP_CALL: Final = {
    ForKind.PARALLEL: "parallel",
    ForKind.VECTORIZED: "vectorized",
    ForKind.UNROLLED: "unroll",
    ForKind.THREAD_BINDING: "thread_binding",
}


@dataclass(slots=True)
class Options:
    """How to print; see `print_script`."""

    name: str | None = None
    ir_prefix: str = "I"
    tir_prefix: str = "T"
    buffer_dtype: str = "float32"
    int_dtype: str = "int32"
    float_dtype: str = "void"
    indent_spaces: int = 4
    syntax_sugar: bool = True
    style: str = "0.19"


class Printer:
    """One printing of one program: names in scope, and the lines so far."""

    def __init__(self, options: Options, marks: frozenset[int], notes: Mapping[int, str]) -> None:
        self.options = options
        self.sugar = options.syntax_sugar
        self.lines: list[str] = []
        self.depth = 0
        self.module_name = ""
        self.expr = ExprPrinter(self)
        self._t = options.tir_prefix
        self._marks = marks
        self._notes = notes
        self._names: dict[Any, str] = {}
        self._taken: dict[str, int] = dict.fromkeys(_RESERVED, 0)
        self._loops: dict[Var, s.For] = {}

    # --------------------------------------------------------------------------------------- naming

    def define(self, thing: Var | Buffer, hint: str | None = None) -> str:
        """Give a new variable or buffer a name that nothing in scope has."""
        base = _FOREIGN.sub("_", thing.name if hint is None else hint)
        if not base:
            base = "v" if isinstance(thing, Var) else "buffer"
        if base[0].isdigit():
            base = f"_{base}"
        name = base
        taken = self._taken
        if name in taken:
            count = taken[base] + 1
            while f"{base}_{count}" in taken:
                count += 1
            name = f"{base}_{count}"
        taken[name] = 0
        self._names[thing] = name
        return name

    def release(self, things: Iterable[Var | Buffer]) -> None:
        """Free the names of what goes out of scope."""
        for thing in things:
            name = self._names.pop(thing, None)
            if name is not None:
                self._taken.pop(name, None)

    def var(self, var: Var) -> str:
        """Return the name of a variable; one that is defined nowhere is defined here."""
        name = self._names.get(var)
        return name if name is not None else self.free_var(var)

    def free_var(self, var: Var) -> str:
        """Define a variable that no statement defines."""
        name = self.define(var)
        size = "is_size_var=True" if type(var) is e.SizeVar else ""
        self.line(f"{name} = {self._type(var, size)}")
        return name

    def _type(self, var: Var, argument: str = "") -> str:
        kind = var.type_annotation
        if isinstance(kind, PointerType) and isinstance(kind.element_type, PrimType):
            scope = quote(kind.storage_scope or "global")
            return f"{self._t}.handle({quote(kind.element_type.dtype)}, {scope})"
        return f"{self._t}.{var.dtype}({argument})"

    def buffer(self, buffer: Buffer) -> str:
        """Return the name of a buffer; one that is declared nowhere is declared here."""
        name = self._names.get(buffer)
        if name is None:
            self.declare("Buffer", buffer, data=buffer.data in self._names)
            name = self._names[buffer]
        return name

    # ---------------------------------------------------------------------------------------- lines

    def line(self, text: str, *nodes: Node) -> None:
        """Add a line; `nodes` are what it shows, which may be marked or annotated."""
        indent = " " * (self.depth * self.options.indent_spaces)
        note = ""
        for node in nodes:
            known = self._notes.get(id(node))
            if known is not None:
                if isinstance(node, (s.For, s.Block, s.BlockRealize, PrimFunc, s.IfThenElse)):
                    self.lines.append(f"{indent}# {known}")
                else:
                    note += f"  # {known}"
        self.lines.append(f"{indent}{text}{note}")
        if self._marks and any(id(node) in self._marks for node in nodes):
            self.lines.append(indent + "^" * len(text))

    def suite(self, *stmts: s.Stmt, before: Callable[[], None] | None = None) -> None:
        """Print the lines of a suite."""
        self.depth += 1
        count = len(self.lines)
        if before is not None:
            before()
        for stmt in stmts:
            self.stmt(stmt, True)
        if len(self.lines) == count:
            self.line("pass")
        self.depth -= 1

    def stmt(self, node: s.Stmt, last: bool = False) -> None:
        """Print a statement; `last` says that it may enclose the rest of its suite."""
        _STATEMENTS[type(node)](self, node, last)

    # ------------------------------------------------------------------------------------- programs

    def module(self, mod: IRModule) -> None:
        """Print a module."""
        options = self.options
        self.line(f"# from tvm.script import {_import('ir', options.ir_prefix)}")
        self.line(f"# from tvm.script import {_import('tir', options.tir_prefix)}")
        self.line("")
        self.module_name = options.name or "Module"
        self._taken[self.module_name] = 0
        old = options.style == "0.10"
        self.line("@tvm.script.ir_module" if old else f"@{options.ir_prefix}.ir_module")
        self.line(f"class {self.module_name}:")
        self.depth += 1
        if mod.attrs:
            self.line(f"{options.ir_prefix}.module_attrs({self.expr.mapping(mod.attrs)})")
        names = sorted(mod.functions, key=lambda n: (n == "main", n))
        for k, name in enumerate(names):
            if k:
                self.lines.append("")
            self.function(mod.functions[name], name)
        if not names:
            self.line("pass")
        self.depth -= 1

    def function(self, func: PrimFunc, name: str) -> None:
        """Print a function."""
        private = "global_symbol" not in func.attrs
        self.line(f"@{self._t}.prim_func" + ("(private=True)" if private else ""))
        inline = {p for p in func.params if self.sugar and self._prints_inline(func, p)}
        params = [self._parameter(func, p, p in inline) for p in func.params]
        result = self._result(func)
        self.line(f"def {name}({', '.join(params)}){result}:", func)
        self.depth += 1
        self._func_attrs(func, name)
        symbols: list[Var] = []
        for param in func.params:
            buffer = func.buffer_map.get(param)
            if buffer is not None and param not in inline:
                symbols.extend(self._symbols(buffer))
                self.declare("match_buffer", buffer, source=self._names[param], data=False)
        self._body(func.body)
        self.depth -= 1
        defined: list[Var | Buffer] = [*func.params, *func.buffer_map.values(), *symbols]
        self.release(defined)
        self.release(b.data for b in func.buffer_map.values())

    def _func_attrs(self, func: PrimFunc, name: str) -> None:
        old = self.options.style == "0.10"
        attrs = dict(func.attrs)
        if not old and attrs.get("global_symbol") == name:
            del attrs["global_symbol"]
        if old:
            self.line("# function attr dict")
        if attrs:
            self.line(f"{self._t}.func_attr({self.expr.mapping(attrs)})")
        if old:
            self.line("# body")

    def _result(self, func: PrimFunc) -> str:
        if isinstance(func.ret_type, TupleType):
            return " -> None" if self.options.style == "0.10" else ""
        assert isinstance(func.ret_type, PrimType)
        return f" -> {self._t}.{func.ret_type.dtype}"

    def _prints_inline(self, func: PrimFunc, param: Var) -> bool:
        buffer = func.buffer_map.get(param)
        if buffer is None or not _is_simple(buffer):
            return False
        shared = sum(1 for b in func.buffer_map.values() if b.data is buffer.data)
        return shared == 1 and not uses_var(func.body, param)

    def _parameter(self, func: PrimFunc, param: Var, inline: bool) -> str:
        if not inline:
            name = self.define(param)
            kind = self._type(param)
            return f"{name}: {kind.removesuffix('()')}"
        buffer = func.buffer_map[param]
        name = self.define(buffer)
        self._names[buffer.data] = f"{name}.data"
        dims = self._shape(buffer.shape)
        if self.options.style == "0.10":
            dims = self.expr(buffer.shape[0]) if len(buffer.shape) == 1 else dims
            return f"{name}: {self._t}.Buffer[{dims}, {quote(buffer.dtype)}]"
        return f"{name}: {self._t}.Buffer({dims}, {quote(buffer.dtype)})"

    def _symbols(self, buffer: Buffer) -> list[Var]:
        """Define the variables that a buffer's shape introduces."""
        fresh = [
            v for v in dict.fromkeys(buffer.shape) if isinstance(v, Var) and v not in self._names
        ]
        names = [self.define(v) for v in fresh]
        if fresh:
            types = [
                self._type(v, "is_size_var=True" if type(v) is e.SizeVar else "") for v in fresh
            ]
            self.line(f"{', '.join(names)} = {', '.join(types)}")
        return fresh

    def _body(self, body: s.Stmt) -> None:
        """Print a function's body; a root block without content of its own is left out."""
        if not (self.sugar and isinstance(body, s.BlockRealize) and _is_plain_root(body)):
            self.stmt(body, True)
            return
        block = body.block
        self.line('# with T.block("root"):'.replace("T.", f"{self._t}."), body, block)
        for buffer in block.alloc_buffers:
            self.declare("alloc_buffer", buffer)
        self.stmt(block.body, True)
        self.release([*block.alloc_buffers, *(b.data for b in block.alloc_buffers)])

    # -------------------------------------------------------------------------------------- buffers

    def _shape(self, dims: Sequence[PrimExpr]) -> str:
        text = self.expr.items(dims)
        return f"({text},)" if len(dims) == 1 else f"({text})"

    def declare(
        self, constructor: str, buffer: Buffer, source: str = "", data: bool = False
    ) -> None:
        """Print the declaration of a buffer and name it."""
        self._symbols(buffer) if constructor == "match_buffer" else None
        name = self.define(buffer)
        args = [source] if source else []
        old = self.options.style == "0.10" and constructor == "alloc_buffer"
        args.append(f"[{self.expr.items(buffer.shape)}]" if old else self._shape(buffer.shape))
        if old:
            args.append(f"dtype={quote(buffer.dtype)}")
        elif buffer.dtype != self.options.buffer_dtype:
            args.append(quote(buffer.dtype))
        if data:
            args.append(f"data={self._names.get(buffer.data) or self.var(buffer.data)}")
        else:
            self._names[buffer.data] = f"{name}.data"
        if buffer.strides:
            args.append(f"strides={self._strides(buffer, name)}")
        if not is_const_int(buffer.elem_offset, 0):
            if isinstance(buffer.elem_offset, Var) and buffer.elem_offset not in self._names:
                self._names[buffer.elem_offset] = f"{name}.elem_offset"
                args.append(f"offset_factor={buffer.offset_factor}")
            else:
                args.append(f"elem_offset={self.expr(buffer.elem_offset)}")
        if buffer.scope() != "global" and not data:
            args.append(f"scope={quote(buffer.scope())}")
        if buffer.data_alignment != 64:
            args.append(f"align={buffer.data_alignment}")
        fresh_offset = isinstance(buffer.elem_offset, Var)
        if buffer.offset_factor != 1 and not fresh_offset:
            args.append(f"offset_factor={buffer.offset_factor}")
        if buffer.buffer_type:
            args.append(f"buffer_type={quote(buffer.buffer_type)}")
        if buffer.axis_separators:
            args.append(f"axis_separators={list(buffer.axis_separators)}")
        self.line(f"{name} = {self._t}.{constructor}({', '.join(args)})")

    def _strides(self, buffer: Buffer, name: str) -> str:
        parts = []
        for k, stride in enumerate(buffer.strides):
            if isinstance(stride, Var) and stride not in self._names:
                self._names[stride] = f"{name}.strides[{k}]"
                parts.append(quote(_FOREIGN.sub("_", stride.name)))
            else:
                parts.append(self.expr(stride))
        return f"({', '.join(parts)},)" if len(parts) == 1 else f"({', '.join(parts)})"

    # --------------------------------------------------------------------------------------- blocks

    def block_realize(self, node: s.BlockRealize, last: bool) -> None:
        """Print a block and what its axes are bound to."""
        self._block(node.block, node)

    def block(self, node: s.Block, last: bool) -> None:
        """Print a block without bindings."""
        self._block(node, None)

    def _block(self, block: s.Block, realize: s.BlockRealize | None) -> None:
        bare = "" if realize is not None else ", no_realize=True"
        shown = (block,) if realize is None else (realize, block)
        self.line(f"with {self._t}.block({quote(block.name_hint)}{bare}):", *shown)
        self.depth += 1
        self._axes(block, realize)
        t, expr = self._t, self.expr
        if realize is not None and not is_const_int(realize.predicate, 1):
            self.line(f"{t}.where({expr(realize.predicate)})")
        self.line(f"{t}.reads({', '.join(expr.region(r) for r in block.reads)})")
        self.line(f"{t}.writes({', '.join(expr.region(r) for r in block.writes)})")
        if block.annotations:
            self.line(f"{t}.block_attr({expr.mapping(block.annotations)})")
        for buffer in block.alloc_buffers:
            self.declare("alloc_buffer", buffer)
        for view in block.match_buffers:
            self.declare("match_buffer", view.buffer, source=expr.region(view.source))
        if block.init is not None:
            self.line(f"with {t}.init():")
            self.suite(block.init)
        self.stmt(block.body, True)
        self.depth -= 1
        own = [*block.alloc_buffers, *(v.buffer for v in block.match_buffers)]
        self.release([a.var for a in block.iter_vars])
        self.release([*own, *(b.data for b in own)])

    def _axes(self, block: s.Block, realize: s.BlockRealize | None) -> None:
        values: Sequence[PrimExpr | None] = (
            realize.iter_values if realize is not None else [None] * len(block.iter_vars)
        )
        run: list[tuple[IterVar, PrimExpr]] = []
        bound = [None if v is None else self.expr(v) for v in values]
        for axis, value, text in zip(block.iter_vars, values, bound, strict=True):
            if value is not None and self._is_remappable(axis, value):
                run.append((axis, value))
                continue
            self._remapped(run)
            run = []
            self._axis(axis, text)
        self._remapped(run)

    def _is_remappable(self, axis: IterVar, value: PrimExpr) -> bool:
        if not self.sugar or axis.iter_type not in (IterVar.DATA_PAR, IterVar.COMM_REDUCE):
            return False
        loop = self._loops.get(value) if isinstance(value, Var) else None
        if loop is None or axis.dom is None:
            return False
        return expr_deep_equal(loop.min, axis.dom.min) and expr_deep_equal(
            loop.extent, axis.dom.extent
        )

    def _remapped(self, run: list[tuple[IterVar, PrimExpr]]) -> None:
        if len(run) == 1:
            self._axis(run[0][0], self.expr(run[0][1]))
        elif run:
            kinds = "".join("S" if a.iter_type == IterVar.DATA_PAR else "R" for a, _ in run)
            values = ", ".join(self.expr(v) for _, v in run)
            names = ", ".join([self.define(a.var) for a, _ in run])
            self.line(f'{names} = {self._t}.axis.remap("{kinds}", [{values}])')

    def _axis(self, axis: IterVar, value: str | None) -> None:
        kind = {0: "spatial", 2: "reduce", 3: "scan", 4: "opaque"}[axis.iter_type]
        assert axis.dom is not None
        dom = self.expr(axis.dom.extent)
        if not is_const_int(axis.dom.min, 0):
            dom = f"({self.expr(axis.dom.min)}, {self.expr(add(axis.dom.min, axis.dom.extent))})"
        dtype = axis.var.dtype
        args = [dom] if value is None else [dom, value]
        if dtype != "int32" and axis.dom.extent.dtype is not dtype:
            args.append(f"dtype={quote(dtype)}")
        name = self.define(axis.var)
        self.line(f"{name} = {self._t}.axis.{kind}({', '.join(args)})")

    # ----------------------------------------------------------------------------------- statements

    def loop(self, node: s.For, last: bool) -> None:
        """Print a loop, or a nest as `T.grid`."""
        nest = self._grid(node) if self.sugar else [node]
        if len(nest) > 1:
            extents = self.expr.items([lp.extent for lp in nest])
            names = [self._enter(lp) for lp in nest]
            self.line(f"for {', '.join(names)} in {self._t}.grid({extents}):", *nest)
        else:
            call = self._loop_call(node)
            self.line(f"for {self._enter(node)} in {call}:", node)
        self.suite(nest[-1].body)
        for lp in nest:
            del self._loops[lp.loop_var]
        self.release(lp.loop_var for lp in nest)

    def _enter(self, loop: s.For) -> str:
        self._loops[loop.loop_var] = loop
        return self.define(loop.loop_var)

    def _grid(self, node: s.For) -> list[s.For]:
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

    def _loop_call(self, node: s.For) -> str:
        args = [self.expr(node.extent)]
        if not is_const_int(node.min, 0):
            args = [self.expr(node.min), self.expr(add(node.min, node.extent))]
        if node.kind is ForKind.SERIAL and not node.annotations:
            plain = self.options.style != "0.10"
            return f"{'range' if plain else f'{self._t}.serial'}({', '.join(args)})"
        if node.thread_binding is not None:
            args.append(f"thread={quote(node.thread_binding.thread_tag)}")
        if node.annotations:
            args.append(f"annotations={self.expr.mapping(node.annotations)}")
        return f"{self._t}.{_LOOP_CALL.get(node.kind, 'serial')}({', '.join(args)})"

    def store(self, node: s.BufferStore, last: bool) -> None:
        """Print a store."""
        value = self.expr(node.value)
        buffer = self.buffer(node.buffer)
        if node.predicate is not None:
            indices = f"[{self.expr.items(node.indices)}]"
            predicate = self.expr(node.predicate)
            self.line(f"{buffer}.vstore({indices}, {value}, predicate={predicate})", node)
            return
        self.line(f"{buffer}[{self.expr.indices(node.indices)}] = {value}", node)

    def sequence(self, node: s.SeqStmt, last: bool) -> None:
        """Print statements in order."""
        for k, child in enumerate(node.seq):
            self.stmt(child, last and k == len(node.seq) - 1)

    def branch(self, node: s.IfThenElse, last: bool) -> None:
        """Print an if."""
        self.line(f"if {self.expr(node.condition)}:", node)
        self.suite(node.then_case)
        if node.else_case is not None:
            self.line("else:")
            self.suite(node.else_case)

    def loop_while(self, node: s.While, last: bool) -> None:
        """Print a while loop."""
        self.line(f"while {self.expr(node.condition)}:", node)
        self.suite(node.body)

    def evaluate(self, node: s.Evaluate, last: bool) -> None:
        """Print an expression that is evaluated for its effect."""
        value = node.value
        if isinstance(value, e.Call):
            if isinstance(value.op, e.GlobalVar) or value.op.short_name != "ret":
                self.line(self.expr(value), node)
            else:
                self.line(f"return {self.expr(value.args[0])}", node)
        else:
            self.line(f"{self._t}.evaluate({self.expr(value)})", node)

    def _scoped(
        self,
        node: s.Stmt,
        last: bool,
        concise: Callable[[str], str],
        explicit: Callable[[str], str],
        defined: Var | None,
        body: s.Stmt,
    ) -> None:
        """Print a statement that encloses others, without `with` where it ends its suite."""
        if last:
            head = concise("\0")
            name = "" if defined is None else self.define(defined)
            self.line(head.replace("\0", name), node)
            self.stmt(body, True)
        else:
            head = explicit("\0")
            name = "" if defined is None else self.define(defined)
            self.line(head.replace("\0", name), node)
            self.suite(body)
        if defined is not None:
            self.release([defined])

    def let(self, node: s.LetStmt, last: bool) -> None:
        """Print a let."""
        value = self.expr(node.value)
        kind = self._type(node.var).removesuffix("()")
        pointer = isinstance(node.var.type_annotation, PointerType)
        annotation = f", {kind}" if pointer else ""
        self._scoped(
            node,
            last,
            lambda name: f"{name}: {kind} = {value}",
            lambda name: f"with {self._t}.LetStmt({value}{annotation}) as {name}:",
            node.var,
            node.body,
        )

    def assertion(self, node: s.AssertStmt, last: bool) -> None:
        """Print an assert."""
        condition, message = self.expr(node.condition), self.expr(node.message)
        self._scoped(
            node,
            last,
            lambda _: f"assert {condition}, {message}",
            lambda _: f"with {self._t}.Assert({condition}, {message}):",
            None,
            node.body,
        )

    def attr(self, node: s.AttrStmt, last: bool) -> None:
        """Print an attribute."""
        target = self.expr.value(node.node)
        call = f"{self._t}.attr({target}, {quote(node.attr_key)}, {self.expr(node.value)})"
        self._scoped(node, last, lambda _: call, lambda _: f"with {call}:", None, node.body)

    def allocate(self, node: s.Allocate, last: bool) -> None:
        """Print an allocation, with the buffer declared on it where there is one."""
        body = node.body
        merges = last and self.sugar and isinstance(body, s.DeclBuffer)
        if merges and isinstance(body, s.DeclBuffer) and _declares_all(node, body.buffer):
            self.declare("decl_buffer", body.buffer)
            self.stmt(body.body, True)
            self.release([body.buffer, node.buffer_var])
            return
        kind = node.buffer_var.type_annotation
        scope = kind.storage_scope if isinstance(kind, PointerType) else ""
        args = [f"[{self.expr.items(node.extents)}]", quote(node.dtype), quote(scope or "global")]
        if not is_const_int(node.condition, 1):
            args.append(self.expr(node.condition))
        if node.annotations:
            args.append(f"annotations={self.expr.mapping(node.annotations)}")
        self._pointer(node, f"{self._t}.allocate({', '.join(args)})", last)

    def allocate_const(self, node: s.AllocateConst, last: bool) -> None:
        """Print constant memory, every element of it."""
        values = ", ".join(str(v) for v in node.data.ravel().tolist())
        extents = self.expr.items(node.extents)
        call = f"{self._t}.allocate_const([{values}], {quote(node.dtype)}, [{extents}])"
        self._pointer(node, call, last)

    def _pointer(self, node: s.Allocate | s.AllocateConst, call: str, last: bool) -> None:
        self._scoped(
            node,
            last,
            lambda name: f"{name} = {call}",
            lambda name: f"with {call} as {name}:",
            node.buffer_var,
            node.body,
        )

    def decl_buffer(self, node: s.DeclBuffer, last: bool) -> None:
        """Print a view of a pointer."""
        self.declare("decl_buffer", node.buffer, data=True)
        if not last:
            self.lines[-1] = _as_with(self.lines[-1], self.options.indent_spaces * self.depth)
            self.suite(node.body)
        else:
            self.stmt(node.body, True)
        self.release([node.buffer])


def _as_with(line: str, indent: int) -> str:
    name, call = line.strip().split(" = ", 1)
    return f"{' ' * indent}with {call} as {name}:"


def _import(module: str, prefix: str) -> str:
    return f"{module} as {prefix}"


def _is_simple(buffer: Buffer) -> bool:
    return (
        not buffer.strides
        and all(isinstance(n, IntImm) for n in buffer.shape)
        and is_const_int(buffer.elem_offset, 0)
        and buffer.scope() == "global"
        and buffer.data_alignment == 64
        and buffer.offset_factor == 1
        and not buffer.buffer_type
        and not buffer.axis_separators
    )


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


def _is_grid_loop(loop: s.For) -> bool:
    return loop.kind is ForKind.SERIAL and not loop.annotations and is_const_int(loop.min, 0)


def _declares_all(node: s.Allocate, buffer: Buffer) -> bool:
    return (
        buffer.data is node.buffer_var
        and buffer.dtype is node.dtype
        and not node.annotations
        and is_const_int(node.condition, 1)
        and len(buffer.shape) == len(node.extents)
        and all(expr_deep_equal(a, b) for a, b in zip(buffer.shape, node.extents, strict=True))
    )


_STATEMENTS: Final[dict[type, Callable[[Printer, Any, bool], None]]] = {
    s.BufferStore: Printer.store,
    s.For: Printer.loop,
    s.While: Printer.loop_while,
    s.IfThenElse: Printer.branch,
    s.SeqStmt: Printer.sequence,
    s.LetStmt: Printer.let,
    s.AssertStmt: Printer.assertion,
    s.Evaluate: Printer.evaluate,
    s.Allocate: Printer.allocate,
    s.AllocateConst: Printer.allocate_const,
    s.DeclBuffer: Printer.decl_buffer,
    s.AttrStmt: Printer.attr,
    s.Block: Printer.block,
    s.BlockRealize: Printer.block_realize,
}


def print_script(
    node: Node,
    *,
    name: str | None = None,
    ir_prefix: str = "I",
    tir_prefix: str = "T",
    buffer_dtype: str = "float32",
    int_dtype: str = "int32",
    float_dtype: str = "void",
    indent_spaces: int = 4,
    syntax_sugar: bool = True,
    style: str = "0.19",
    obj_to_underline: Sequence[Node] = (),
    obj_to_annotate: Mapping[Node, str] | None = None,
) -> str:
    """Return a program, statement or expression as script text.

    `style="0.10"` prints the older spelling of buffers. `obj_to_underline` and `obj_to_annotate`
    mark the lines of nodes, found by identity, with carets and comments.
    """
    options = Options(
        name, ir_prefix, tir_prefix, buffer_dtype, int_dtype, float_dtype, indent_spaces,
        syntax_sugar, style,
    )  # fmt: skip
    marks = frozenset(id(n) for n in obj_to_underline)
    notes = {id(n): text for n, text in (obj_to_annotate or {}).items()}
    printer = Printer(options, marks, notes)
    if isinstance(node, IRModule):
        printer.module(node)
    elif isinstance(node, PrimFunc):
        printer.line(f"# from tvm.script import {_import('tir', tir_prefix)}")
        printer.line("")
        symbol = node.attrs.get("global_symbol")
        printer.function(node, name or (symbol if isinstance(symbol, str) else "main"))
    elif isinstance(node, s.Stmt):
        printer.stmt(node, True)
    elif isinstance(node, Buffer):
        printer.declare("Buffer", node)
    elif isinstance(node, (PrimType, PointerType, TupleType)):
        return _type_text(node, tir_prefix)
    else:
        return printer.expr(node)
    return "\n".join(line.rstrip() for line in printer.lines)


def _type_text(node: e.Type, prefix: str) -> str:
    if isinstance(node, PrimType):
        return f"{prefix}.{node.dtype}"
    if isinstance(node, PointerType):
        assert isinstance(node.element_type, PrimType)
        return f'{prefix}.handle("{node.element_type.dtype}", "{node.storage_scope or "global"}")'
    return "None"
