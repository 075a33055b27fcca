"""Graph functions, their bindings, expressions and struct infos as script text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tensorir.nodes import expr as e
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import GlobalVar, IntImm, PrimExpr
from tensorir.nodes.node import Node
from tensorir.quoting import is_name, quote
from tensorir.relax import calls
from tensorir.relax import expr as g
from tensorir.relax import struct_info as si
from tensorir.relax.function import Function
from tensorir.relax.operator import Operator
from tensorir.relax.struct_info import is_void
from tensorir.rewriting.visit import collect_vars, walk
from tensorir.script.constants import KEY, inline_text
from tensorir.script.printer import ATOM, Printer, Text, tuple_text

PARTS: Final = (g.VarBinding, g.MatchCast, g.BindingBlock, g.SeqExpr, g.If)
"""Parts of graph functions that are printed as statements."""
_STATES_RESULT: Final = (calls.CALL_TIR, calls.CALL_TIR_INPLACE, calls.CALL_DPS_PACKED)
"""Operators whose calls contain the struct info of the result."""


def function(p: Printer, func: Function, name: str) -> None:
    """Print a graph function."""
    names = p.names
    p.decorator(f"{p.r}.function", func, name, *["pure=False"] * (not func.is_pure))
    names.open()
    infos = [param.struct_info for param in func.params]
    sizes = list(dict.fromkeys(v for i in (*infos, func.ret_struct_info) for v in collect_vars(i)))
    for size in sizes:
        names.define(size)
    texts = [_signature_text(p, info) for info in infos]
    for param in func.params:
        names.define(param)
    params = [f"{p(v)}: {t}" for v, t in zip(func.params, texts, strict=True)]
    result = _signature_text(p, func.ret_struct_info)
    p.line(f"def {p.symbol(name)}({', '.join(params)}) -> {result}:", func)
    p.depth += 1
    for size in sizes:
        p.line(f"{p.var(size)} = {p.fresh_var(size)}")
    attrs = {k: v for k, v in func.attrs.items() if (k, v) != ("global_symbol", name)}
    if attrs:
        p.line(f"{p.r}.func_attr({p.mapping(attrs)})")
    if p.module_name and calls_by_name(func):
        p.line(f"cls = {p.module_name}")
    Bindings(p, _used_variables(func.body)).sequence(func.body)
    p.line(f"return {p.inside(func.body, p, func.body.body)}")
    p.depth -= 1
    names.end_function()


def calls_by_name(func: Function) -> bool:
    """Return True if a function refers to other functions of its module."""
    return any(isinstance(node, GlobalVar) for node in walk(func.body))


def part(p: Printer, node: g.Binding | g.BindingBlock | g.SeqExpr | g.If) -> None:
    """Print a part of a graph function by itself."""
    if isinstance(node, g.If):
        node = g.VarBinding(g.GraphVar("value", node.struct_info), node)
    bindings = Bindings(p, _used_variables(node))
    if isinstance(node, g.SeqExpr):
        bindings.sequence(node)
        p.line(f"return {p.inside(node, p, node.body)}")
    elif isinstance(node, g.BindingBlock):
        bindings.block(node)
    else:
        bindings.binding(node)


def _used_variables(node: Node) -> set[g.GraphVar]:
    return {n for n in walk(node) if isinstance(n, g.GraphVar)}


class Bindings:
    """Prints bindings; `used` are the variables that are read."""

    def __init__(self, p: Printer, used: set[g.GraphVar]) -> None:
        self._p = p
        self._used = used

    def sequence(self, seq: g.SeqExpr) -> None:
        """Print the bindings of a function or of a branch of an if."""
        self._p.begin_body()
        for block in seq.blocks:
            self.block(block)

    def block(self, block: g.BindingBlock) -> None:
        """Print a block of bindings."""
        p = self._p
        if not isinstance(block, g.DataflowBlock):
            for binding in block.bindings:
                self.binding(binding)
            return
        if not block.bindings:
            return
        p.line(f"with {p.r}.dataflow():", block)
        p.depth += 1
        for binding in block.bindings:
            self.binding(binding)
        outputs = [b.var for b in block.bindings if not isinstance(b.var, g.DataflowVar)]
        p.line(f"{p.r}.output({p.items(outputs)})")
        p.depth -= 1

    def binding(self, node: g.Binding) -> None:
        """Print a binding, which names its variable."""
        self._p.inside(node, self._binding, node)

    def _binding(self, node: g.Binding) -> None:
        p, var = self._p, node.var
        if isinstance(node, g.VarBinding) and isinstance(node.value, g.If):
            self._define(var)
            self._branches(node, node.value)
            return
        if isinstance(node, g.MatchCast):
            info = p(node.struct_info)
            text = f"{p.r}.match_cast({p(node.value)}, {info})"
            known = node.struct_info
        else:
            text = p(node.value)
            known = node.value.struct_info
            if is_void(var.struct_info) and var.name == "_" and var not in self._used:
                p.line(text, node)
                return
        states_result = isinstance(node, g.MatchCast) or (
            isinstance(node.value, g.GraphCall) and node.value.op in _STATES_RESULT
        )
        self._define(var)
        annotation = p(var.struct_info)
        if states_result and annotation == p(known):
            p.line(f"{p(var)} = {text}", node)
        else:
            p.line(f"{p(var)}: {annotation} = {text}", node)

    def _define(self, var: g.GraphVar) -> None:
        """Name a variable, unless it already has the name of the enclosing `if`."""
        if var not in self._p.names.texts:
            self._p.names.define(var)

    def _branches(self, node: g.VarBinding, value: g.If) -> None:
        """Print an if; both branches end by binding the name of its value."""
        p = self._p
        p.line(f"if {p.inside(value, p, value.cond)}:", node)
        for k, branch in enumerate((value.true_branch, value.false_branch)):
            if k:
                p.line("else:")
            p.names.open()
            p.depth += 1
            name = p.names.texts[node.var]
            ends_in_call = _last_bound(branch)
            if ends_in_call is not None:
                p.names.alias(ends_in_call, name)
            self.sequence(branch)
            if ends_in_call is None:
                p.line(f"{name} = {p.inside(branch, p, branch.body)}")
            p.depth -= 1
            p.names.close(kept=name)


def _last_bound(branch: g.SeqExpr) -> g.GraphVar | None:
    """Return the variable of the last binding if it is the branch's value and bound to a call."""
    last = branch.blocks[-1] if branch.blocks else None
    if last is None or isinstance(last, g.DataflowBlock) or not last.bindings:
        return None
    binding = last.bindings[-1]
    named = isinstance(binding, g.MatchCast) or isinstance(
        binding.value, (g.GraphCall, g.If, g.TupleGetItem)
    )
    return binding.var if named and binding.var is branch.body else None


def _signature_text(p: Printer, info: si.StructInfo) -> str:
    """Return a struct info for a signature, with symbolic sizes in quotes."""
    p.quotes_sizes = True
    text = p(info)
    p.quotes_sizes = False
    return text


# ----------------------------------------------------------------------------------------- scalars


def _scalar(p: Printer, value: PrimExpr) -> str:
    """Return a scalar of a graph function, where the default dtype of numbers is int64."""
    before = p.int_dtype
    p.int_dtype = "int64" if _is_plain(value) else ""
    text = p(value)
    p.int_dtype = before
    return text


def _is_plain(value: PrimExpr) -> bool:
    """Return True if all numbers in an expression are read as int64 without their dtype."""
    return all(
        isinstance(part, (e.Var, IntImm, e.BinaryOp)) and part.dtype is INT64
        for part in walk(value)
    )


def _size(p: Printer, value: PrimExpr) -> str:
    text = _scalar(p, value)
    return quote(text) if p.quotes_sizes and not isinstance(value, IntImm) else text


def _shape(p: Printer, values: Sequence[PrimExpr]) -> str:
    return tuple_text([_size(p, value) for value in values])


def _sizes(p: Printer, values: Sequence[PrimExpr]) -> str:
    return ", ".join(_size(p, value) for value in values)


# ------------------------------------------------------------------------------------ struct infos


def _form(p: Printer, name: str, args: Sequence[str]) -> Text:
    """Return an annotation, without parentheses if it has no arguments."""
    return _value(p, name, *args) if args else (f"{p.r}.{name}", ATOM)


def _tensor(p: Printer, n: si.TensorStructInfo) -> Text:
    args = [] if n.shape is None else [_shape(p, n.shape)]
    if n.dtype is not None:
        args.append(f"dtype={quote(n.dtype)}")
    if n.shape is None and n.ndim != si.UNKNOWN_NDIM:
        args.append(f"ndim={n.ndim}")
    return _form(p, "Tensor", args)


def _shape_info(p: Printer, n: si.ShapeStructInfo) -> Text:
    if n.values is not None:
        return _form(p, "Shape", [f"[{_sizes(p, n.values)}]"])
    return _form(p, "Shape", [] if n.ndim == si.UNKNOWN_NDIM else [f"ndim={n.ndim}"])


def _prim_info(p: Printer, n: si.PrimStructInfo) -> Text:
    known = quote(n.dtype) if n.value is None else f"value={_size(p, n.value)}"
    return _form(p, "Prim", [known])


def _func_info(p: Printer, n: si.FuncStructInfo) -> Text:
    if n.params is None:
        return _form(p, "Callable", [f"ret={p(n.ret)}", f"purity={n.purity}"])
    params = p.tuple_of(n.params)
    return _form(p, "Callable", [params, p(n.ret), str(n.purity)])


# ------------------------------------------------------------------------------------- expressions


def _value(p: Printer, name: str, *args: str) -> Text:
    return f"{p.r}.{name}({', '.join(args)})", ATOM


def _call(p: Printer, n: g.GraphCall) -> Text:
    if isinstance(n.op, Operator):
        return _operator_call(p, n, n.op)
    args = [p(a) for a in n.args]
    if isinstance(n.op, g.ExternFunc):
        args.insert(0, quote(n.op.symbol))
        return _value(p, "call_packed", *args, *_attributes(p, n), *_printed_infos(p, n))
    return f"{p(n.op)}({', '.join(args)})", ATOM


def _operator_call(p: Printer, n: g.GraphCall, op: Operator) -> Text:
    if op in _STATES_RESULT:
        args = [_callee(p, n.args[0]), p(n.args[1]), *_attributes(p, n)]
        (output,) = n.sinfo_args
        args.append(f"out_sinfo={_outputs(p, output)}")
        args += [f"tir_vars={p(extra)}" for extra in n.args[2:]]
    else:
        operands = [_callee(p, a) for a in n.args]
        args = [*operands, *_attributes(p, n), *_printed_infos(p, n)]
    return _value(p, op.short_name, *args)


def _callee(p: Printer, value: g.GraphExpr | GlobalVar) -> str:
    return quote(value.symbol) if isinstance(value, g.ExternFunc) else p(value)


def _outputs(p: Printer, output: si.StructInfo) -> str:
    if isinstance(output, si.TupleStructInfo) and len(output) > 1:
        return f"[{p.items(output.elements)}]"
    return p(output)


def _attributes(p: Printer, n: g.GraphCall) -> list[str]:
    attrs = n.op.shown_attrs(n.attrs) if isinstance(n.op, Operator) else n.attrs
    named = [f"{key}={p.value(value)}" for key, value in attrs.items() if is_name(key)]
    others = {key: value for key, value in attrs.items() if not is_name(key)}
    return [*named, f"**{p.mapping(others)}"] if others else named


def _printed_infos(p: Printer, n: g.GraphCall) -> list[str]:
    return [f"sinfo_args={p.tuple_of(n.sinfo_args)}"] if n.sinfo_args else []


def _tuple(p: Printer, n: g.Tuple) -> Text:
    return p.tuple_of(n.elements), ATOM


def _field(p: Printer, n: g.TupleGetItem) -> Text:
    whole = n.tuple_value
    text = p(whole)
    if isinstance(whole, g.Tuple):
        text = f"{p.r}.tuple({p.items(whole.elements)})"
    return f"{text}[{n.index}]", ATOM


def _constant(p: Printer, n: g.Constant) -> Text:
    """Return the elements of a short array, or a reference to the metadata."""
    text = inline_text(n, scalars_only=p.options.dialect != "tensorir")
    if text is not None:
        return text.format(R=p.r), ATOM
    index = next((k for k, known in enumerate(p.constants) if known is n), len(p.constants))
    if index == len(p.constants):
        p.constants.append(n)
    return f'metadata["{KEY}"][{index}]', ATOM


def _graph_var(p: Printer, var: g.GraphVar) -> Text:
    name = p.names.texts.get(var)
    return p.names.define(var) if name is None else name, ATOM


FORMS: Final[dict[type, Callable[[Printer, Any], Text]]] = {
    si.ObjectStructInfo: lambda p, n: _form(p, "Object", []),
    si.PrimStructInfo: _prim_info,
    si.ShapeStructInfo: _shape_info,
    si.TensorStructInfo: _tensor,
    si.TupleStructInfo: lambda p, n: _form(p, "Tuple", [p(f) for f in n.elements]),
    si.FuncStructInfo: _func_info,
    g.GraphVar: _graph_var,
    g.DataflowVar: _graph_var,
    g.ExternFunc: lambda p, n: _value(p, "ExternFunc", quote(n.symbol)),
    g.Constant: _constant,
    g.ShapeExpr: lambda p, n: _value(p, "shape", f"[{_sizes(p, n.values)}]"),
    g.PrimValue: lambda p, n: _value(p, "prim_value", _scalar(p, n.value)),
    g.StringValue: lambda p, n: _value(p, "str", quote(n.value)),
    g.DataTypeValue: lambda p, n: _value(p, "dtype", quote(n.value)),
    g.Tuple: _tuple,
    g.TupleGetItem: _field,
    g.GraphCall: _call,
}
