"""Expressions as script text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from tensorir.errors import TensorIRError
from tensorir.indices.index_map import IndexMap
from tensorir.nodes import expr as e
from tensorir.nodes import ops
from tensorir.nodes.buffer import BufferRegion, Range
from tensorir.nodes.constants import const
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.node import BUILT_BY
from tensorir.quoting import quote
from tensorir.relax.expr import Constant, GraphVar
from tensorir.script.calls import DTYPE_FIRST
from tensorir.script.constants import KEY
from tensorir.script.syntax import PRECEDENCE, PREFIX

if TYPE_CHECKING:
    from tensorir.script.printer import Printer

Text = tuple[str, int]
"""The text of an expression and how tightly its outermost operator binds."""

ATOM: Final = 20

_INFIX: Final[dict[type, tuple[str, Callable[[PrimExpr, PrimExpr], PrimExpr] | None]]] = {
    e.Add: ("+", ops.add),
    e.Sub: ("-", ops.sub),
    e.Mul: ("*", ops.mul),
    e.FloorDiv: ("//", ops.floordiv),
    e.FloorMod: ("%", ops.floormod),
    e.Div: ("/", ops.div),
    e.EQ: ("==", None),
    e.NE: ("!=", None),
    e.LT: ("<", None),
    e.LE: ("<=", None),
    e.GT: (">", None),
    e.GE: (">=", None),
    e.And: ("and", None),
    e.Or: ("or", None),
}
"""The sign of an operator, and what it builds if it folds numbers."""
_IMMEDIATE: Final = frozenset({IntImm, e.FloatImm, e.Broadcast})
_RENAMED: Final = {"tvm_call_packed": "call_packed", "tvm_call_cpacked": "call_cpacked"}


class ExprPrinter:
    """Turns expressions into text, with the names that a printer hands out."""

    def __init__(self, printer: Printer) -> None:
        self._printer = printer
        self._t: str = printer.options.tir_prefix
        self.relax = printer.options.relax_prefix
        self.options = printer.options
        self.int_dtype = printer.options.int_dtype
        """The type of integers that are written without one."""
        self.quotes_sizes = False
        """True if sizes that are no numbers are in quotes, as signatures have them."""

    def __call__(self, node: Any, loosest: int = 0) -> str:
        """Return `node` as text, in parentheses if it binds looser than `loosest`."""
        text, precedence = _PRINT.get(type(node), ExprPrinter.form)(self, node)
        return f"({text})" if precedence < loosest else text

    def typed(self, node: Any) -> str:
        """Return `node` as text in which every number says its type."""
        before, self.int_dtype = self.int_dtype, ""
        text = self(node)
        self.int_dtype = before
        return text

    def items(self, nodes: Any) -> str:
        """Return several expressions with commas in between."""
        return ", ".join(self(n) for n in nodes)

    def indices(self, nodes: tuple[PrimExpr, ...]) -> str:
        """Return the text between the brackets of an access."""
        return ", ".join(self._index(n) for n in nodes) or "()"

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
            # The end of the slice is no number of the type of its beginning.
            return self(node)
        text = f"{self(base)}:{self(ops.add(base, const(length, base.dtype)))}"
        return text if stride.value == 1 else f"{text}:{stride.value}"

    def region(self, region: BufferRegion) -> str:
        """Return a buffer region."""
        dims = ", ".join(self.range(r) for r in region.region) or "()"
        return f"{self._printer.buffer(region.buffer)}[{dims}]"

    def range(self, values: Range) -> str:
        """Return one dimension of a region."""
        if isinstance(values.extent, IntImm) and values.extent.value == 1:
            return self(values.min)
        return f"{self(values.min)}:{self(ops.add(values.min, values.extent))}"

    def value(self, value: Any) -> str:
        """Return an annotation or attribute value."""
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
        if hasattr(value, "elem_offset"):
            return self._printer.buffer(value)
        if isinstance(value, IndexMap):
            there = str(IndexMap(value.initial_indices, value.final_indices))
            back = value.inverse_index_map
            maps = there if back is None else f"{there}, inverse_index_map={back}"
            return f"{self._t}.index_map({maps})"
        return self(value)

    def mapping(self, values: dict[str, Any]) -> str:
        """Return a dict display with sorted keys."""
        pairs = (f"{quote(key)}: {self.value(values[key])}" for key in sorted(values))
        return "{" + ", ".join(pairs) + "}"

    # --------------------------------------------------------------------------------------- nodes

    def int_imm(self, node: IntImm) -> Text:
        """Return an integer; the type is left out where it goes without saying."""
        if node.dtype == self.int_dtype:
            return str(node.value), ATOM if node.value >= 0 else PREFIX["-"]
        if node.dtype.is_bool:
            return f"{self._t}.bool({bool(node.value)})", ATOM
        return f"{self._t}.{node.dtype}({node.value})", ATOM

    def float_imm(self, node: e.FloatImm) -> Text:
        """Return a float in the fewest digits that read back as it; TVM's form has 17."""
        value = node.value
        if not isfinite(value):
            return self.function(node.dtype, f'"{value}"')
        text = repr(value)
        if self._printer.options.dialect != "tensorir":
            text = f"{value:.1f}" if value == int(value) else f"{value:.17g}"
        if node.dtype == self._printer.options.float_dtype:
            return text, ATOM
        return self.function(node.dtype, text)

    def binary(self, node: e.BinaryOp) -> Text:
        """Return two operands and the operator between them, where reading that gives this node."""
        symbol, _ = _INFIX[type(node)]
        if not self._is_what_the_operator_builds(node):
            return f"{self._t}.{type(node).__name__}({self(node.a)}, {self(node.b)})", ATOM
        precedence = PRECEDENCE[symbol]
        # Without parentheses, a comparison of a comparison would be one that chains.
        left = self(node.a, precedence + 1 if isinstance(node, e.CmpOp) else precedence)
        return f"{left} {symbol} {self(node.b, precedence + 1)}", precedence

    def _is_what_the_operator_builds(self, node: e.BinaryOp) -> bool:
        kind = type(node)
        rebuild = _INFIX[kind][1]
        if rebuild is None:
            both = type(node.a) in _IMMEDIATE and type(node.b) in _IMMEDIATE
            return not both and not (node.dtype.lanes > 1 and kind in (e.And, e.Or))
        if kind is e.Div and not node.dtype.is_floating:
            return False
        if kind in (e.FloorDiv, e.FloorMod) and not node.dtype.is_integral:
            return False
        if type(node.a) not in _IMMEDIATE and type(node.b) not in _IMMEDIATE:
            return True
        try:
            rebuilt = rebuild(node.a, node.b)
        except TensorIRError:
            return False
        return isinstance(rebuilt, kind) and rebuilt.a is node.a and rebuilt.b is node.b

    def call_form(self, node: e.BinaryOp) -> Text:
        """Return an operation that is written as a call: a minimum, a maximum, a remainder."""
        name = {e.Min: "min", e.Max: "max", e.Mod: "truncmod"}[type(node)]
        both = type(node.a) in _IMMEDIATE and type(node.b) in _IMMEDIATE
        if both or (node.a is node.b and type(node) is not e.Mod) or _absorbs(node):
            name = type(node).__name__
        return f"{self._t}.{name}({self(node.a)}, {self(node.b)})", ATOM

    def logical_not(self, node: e.Not) -> Text:
        """Return a negation."""
        if isinstance(node.a, IntImm):
            return f"{self._t}.Not({self(node.a)})", ATOM
        return f"not {self(node.a, PREFIX['not'])}", PREFIX["not"]

    def function(self, name: str, *args: Any) -> Text:
        """Return a call of a function of the dialect."""
        return f"{self._t}.{name}({', '.join(args)})", ATOM

    def form(self, node: Any) -> Text:
        """Return a node that the dialect does not have: its class, and what it is built from."""
        args = [self.value(getattr(node, name)) for name in BUILT_BY[type(node)][1]]
        return self.function(type(node).__name__, *args)

    def load(self, node: e.BufferLoad) -> Text:
        """Return an access to a buffer."""
        buffer = self._printer.buffer(node.buffer)
        if node.predicate is not None:
            text = f"[{self.items(node.indices)}], predicate={self(node.predicate)}"
            return f"{buffer}.vload({text})", ATOM
        return f"{buffer}[{self.indices(node.indices)}]", ATOM

    def graph_var(self, var: GraphVar) -> str:
        """Return the name of a variable of a graph function."""
        name = self._printer.names.texts.get(var)
        return name if name is not None else self._printer.names.define(var)

    def global_var(self, node: e.GlobalVar) -> Text:
        """Return the name of a function as graph functions know it."""
        options = self._printer.options
        if options.is_oldest:
            return self._printer.symbol(node.name), ATOM
        if self._printer.module_name:
            return f"cls.{self._printer.symbol(node.name)}", ATOM
        return f"{options.ir_prefix}.GlobalVar({quote(node.name)})", ATOM

    def metadata(self, constant: Constant) -> str:
        """Return the text that refers to an array in the metadata of the program."""
        index = self._printer.constant_index(constant)
        if self._printer.options.is_oldest:
            return f"meta[relay.Constant][{index}]"
        return f'metadata["{KEY}"][{index}]'

    def call(self, node: e.Call) -> Text:
        """Return a call of an intrinsic or of another function of the module."""
        if isinstance(node.op, e.GlobalVar):
            module = self._printer.module_name or "cls"
            return f"{module}.{self._printer.symbol(node.op.name)}({self.items(node.args)})", ATOM
        name = node.op.short_name
        args = [self(a) for a in node.args]
        if name in DTYPE_FIRST:
            args.insert(0, quote(node.dtype))
        elif not self._has_natural_type(node):
            return self.function("call_intrin", quote(node.dtype), quote(name), *args)
        return self.function(_RENAMED.get(name, name), *args)

    def _has_natural_type(self, node: e.Call) -> bool:
        """Say whether the function of the dialect gives the call the type that it has."""
        op = node.op
        assert not isinstance(op, e.GlobalVar)
        name = op.short_name
        if name == "if_then_else":
            return not isinstance(node.args[0], IntImm)
        if all(type(a) in _IMMEDIATE for a in node.args) and op.result == "matched":
            return False
        if name in ops.ROUNDINGS and type(node.args[0]) in (IntImm, e.FloatImm):
            return False
        if name == "fabs":
            return node.dtype.is_float and not isinstance(node.args[0], e.FloatImm)
        if op.result == "same":
            return bool(node.args) and node.dtype is node.args[0].dtype
        if op.result == "matched":
            return all(a.dtype is node.dtype for a in node.args)
        if op.result == "given":
            return node.dtype == "int32"
        return node.dtype.element == op.result

    def let(self, node: e.Let) -> Text:
        """Return an expression with a value that has a name in it."""
        var = self._printer.var(node.var)
        return self.function("Let", self(node.body), f"where={{{var}: {self(node.value)}}}")

    def reducer(self, node: e.CommReducer) -> Text:
        """Return the text of a reducer: the function that combines values, and its identity."""
        scope = self._printer.names
        scope.open()
        parameters = (*node.lhs, *node.rhs)
        for var in parameters:
            scope.define(var)
        names, body = self.items(parameters), self.items(node.result)
        scope.close()
        if len(node.result) > 1:
            body = f"({body})"
        return self.function(
            "comm_reducer", f"lambda {names}: {body}", f"[{self.items(node.identity_element)}]"
        )


def tuple_text(parts: Sequence[str]) -> str:
    """Return the text of a tuple."""
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _absorbs(node: e.BinaryOp) -> bool:
    """Say whether an operand is infinite, which the smart constructor would fold."""
    return any(isinstance(x, e.FloatImm) and abs(x.value) == float("inf") for x in (node.a, node.b))


def register_text(kind: type, text: Callable[[ExprPrinter, Any], Text]) -> None:
    """Let nodes of another kind be printed where an expression may stand."""
    _PRINT[kind] = text


_PRINT: Final[dict[type, Callable[[ExprPrinter, Any], Text]]] = {
    e.Var: lambda p, n: (p._printer.var(n), ATOM),
    e.SizeVar: lambda p, n: (p._printer.var(n), ATOM),
    IntImm: ExprPrinter.int_imm,
    e.FloatImm: ExprPrinter.float_imm,
    e.StringImm: lambda p, n: (quote(n.value), ATOM),
    e.GlobalVar: ExprPrinter.global_var,
    **dict.fromkeys(_INFIX, ExprPrinter.binary),
    **dict.fromkeys((e.Min, e.Max, e.Mod), ExprPrinter.call_form),
    e.Not: ExprPrinter.logical_not,
    e.Cast: lambda p, n: p.function("Cast", quote(n.dtype), p(n.value)),
    e.Select: lambda p, n: p.function("Select", p(n.condition), p(n.true_value), p(n.false_value)),
    e.Ramp: lambda p, n: p.function("Ramp", p(n.base), p(n.stride), str(n.lanes)),
    e.Broadcast: lambda p, n: p.function("Broadcast", p(n.value), str(n.lanes)),
    e.Shuffle: lambda p, n: p.function(
        "Shuffle", f"[{p.items(n.vectors)}]", f"[{p.items(n.indices)}]"
    ),
    e.Let: ExprPrinter.let,
    e.BufferLoad: ExprPrinter.load,
    e.Call: ExprPrinter.call,
    e.CommReducer: ExprPrinter.reducer,
    e.IterVar: lambda p, n: (p._printer.var(n.var), ATOM),
    BufferRegion: lambda p, n: (p.region(n), ATOM),
    Range: lambda p, n: (f"{p._t}.Range({p(n.min)}, {p(ops.add(n.min, n.extent))})", ATOM),
}
