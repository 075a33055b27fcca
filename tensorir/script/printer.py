"""The printer of programs: its options, names in scope, printed lines, and dispatch on nodes.

`print_expr`, `print_stmt` and `print_graph` have a function for each class of nodes, and
`print_program` adds them to the tables `EXPRESSIONS` and `STATEMENTS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, TypeAlias

from tensorir.dialect import Dialect, checked_dialect
from tensorir.errors import IRValueError
from tensorir.function import BaseFunc
from tensorir.indices.index_map import IndexMap
from tensorir.nodes import expr as e
from tensorir.nodes import ops
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer, BufferRegion, Range, wide_index
from tensorir.nodes.dtype import INT64, DataType
from tensorir.nodes.expr import IntImm, PointerType, PrimExpr, PrimType, TupleType, Type, Var
from tensorir.nodes.node import BUILT_BY, Node
from tensorir.nodes.ops import is_const_int
from tensorir.quoting import identifier, is_name, quote
from tensorir.relax.expr import Constant
from tensorir.rewriting.visit import collect_vars
from tensorir.script.print_names import Names

Text: TypeAlias = tuple[str, int]
"""The text of an expression and the precedence of its outermost operator."""

ATOM: Final = 20
"""The precedence of an expression that never needs parentheses."""


@dataclass(slots=True)
class PrintOptions:
    """The options of `print_script`, apart from underlines and comments."""

    name: str | None = None
    dialect: Dialect = "tensorir"
    ir_prefix: str = "I"
    tir_prefix: str = "T"
    relax_prefix: str = "R"
    buffer_dtype: str = "float32"
    int_dtype: str = "int32"
    float_dtype: str = "void"
    indent_spaces: int = 4
    syntax_sugar: bool = True
    verbose_expr: bool = False
    show_object_address: bool = False
    show_meta: bool = False

    def __post_init__(self) -> None:
        checked_dialect(self.dialect)
        for field in fields(self):
            value = getattr(self, field.name)
            named = field.name in ("ir_prefix", "tir_prefix", "relax_prefix", "name")
            if named and value is not None and not is_name(value):
                raise IRValueError(f"script: {field.name} must be an identifier, got {value!r}")


class Printer:
    """One printing of one program; called with an expression, it returns its text."""

    def __init__(self, options: PrintOptions, names: Names) -> None:
        self.options = options
        self.names = names
        self.sugar = options.syntax_sugar
        self.t = options.tir_prefix
        self.r = options.relax_prefix
        self.int_dtype = options.int_dtype
        """The dtype of integers that are printed without one."""
        self.quotes_sizes = False
        """True if symbolic sizes are printed in quotes, as in signatures."""
        self.lines: list[str] = []
        self.depth = 0
        self.module_name = ""
        self.constants: list[Constant] = []
        """Arrays that are too long for a literal, in the order of their first use."""
        self.loops: dict[Var, s.For] = {}
        """The loops around the statement that is being printed."""
        self._symbols: dict[str, str] = {}
        self._texts = names.texts

    def marked(self, node: Node, text: str) -> str:
        """Return the text of a node; `MarkingPrinter` marks it."""
        del node
        return text

    def inside(self, node: Node, printed: Callable[..., Any], *args: Any) -> Any:
        """Return `printed(*args)`, which prints parts of `node`; for `MarkingPrinter`."""
        del node
        return printed(*args)

    # ---------------------------------------------------------------------------------------- lines

    def line(self, text: str, *nodes: Node) -> None:
        """Add a line; `nodes` are the statements whose first line it is."""
        self.lines.append(" " * (self.depth * self.options.indent_spaces) + text)

    def body(self, stmt: s.Stmt) -> None:
        """Print the body of a statement in a new scope."""
        self.names.open()
        self.indented(stmt)
        self.names.close()

    def indented(self, stmt: s.Stmt) -> None:
        """Print the body of a statement in the current scope."""
        self.depth += 1
        count = len(self.lines)
        self.begin_body()
        self.stmt(stmt, True)
        if len(self.lines) == count:
            self.line("pass")
        self.depth -= 1

    def begin_body(self) -> None:
        """Print the definitions of free variables that belong to the current scope."""
        for thing in self.names.pending_definitions():
            self.buffer(thing) if isinstance(thing, Buffer) else self(thing)

    def stmt(self, node: s.Stmt, last: bool = False) -> None:
        """Print a statement; `last` is True if it may enclose the rest of its body."""
        STATEMENTS.get(type(node), _default_statement)(self, node, last)

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
        """Print the decorator of a function, with options for what `def` cannot express."""
        chosen = [f"name={quote(name)}"] if self.symbol(name) != name else []
        chosen += [*["private=True"] * ("global_symbol" not in func.attrs), *more]
        self.line(f"@{kind}" + (f"({', '.join(chosen)})" if chosen else ""))

    def var(self, var: Var) -> str:
        """Return the name of a variable; without a definition, it is defined here."""
        name = self._texts.get(var)
        if name is None:
            self.names.note_free(var)
            self.names.define(var)
            name = self.var(var)
            self.line(f"{name} = {self.fresh_var(var)}")
        return name

    def defined(self, var: Var) -> str:
        """Define a variable, and return its name."""
        self.names.define(var)
        return self.var(var)

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
        return f"{self.t}.{var.dtype}"

    def type(self, node: Type) -> str:
        """Return a type."""
        if isinstance(node, PrimType):
            return f"{self.t}.{node.dtype}"
        if isinstance(node, PointerType):
            assert isinstance(node.element_type, PrimType)
            scope = quote(node.storage_scope or "global")
            return f"{self.t}.handle({quote(node.element_type.dtype)}, {scope})"
        assert isinstance(node, TupleType)
        if not node.elements:
            return "None"
        return f"{self.t}.Tuple({', '.join(map(self.type, node.elements))})"

    # -------------------------------------------------------------------------------------- buffers

    def buffer(self, buffer: Buffer) -> str:
        """Return the name of a buffer; without a declaration, it is declared here."""
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
        """Return the call that makes a buffer, and name the buffer and the variables in it.

        Unnamed variables of memory, strides and offset are named after the buffer:
        `A.data`, `A.strides[0]`, `A.elem_offset`.
        """
        names = self.names
        fresh = list(buffer.shape) if constructor == "match_buffer" else []
        offset, default_dtype = buffer.elem_offset, _default_offset_dtype(buffer)
        numbers = (*buffer.strides, offset)
        fresh += [v for v in numbers if v.dtype is not default_dtype or type(v) is e.SizeVar]
        if buffer.strides:
            used = Counter(v for field in numbers for v in collect_vars(field))
            fresh += [v for v, count in used.items() if count > 1]
        self._define_before(fresh)
        name = names.define(buffer)
        args = [source] if source else []
        args.append(self.tuple_of(buffer.shape))
        if buffer.dtype != self.options.buffer_dtype:
            args.append(quote(buffer.dtype))
        shares = buffer.data in names.texts
        if shares:
            args.append(f"data={self.var(buffer.data)}")
        else:
            names.alias(buffer.data, f"{name}.data")
        if buffer.strides:
            args.append(f"strides={self._strides(buffer, name)}")
        fresh_offset = isinstance(offset, Var) and offset not in names.texts
        if fresh_offset and isinstance(offset, Var):
            names.alias(offset, f"{name}.elem_offset")
        elif is_const_int(offset, 0) and offset.dtype is not default_dtype:
            args.append(f"elem_offset={self.typed(offset)}")
        elif not is_const_int(offset, 0):
            args.append(f"elem_offset={self(offset)}")
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
        return f"{self.t}.{constructor}({', '.join(args)})"

    def _define_before(self, values: Sequence[PrimExpr]) -> None:
        """Print definitions of the variables among `values` that are undefined."""
        fresh = [v for v in dict.fromkeys(values) if isinstance(v, Var) and v not in self._texts]
        if fresh:
            names = ", ".join([self.defined(v) for v in fresh])
            self.line(f"{names} = {', '.join(self.fresh_var(v) for v in fresh)}")

    def _strides(self, buffer: Buffer, name: str) -> str:
        parts = []
        for k, stride in enumerate(buffer.strides):
            if isinstance(stride, Var) and stride not in self._texts:
                self.names.alias(stride, f"{name}.strides[{k}]")
                parts.append(quote(identifier(stride.name)))
            else:
                parts.append(self(stride))
        return tuple_text(parts)

    # ---------------------------------------------------------------------------------- expressions

    def __call__(self, node: Any, loosest: int = 0) -> str:
        """Return an expression as text, in parentheses if its precedence is below `loosest`."""
        text, precedence = EXPRESSIONS.get(type(node), _default_expression)(self, node)
        return f"({text})" if precedence < loosest else text

    def typed(self, node: Any) -> str:
        """Return an expression as text in which every number has its dtype."""
        before, self.int_dtype = self.int_dtype, ""
        text = self(node)
        self.int_dtype = before
        return text

    def items(self, nodes: Iterable[Any]) -> str:
        """Return several expressions separated by commas."""
        return ", ".join([self(n) for n in nodes])

    def tuple_of(self, nodes: Iterable[Any]) -> str:
        """Return expressions, such as the sizes of a shape, as a tuple."""
        return tuple_text([self(n) for n in nodes])

    def indices(self, nodes: Sequence[PrimExpr]) -> str:
        """Return the text between the brackets of an access."""
        return ", ".join([self._index(n) for n in nodes]) or "()"

    def _index(self, node: PrimExpr) -> str:
        if type(node) is not e.Ramp:
            return self(node)
        base, stride = node.base, node.stride
        if not isinstance(stride, IntImm) or stride.value == 0:
            return self(node)
        length = stride.value * node.lanes
        end = length + base.value if isinstance(base, IntImm) else length
        low, high = e.integer_limits(base.dtype)
        if not low <= min(length, end) <= max(length, end) <= high:
            # The end of the slice exceeds the dtype of its beginning.
            return self(node)
        text = f"{self(base)}:{self(ops.add(base, ops.const(length, base.dtype)))}"
        return text if stride.value == 1 else f"{text}:{stride.value}"

    def region(self, region: BufferRegion) -> str:
        """Return a buffer region."""
        dims = ", ".join([self.range(r) for r in region.region]) or "()"
        return f"{self.buffer(region.buffer)}[{dims}]"

    def range(self, values: Range) -> str:
        """Return one dimension of a region."""
        if isinstance(values.extent, IntImm) and values.extent.value == 1:
            return self(values.min)
        return f"{self(values.min)}:{self(ops.add(values.min, values.extent))}"

    def value(self, value: Any) -> str:
        """Return the value of an annotation or attribute."""
        if value is None or isinstance(value, (bool, int, float)):
            return str(value)
        if isinstance(value, str):
            return quote(value)
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(self.value(v) for v in value) + "]"
        if isinstance(value, dict):
            return self.mapping(value)
        if isinstance(value, IntImm) and value.dtype.is_bool:
            return str(bool(value.value))
        if isinstance(value, Buffer):
            return self.buffer(value)
        if isinstance(value, IndexMap):
            forward_text = str(IndexMap(value.initial_indices, value.final_indices))
            inverse_map = value.inverse_index_map
            maps = (
                forward_text
                if inverse_map is None
                else f"{forward_text}, inverse_index_map={inverse_map}"
            )
            return f"{self.t}.index_map({maps})"
        return self(value)

    def mapping(self, values: dict[str, Any]) -> str:
        """Return a dict with sorted keys."""
        pairs = (f"{quote(key)}: {self.value(values[key])}" for key in sorted(values))
        return "{" + ", ".join(pairs) + "}"


def tuple_text(parts: Sequence[str]) -> str:
    """Return the text of a tuple."""
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _default_offset_dtype(buffer: Buffer) -> DataType:
    """Return the default dtype of strides and offsets, which is not printed."""
    return wide_index(buffer.shape[0].dtype) if buffer.shape else INT64


def is_simple(buffer: Buffer) -> bool:
    """Return True if shape and dtype determine the buffer."""
    return (
        not buffer.strides
        and all(isinstance(n, IntImm) for n in buffer.shape)
        and is_const_int(buffer.elem_offset, 0)
        and buffer.elem_offset.dtype is _default_offset_dtype(buffer)
        and buffer.scope() == "global"
        and buffer.data_alignment == 64
        and buffer.offset_factor == 1
        and not buffer.buffer_type
        and not buffer.axis_separators
    )


EXPRESSIONS: Final[dict[type, Callable[[Printer, Any], Text]]] = {}
STATEMENTS: Final[dict[type, Callable[[Printer, Any, bool], None]]] = {}


def register_text(kind: type, text: Callable[[Printer, Any], Text]) -> None:
    """Register a function that prints nodes of a class where an expression is expected."""
    EXPRESSIONS[kind] = text


def _default_expression(p: Printer, node: Any) -> Text:
    """Return the default form of an expression: its class, and the arguments that build it."""
    args = [p.value(getattr(node, name)) for name in BUILT_BY[type(node)][1]]
    return f"{p.t}.{type(node).__name__}({', '.join(args)})", ATOM


def _default_statement(p: Printer, node: s.Stmt, last: bool) -> None:
    """Print the default form of a statement: its class, its fields, its bodies."""
    del last
    p.names.open()
    for f in node.roles:
        if f.rewritten == "define":
            p.names.define(getattr(node, f))
    parts = [(f, getattr(node, f)) for f in node.roles]
    bodies = [value for f, value in parts if f.is_body and value is not None]
    args = ", ".join([p.value(value) for f, value in parts if not f.is_body])
    text = f"{p.t}.{type(node).__name__}({args})"
    p.line(f"with {text}:" if bodies else text, node)
    for body in bodies:
        p.body(body)
    p.names.close()
