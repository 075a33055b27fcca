"""The expressions and struct infos of graph functions as script text."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.nodes import expr as e
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import GlobalVar, IntImm, PrimExpr
from tensorir.quoting import is_name, quote
from tensorir.relax import calls
from tensorir.relax import expr as g
from tensorir.relax import struct_info as si
from tensorir.relax.operator import Operator
from tensorir.rewriting.visit import walk
from tensorir.script.constants import inline_text
from tensorir.script.print_expr import ATOM, ExprPrinter, Text, register_text, tuple_text


def signature_text(p: ExprPrinter, info: si.StructInfo) -> str:
    """Return a struct info as it stands in a signature: sizes that are no numbers in quotes."""
    p.quotes_sizes = True
    text = p(info)
    p.quotes_sizes = False
    return text


# ----------------------------------------------------------------------------------------- scalars


def _scalar(p: ExprPrinter, value: PrimExpr) -> str:
    """Return a scalar; numbers without a type are int64 in graph functions."""
    before = p.int_dtype
    p.int_dtype = "int64" if _is_plain(value) else ""
    text = p(value)
    p.int_dtype = before
    return text


def _is_plain(value: PrimExpr) -> bool:
    """Say whether operators give every number in an expression the type int64 by themselves."""
    return all(
        isinstance(part, (e.Var, IntImm, e.BinaryOp)) and part.dtype is INT64
        for part in walk(value)
    )


def _size(p: ExprPrinter, value: PrimExpr) -> str:
    text = _scalar(p, value)
    return quote(text) if p.quotes_sizes and not isinstance(value, IntImm) else text


def _sizes(p: ExprPrinter, values: Sequence[PrimExpr]) -> str:
    return ", ".join(_size(p, value) for value in values)


# ------------------------------------------------------------------------------------ struct infos


def _form(p: ExprPrinter, name: str, args: Sequence[str]) -> Text:
    """Return an annotation; without arguments its name says it."""
    text = name if p.options.is_oldest else f"{p.relax}.{name}"
    return (f"{text}({', '.join(args)})" if args else text), ATOM


def _tensor(p: ExprPrinter, n: si.TensorStructInfo) -> Text:
    if p.options.is_oldest:
        known = "None" if n.shape is None else tuple_text([_size(p, v) for v in n.shape])
        ranks = [f"ndim = {n.ndim}"] * (n.shape is None and n.ndim != si.UNKNOWN_NDIM)
        return _form(p, "Tensor", [known, quote(n.dtype) if n.dtype else "None", *ranks])
    args = [] if n.shape is None else [tuple_text([_size(p, v) for v in n.shape])]
    if n.dtype is not None:
        args.append(f"dtype={quote(n.dtype)}")
    if n.shape is None and n.ndim != si.UNKNOWN_NDIM:
        args.append(f"ndim={n.ndim}")
    return _form(p, "Tensor", args)


def _shape_info(p: ExprPrinter, n: si.ShapeStructInfo) -> Text:
    if n.values is not None:
        return _form(p, "Shape", [f"[{_sizes(p, n.values)}]"])
    return _form(p, "Shape", [] if n.ndim == si.UNKNOWN_NDIM else [f"ndim={n.ndim}"])


def _prim_info(p: ExprPrinter, n: si.PrimStructInfo) -> Text:
    known = quote(n.dtype) if n.value is None else f"value={_size(p, n.value)}"
    return _form(p, "Prim", [known])


def _func_info(p: ExprPrinter, n: si.FuncStructInfo) -> Text:
    if n.params is None:
        return _form(p, "Callable", [f"ret={p(n.ret)}", f"purity={n.purity}"])
    params = tuple_text([p(param) for param in n.params])
    return _form(p, "Callable", [params, p(n.ret), str(n.purity)])


# ------------------------------------------------------------------------------------- expressions


def _value(p: ExprPrinter, name: str, *args: str) -> Text:
    return f"{p.relax}.{name}({', '.join(args)})", ATOM


def _call(p: ExprPrinter, n: g.GraphCall) -> Text:
    if isinstance(n.op, Operator):
        return _operator_call(p, n, n.op)
    args = [p(a) for a in n.args]
    if isinstance(n.op, g.ExternFunc):
        args.insert(0, quote(n.op.symbol))
        return _value(p, "call_packed", *args, *_attributes(p, n), *_stated(p, n))
    return f"{p(n.op)}({', '.join(args)})", ATOM


def _operator_call(p: ExprPrinter, n: g.GraphCall, op: Operator) -> Text:
    if op in (calls.CALL_TIR, calls.CALL_DPS_PACKED) and p.options.is_oldest:
        (output,) = n.sinfo_args
        args = [_callee(p, n.args[0]), p(n.args[1]), *_old_outputs(p, output)]
        args += [f"tir_vars={p(extra)}" for extra in n.args[2:]]
        return _value(p, "call_tir", *args)
    if op in (calls.CALL_TIR, calls.CALL_TIR_INPLACE, calls.CALL_DPS_PACKED):
        args = [_callee(p, n.args[0]), p(n.args[1]), *_attributes(p, n)]
        (output,) = n.sinfo_args
        args.append(f"out_sinfo={_outputs(p, output)}")
        args += [f"tir_vars={p(extra)}" for extra in n.args[2:]]
    else:
        operands = [_callee(p, a) for a in n.args]
        args = [*operands, *_attributes(p, n), *_stated(p, n)]
    return _value(p, op.short_name, *args)


def _callee(p: ExprPrinter, value: g.GraphExpr | GlobalVar) -> str:
    return quote(value.symbol) if isinstance(value, g.ExternFunc) else p(value)


def _outputs(p: ExprPrinter, output: si.StructInfo) -> str:
    if isinstance(output, si.TupleStructInfo) and len(output) > 1:
        return f"[{p.items(output.elements)}]"
    return p(output)


def _old_outputs(p: ExprPrinter, output: si.StructInfo) -> tuple[str, str]:
    """Return outputs as shapes and dtypes."""
    several = isinstance(output, si.TupleStructInfo)
    infos = output.elements if isinstance(output, si.TupleStructInfo) else (output,)
    shapes, dtypes = [], []
    for info in infos:
        assert isinstance(info, si.TensorStructInfo)
        assert info.shape is not None
        assert info.dtype is not None
        shapes.append(tuple_text([_size(p, v) for v in info.shape]))
        dtypes.append(quote(info.dtype))
    if several:
        return f"[{', '.join(shapes)}]", f"dtype=[{', '.join(dtypes)}]"
    return shapes[0], f"dtype={dtypes[0]}"


def _attributes(p: ExprPrinter, n: g.GraphCall) -> list[str]:
    attrs = n.op.shown_attrs(n.attrs) if isinstance(n.op, Operator) else n.attrs
    named = [f"{key}={p.value(value)}" for key, value in attrs.items() if is_name(key)]
    others = {key: value for key, value in attrs.items() if not is_name(key)}
    return [*named, f"**{p.mapping(others)}"] if others else named


def _stated(p: ExprPrinter, n: g.GraphCall) -> list[str]:
    infos = [p(info) for info in n.sinfo_args]
    return [f"sinfo_args={tuple_text(infos)}"] if infos else []


def _tuple(p: ExprPrinter, n: g.Tuple) -> Text:
    return tuple_text([p(part) for part in n.elements]), ATOM


def _field(p: ExprPrinter, n: g.TupleGetItem) -> Text:
    whole = n.tuple_value
    text = p(whole)
    if isinstance(whole, g.Tuple):
        text = f"{p.relax}.tuple({p.items(whole.elements)})"
    return f"{text}[{n.index}]", ATOM


def _constant(p: ExprPrinter, n: g.Constant) -> Text:
    text = inline_text(n, scalars_only=p.options.dialect != "tensorir")
    return text.format(R=p.relax) if text is not None else p.metadata(n), ATOM


register_text(si.ObjectStructInfo, lambda p, n: _form(p, "Object", []))
register_text(si.PrimStructInfo, _prim_info)
register_text(si.ShapeStructInfo, _shape_info)
register_text(si.TensorStructInfo, _tensor)
register_text(si.TupleStructInfo, lambda p, n: _form(p, "Tuple", [p(f) for f in n.elements]))
register_text(si.FuncStructInfo, _func_info)
for _kind in (g.GraphVar, g.DataflowVar):
    register_text(_kind, lambda p, n: (p.graph_var(n), ATOM))
register_text(g.ExternFunc, lambda p, n: _value(p, "ExternFunc", quote(n.symbol)))
register_text(g.Constant, _constant)
register_text(g.ShapeExpr, lambda p, n: _value(p, "shape", f"[{_sizes(p, n.values)}]"))
register_text(g.PrimValue, lambda p, n: _value(p, "prim_value", _scalar(p, n.value)))
register_text(g.StringValue, lambda p, n: _value(p, "str", quote(n.value)))
register_text(g.DataTypeValue, lambda p, n: _value(p, "dtype", quote(n.value)))
register_text(g.Tuple, _tuple)
register_text(g.TupleGetItem, _field)
register_text(g.GraphCall, _call)
