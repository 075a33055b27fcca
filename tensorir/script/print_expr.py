"""Expressions as script text."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, Final

from tensorir.errors import TensorIRError
from tensorir.nodes import expr as e
from tensorir.nodes import ops
from tensorir.nodes.buffer import BufferRegion, Range
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.quoting import quote
from tensorir.script.calls import DTYPE_FIRST
from tensorir.script.printer import ATOM, Printer, Text
from tensorir.script.syntax import PRECEDENCE, PREFIX

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
"""The symbol of an operator, and the constant-folding function that builds its node, if there is
one.
"""
_IMMEDIATE: Final = frozenset({IntImm, e.FloatImm, e.Broadcast})
_RENAMED: Final = {"tvm_call_packed": "call_packed", "tvm_call_cpacked": "call_cpacked"}


def _int_imm(p: Printer, node: IntImm) -> Text:
    """Return an integer, without its dtype if that is the default dtype."""
    if node.dtype == p.int_dtype:
        return str(node.value), ATOM if node.value >= 0 else PREFIX["-"]
    if node.dtype.is_bool:
        return f"{p.t}.bool({bool(node.value)})", ATOM
    return f"{p.t}.{node.dtype}({node.value})", ATOM


def _float_imm(p: Printer, node: e.FloatImm) -> Text:
    """Return a float with the fewest digits that read back equal; with 17 digits for TVM."""
    value = node.value
    if not isfinite(value):
        return _function(p, node.dtype, f'"{value}"')
    text = repr(value)
    if p.options.dialect != "tensorir":
        text = f"{value:.1f}" if value == int(value) else f"{value:.17g}"
    if node.dtype == p.options.float_dtype:
        return text, ATOM
    return _function(p, node.dtype, text)


def _binary(p: Printer, node: e.BinaryOp) -> Text:
    """Return `a + b`, or `T.Add(a, b)` if the operator would build another node."""
    symbol, _ = _INFIX[type(node)]
    if not _is_built_by_operator(node):
        return f"{p.t}.{type(node).__name__}({p(node.a)}, {p(node.b)})", ATOM
    precedence = PRECEDENCE[symbol]
    # `(a < b) < c` needs the parentheses: without them Python chains the comparisons.
    left = p(node.a, precedence + 1 if isinstance(node, e.CmpOp) else precedence)
    return f"{left} {symbol} {p(node.b, precedence + 1)}", precedence


def _is_built_by_operator(node: e.BinaryOp) -> bool:
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


def _call_form(p: Printer, node: e.BinaryOp) -> Text:
    """Return a minimum, maximum or remainder as a call of the dialect."""
    name = {e.Min: "min", e.Max: "max", e.Mod: "truncmod"}[type(node)]
    both = type(node.a) in _IMMEDIATE and type(node.b) in _IMMEDIATE
    if both or (node.a is node.b and type(node) is not e.Mod) or _has_infinite_operand(node):
        name = type(node).__name__
    return f"{p.t}.{name}({p(node.a)}, {p(node.b)})", ATOM


def _logical_not(p: Printer, node: e.Not) -> Text:
    """Return a negation."""
    if isinstance(node.a, IntImm):
        return f"{p.t}.Not({p(node.a)})", ATOM
    return f"not {p(node.a, PREFIX['not'])}", PREFIX["not"]


def _function(p: Printer, name: str, *args: Any) -> Text:
    """Return a call of a function of the dialect."""
    return f"{p.t}.{name}({', '.join(args)})", ATOM


def _load(p: Printer, node: e.BufferLoad) -> Text:
    """Return an access to a buffer."""
    buffer = p.buffer(node.buffer)
    if node.predicate is not None:
        text = f"[{p.items(node.indices)}], predicate={p(node.predicate)}"
        return f"{buffer}.vload({text})", ATOM
    return f"{buffer}[{p.indices(node.indices)}]", ATOM


def _global_var(p: Printer, node: e.GlobalVar) -> Text:
    """Return the name of a function in the form of graph functions, `cls.f`."""
    if p.module_name:
        return f"cls.{p.symbol(node.name)}", ATOM
    return f"{p.options.ir_prefix}.GlobalVar({quote(node.name)})", ATOM


def _call(p: Printer, node: e.Call) -> Text:
    """Return a call of an intrinsic or of another function of the module."""
    if isinstance(node.op, e.GlobalVar):
        module = p.module_name or "cls"
        return f"{module}.{p.symbol(node.op.name)}({p.items(node.args)})", ATOM
    name = node.op.short_name
    args = [p(a) for a in node.args]
    if name in DTYPE_FIRST:
        args.insert(0, quote(node.dtype))
    elif not _has_natural_type(node):
        return _function(p, "call_intrin", quote(node.dtype), quote(name), *args)
    return _function(p, _RENAMED.get(name, name), *args)


def _has_natural_type(node: e.Call) -> bool:
    """Return True if `T.<name>` builds a call with the same dtype as this call."""
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


def _let(p: Printer, node: e.Let) -> Text:
    """Return a let expression."""
    var = p.var(node.var)
    return _function(p, "Let", p(node.body), f"where={{{var}: {p(node.value)}}}")


def _reducer(p: Printer, node: e.CommReducer) -> Text:
    """Return a reducer: the function that combines values, and the identity element."""
    scope = p.names
    scope.open()
    parameters = (*node.lhs, *node.rhs)
    for var in parameters:
        scope.define(var)
    names, body = p.items(parameters), p.items(node.result)
    scope.close()
    if len(node.result) > 1:
        body = f"({body})"
    return _function(
        p, "comm_reducer", f"lambda {names}: {body}", f"[{p.items(node.identity_element)}]"
    )


def _has_infinite_operand(node: e.BinaryOp) -> bool:
    """Return True if an operand is infinite: `T.min` and `T.max` would fold it."""
    return any(isinstance(x, e.FloatImm) and abs(x.value) == float("inf") for x in (node.a, node.b))


FORMS: Final[dict[type, Callable[[Printer, Any], Text]]] = {
    e.Var: lambda p, n: (p.var(n), ATOM),
    e.SizeVar: lambda p, n: (p.var(n), ATOM),
    IntImm: _int_imm,
    e.FloatImm: _float_imm,
    e.StringImm: lambda p, n: (quote(n.value), ATOM),
    e.GlobalVar: _global_var,
    **dict.fromkeys(_INFIX, _binary),
    **dict.fromkeys((e.Min, e.Max, e.Mod), _call_form),
    e.Not: _logical_not,
    e.Cast: lambda p, n: _function(p, "Cast", quote(n.dtype), p(n.value)),
    e.Select: lambda p, n: _function(
        p, "Select", p(n.condition), p(n.true_value), p(n.false_value)
    ),
    e.Ramp: lambda p, n: _function(p, "Ramp", p(n.base), p(n.stride), str(n.lanes)),
    e.Broadcast: lambda p, n: _function(p, "Broadcast", p(n.value), str(n.lanes)),
    e.Shuffle: lambda p, n: _function(
        p, "Shuffle", f"[{p.items(n.vectors)}]", f"[{p.items(n.indices)}]"
    ),
    e.Let: _let,
    e.BufferLoad: _load,
    e.Call: _call,
    e.CommReducer: _reducer,
    e.IterVar: lambda p, n: (p.var(n.var), ATOM),
    BufferRegion: lambda p, n: (p.region(n), ATOM),
    Range: lambda p, n: (f"{p.t}.Range({p(n.min)}, {p(ops.add(n.min, n.extent))})", ATOM),
}
