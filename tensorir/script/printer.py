"""Programs as script text that parses back to the same program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from tensorir.comparison.equal import expr_deep_equal
from tensorir.function import BaseFunc, IRModule, PrimFunc
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer, MatchBufferRegion
from tensorir.nodes.expr import IterVar, PointerType, PrimExpr, PrimType, TupleType, Type, Var
from tensorir.nodes.node import Node
from tensorir.nodes.ops import add, is_const_int
from tensorir.nodes.stmt import ForKind
from tensorir.quoting import identifier, is_name, quote
from tensorir.relax.expr import Binding, Constant
from tensorir.relax.function import Function
from tensorir.rewriting.visit import collect_vars
from tensorir.script import print_graph, print_program, print_scoped
from tensorir.script.constants import LEFT_OUT, metadata_lines
from tensorir.script.print_buffer import buffer_call, shape
from tensorir.script.print_expr import ExprPrinter
from tensorir.script.print_names import Names
from tensorir.script.print_options import PrintOptions

_LOOP_CALL: Final = {
    ForKind.PARALLEL: "parallel",
    ForKind.VECTORIZED: "vectorized",
    ForKind.UNROLLED: "unroll",
    ForKind.THREAD_BINDING: "thread_binding",
}


class Printer:
    """One printing of one program: names in scope, and the lines so far."""

    def __init__(self, options: PrintOptions, names: Names) -> None:
        self.options = options
        self.names = names
        self.sugar = options.syntax_sugar
        self.lines: list[str] = []
        self.depth = 0
        self.module_name = ""
        self._symbols: dict[str, str] = {}
        self.constants: list[Constant] = []
        """Arrays that are too long to be written out, in the order of their first use."""
        self.expr = ExprPrinter(self)
        self._t = options.tir_prefix
        self._texts = names.texts
        self._loops: dict[Var, s.For] = {}

    def print(self, node: Node) -> str:
        """Return a program, statement, expression, buffer or type as text."""
        if isinstance(node, IRModule):
            self._program(lambda: print_program.module(self, node), node)
        elif isinstance(node, BaseFunc):
            symbol = node.attrs.get("global_symbol")
            if not isinstance(symbol, str) or not is_name(symbol):
                symbol = "main"
            name = self.options.name or symbol
            self._program(lambda: self.function(node, name), node)
        elif isinstance(node, s.Stmt):
            self.begin_suite()
            self.stmt(node, True)
        elif isinstance(node, print_graph.PARTS):
            print_graph.part(self, node)
        elif isinstance(node, Buffer):
            self.declare("Buffer", node)
        elif isinstance(node, MatchBufferRegion):
            self.view(node)
        else:
            text = self.type(node) if isinstance(node, Type) else self.expr(node)
            if not self.options.verbose_expr:
                self.lines.clear()
            self.line(text)
        return "\n".join(line.rstrip() for line in self.lines)

    def _program(self, print_it: Callable[[], None], node: BaseFunc | IRModule) -> None:
        """Print a program with what has to stand in front of it."""
        print_it()
        functions = node.functions.values() if isinstance(node, IRModule) else [node]
        graphs = [func for func in functions if isinstance(func, Function)]
        ir = isinstance(node, IRModule) or any(map(print_graph.calls_by_name, graphs))
        front = self.options.header(ir=ir, relax=bool(graphs))
        if self.constants:
            if self.options.show_meta:
                front += metadata_lines(self.constants, self.options)
            else:
                self.lines += ["", LEFT_OUT]
        self.lines[:0] = front

    def constant_index(self, constant: Constant) -> int:
        """Return the position of an array among those of the metadata."""
        known = next((k for k, c in enumerate(self.constants) if c is constant), None)
        if known is None:
            known = len(self.constants)
            self.constants.append(constant)
        return known

    # --------------------------------------------------------------------------------------- naming

    def name_functions(self, names: Iterable[str]) -> None:
        """Give the functions of a module the names that their definitions have in the text."""
        options = self.options
        prefixes = {options.ir_prefix, options.tir_prefix, options.relax_prefix}
        plain = {name for name in names if is_name(name) and name not in prefixes}
        self._symbols = {name: name for name in plain}
        taken = {*plain, *prefixes}
        for name in sorted(set(names) - plain):
            base = identifier(name)
            base = text = base if base.isidentifier() else f"f_{base}"
            count = 1
            while text in taken or not is_name(text):
                text, count = f"{base}_{count}", count + 1
            taken.add(text)
            self._symbols[name] = text

    def symbol(self, name: str) -> str:
        """Return the name of a function in the text."""
        known = self._symbols.get(name)
        return identifier(name) if known is None else known

    def decorator(self, kind: str, func: BaseFunc, name: str, *more: str) -> None:
        """Print the decorator of a function, with options for what its definition cannot say."""
        chosen = [f"name={quote(name)}"] if self.symbol(name) != name else []
        chosen += [*["private=True"] * ("global_symbol" not in func.attrs), *more]
        self.line(f"@{kind}" + (f"({', '.join(chosen)})" if chosen else ""))

    def var(self, var: Var) -> str:
        """Return the name of a variable; one that is defined nowhere is defined here."""
        name = self._texts.get(var)
        return name if name is not None else self.free_var(var)

    def free_var(self, var: Var) -> str:
        """Define a variable that no statement defines."""
        self.names.note_free(var)
        self.names.define(var)
        name = self.var(var)
        self.line(f"{name} = {self.fresh_var(var)}")
        return name

    def fresh_var(self, var: Var) -> str:
        """Return the call that makes a variable."""
        size = "is_size_var=True" if type(var) is e.SizeVar else ""
        kind = self.var_type(var)
        return kind if kind.endswith(")") else f"{kind}({size})"

    def var_type(self, var: Var) -> str:
        """Return the annotation of a variable."""
        kind = var.type_annotation
        if isinstance(kind, PointerType) and isinstance(kind.element_type, PrimType):
            return self.type(kind)
        return f"{self._t}.{var.dtype}"

    def type(self, node: Type) -> str:
        """Return a type."""
        if isinstance(node, PrimType):
            return f"{self._t}.{node.dtype}"
        if isinstance(node, PointerType):
            assert isinstance(node.element_type, PrimType)
            scope = quote(node.storage_scope or "global")
            return f"{self._t}.handle({quote(node.element_type.dtype)}, {scope})"
        assert isinstance(node, TupleType)
        if not node.elements:
            return "None"
        return f"{self._t}.Tuple({', '.join(map(self.type, node.elements))})"

    def buffer(self, buffer: Buffer) -> str:
        """Return the name of a buffer; one that is declared nowhere is declared here."""
        name = self._texts.get(buffer)
        if name is not None:
            return name
        self.names.note_free(buffer)
        self.declare("Buffer", buffer)
        return self._texts[buffer]

    def declare(self, constructor: str, buffer: Buffer, source: str = "") -> None:
        """Print the declaration of a buffer, which names it."""
        call = self.declaration(buffer, constructor, source)
        self.line(f"{self.buffer(buffer)} = {call}")

    def declaration(self, buffer: Buffer, constructor: str, source: str = "") -> str:
        """Return the call that makes a buffer, and name the buffer."""
        return buffer_call(self, constructor, buffer, source)

    def view(self, node: MatchBufferRegion) -> None:
        """Print the declaration of a buffer that is a region of another."""
        self.declare("match_buffer", node.buffer, self.expr.region(node.source))

    # ---------------------------------------------------------------------------------------- lines

    def line(self, text: str, *nodes: Node) -> None:
        """Add a line; `nodes` are the statements whose first line it is."""
        self.lines.append(" " * (self.depth * self.options.indent_spaces) + text)

    def suite(self, stmt: s.Stmt) -> None:
        """Print the lines of a suite, which is a scope."""
        self.names.open()
        self.indented(stmt)
        self.names.close()

    def indented(self, stmt: s.Stmt) -> None:
        """Print the lines of a suite in the current scope."""
        self.depth += 1
        count = len(self.lines)
        self.begin_suite()
        self.stmt(stmt, True)
        if len(self.lines) == count:
            self.line("pass")
        self.depth -= 1

    def begin_suite(self) -> None:
        """Print the definitions that the scopes inside the current one share."""
        for thing in self.names.at_home():
            self.buffer(thing) if isinstance(thing, Buffer) else self.expr(thing)

    def stmt(self, node: s.Stmt, last: bool = False) -> None:
        """Print a statement; `last` says that it may enclose the rest of its suite."""
        _STATEMENTS.get(type(node), Printer.form)(self, node, last)

    def form(self, node: s.Stmt, last: bool) -> None:
        """Print a statement that the dialect does not have: its class, its fields, its bodies."""
        self.names.open()
        for f in node.roles:
            if f.rewritten == "define":
                self.names.define(getattr(node, f))
        fields = [(f, getattr(node, f)) for f in node.roles]
        bodies = [value for f, value in fields if f.is_body and value is not None]
        args = ", ".join(self.expr.value(value) for f, value in fields if not f.is_body)
        text = f"{self._t}.{type(node).__name__}({args})"
        self.line(f"with {text}:" if bodies else text, node)
        for body in bodies:
            self.suite(body)
        self.names.close()

    # ------------------------------------------------------------------------------------- programs

    def function(self, func: BaseFunc, name: str) -> None:
        """Print a function."""
        if isinstance(func, Function):
            print_graph.function(self, func, name)
        else:
            assert isinstance(func, PrimFunc)
            print_program.tensor_function(self, func, name)

    def binding(self, node: Binding, suite: print_graph.Suite) -> None:
        """Print a binding of a graph function."""
        suite.print(node)

    def part(self, parent: Node, node: Node) -> str:
        """Return an expression as a part of something that is no expression in the text."""
        del parent
        return self.expr(node)

    def buffer_type(self, buffer: Buffer) -> str:
        """Return the annotation of a parameter that is a buffer."""
        dims, dtype = shape(self, buffer.shape), quote(buffer.dtype)
        if not self.options.is_oldest:
            return f"{self._t}.Buffer({dims}, {dtype})"
        dims = self.expr(buffer.shape[0]) if len(buffer.shape) == 1 else dims
        return f"{self._t}.Buffer[{dims}, {dtype}]"

    # --------------------------------------------------------------------------------------- blocks

    def block(self, block: s.Block, realize: s.BlockRealize | None = None) -> None:
        """Print a block, with what its axes are bound to where it is realized."""
        bare = "" if realize is not None else ", no_realize=True"
        shown = (block,) if realize is None else (realize, block)
        self.line(f"with {self._t}.block({quote(block.name_hint)}{bare}):", *shown)
        self.names.open()
        self.depth += 1
        self._axes(block, realize)
        if realize is not None and not is_const_int(realize.predicate, 1):
            self.line(f"{self._t}.where({self.expr(realize.predicate)})")
        self.signature(block)
        for buffer in block.alloc_buffers:
            self.declare("alloc_buffer", buffer)
        for view in block.match_buffers:
            self.view(view)
        self.begin_suite()
        if block.init is not None:
            self.line(f"with {self._t}.init():")
            self.suite(block.init)
        self.stmt(block.body, True)
        self.depth -= 1
        self.names.close()

    def signature(self, block: s.Block) -> None:
        """Print what a block touches, and its annotations."""
        t, expr = self._t, self.expr
        self.line(f"{t}.reads({', '.join(expr.region(r) for r in block.reads)})")
        self.line(f"{t}.writes({', '.join(expr.region(r) for r in block.writes)})")
        if block.annotations:
            self.line(f"{t}.block_attr({expr.mapping(block.annotations)})")

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
        if loop is None or axis.dom is None or axis.var.dtype is not loop.loop_var.dtype:
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
            for axis, _ in run:
                self.names.define(axis.var)
            names = ", ".join([self.axis_name(a) for a, _ in run])
            self.line(f'{names} = {self._t}.axis.remap("{kinds}", [{values}])')

    def _axis(self, axis: IterVar, value: str | None) -> None:
        kind = {0: "spatial", 2: "reduce", 3: "scan", 4: "opaque"}[axis.iter_type]
        assert axis.dom is not None
        dom = self.expr(axis.dom.extent)
        if not is_const_int(axis.dom.min, 0):
            dom = f"({self.expr(axis.dom.min)}, {self.expr(add(axis.dom.min, axis.dom.extent))})"
        dtype = axis.var.dtype
        args = [dom] if value is None else [dom, value]
        if dtype.bits != max(32, axis.dom.min.dtype.bits, axis.dom.extent.dtype.bits):
            args.append(f"dtype={quote(dtype)}")
        self.names.define(axis.var)
        self.line(f"{self.axis_name(axis)} = {self._t}.axis.{kind}({', '.join(args)})")

    def axis_name(self, axis: IterVar) -> str:
        """Return the name of an axis of a block."""
        return self.var(axis.var)

    # ----------------------------------------------------------------------------------- statements

    def loop(self, node: s.For, last: bool) -> None:
        """Print a loop, or a nest as `T.grid`."""
        nest = self._grid(node) if self.sugar else [node]
        if len(nest) > 1:
            values = f"{self._t}.grid({self.expr.items([lp.extent for lp in nest])})"
        else:
            values = self._loop_call(node)
        self.names.open()
        for lp in nest:
            self._loops[lp.loop_var] = lp
            self.names.define(lp.loop_var)
        names = ", ".join([self.loop_name(lp) for lp in nest])
        self.line(f"for {names} in {values}:", *nest)
        self.indented(nest[-1].body)
        for lp in nest:
            del self._loops[lp.loop_var]
        self.names.close()

    def loop_name(self, loop: s.For) -> str:
        """Return the name of a loop's variable."""
        return self.var(loop.loop_var)

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
            plain = not self.options.is_oldest
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


def _is_grid_loop(loop: s.For) -> bool:
    return loop.kind is ForKind.SERIAL and not loop.annotations and is_const_int(loop.min, 0)


_STATEMENTS: Final[dict[type, Callable[[Printer, Any, bool], None]]] = {
    s.BufferStore: Printer.store,
    s.For: Printer.loop,
    s.While: Printer.loop_while,
    s.IfThenElse: Printer.branch,
    s.SeqStmt: Printer.sequence,
    s.LetStmt: print_scoped.let,
    s.AssertStmt: print_scoped.assertion,
    s.Evaluate: Printer.evaluate,
    s.Allocate: print_scoped.allocate,
    s.AllocateConst: print_scoped.allocate_const,
    s.DeclBuffer: print_scoped.decl_buffer,
    s.AttrStmt: print_scoped.attr,
    s.Block: lambda p, n, _: p.block(n),
    s.BlockRealize: lambda p, n, _: p.block(n.block, n),
}
