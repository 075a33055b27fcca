"""The `R` namespace: the functions that a graph function may call; they also work in Python.

Operators are looked up in their registry, so later registrations are found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorir.errors import IRTypeError, IRValueError
from tensorir.function import BaseFunc
from tensorir.nodes.expr import GlobalVar, PrimExpr
from tensorir.relax import calls
from tensorir.relax.callee import result_of
from tensorir.relax.expr import (
    Constant,
    DataTypeValue,
    ExternFunc,
    GraphCall,
    GraphExpr,
    PrimValue,
    ShapeExpr,
    StringValue,
    Tuple,
    const_of,
)
from tensorir.relax.operator import Operator
from tensorir.relax.struct_info import OBJECT, FuncStructInfo, StructInfo, TensorStructInfo
from tensorir.script import frames
from tensorir.script import graph_annotations as infos
from tensorir.script.constants import array_of_bytes
from tensorir.script.declarations import DtypeForm, dtype_text
from tensorir.script.graph_annotations import sizes, struct_info_of
from tensorir.script.macro import MacroCall
from tensorir.script.namespace import Namespace

if TYPE_CHECKING:
    from tensorir.relax.call_te import Formula


class Callee:
    """A function that graph functions refer to by name.

    `functions` are the functions of its module; without them, the annotation of a binding is the
    only source of the type of a call.
    """

    def __init__(
        self, name: str, functions: Mapping[str, BaseFunc | FuncStructInfo] | None = None
    ) -> None:
        self.gvar = GlobalVar(name)
        self._functions = functions

    def __repr__(self) -> str:
        return f'the function "{self.gvar.name}"'

    def __call__(self, *args: Any) -> GraphCall:
        """Call a graph function, or a tensor function with its outputs among the arguments."""
        call = GraphCall(self.gvar, [as_argument(value) for value in args], struct_info=OBJECT)
        if self._functions is None:
            return call
        return GraphCall(self.gvar, call.args, struct_info=result_of(call, self._functions))


@dataclass(slots=True)
class MatchCastRecord:
    """`y = R.match_cast(x, R.Tensor((n, m), "float32"))`."""

    value: GraphExpr
    struct_info: StructInfo


@dataclass(slots=True)
class FormulaRecord:
    """`y = R.emit_te(fn, x)`: a tensor function that is not in the module yet."""

    formula: Formula
    attrs: dict[str, Any]
    name: str

    def call(self, gvar: GlobalVar) -> GraphCall:
        """Return the call of the tensor function, whose name in the module is `gvar`."""
        formula = self.formula
        return calls.call_tir(gvar, formula.args, list(formula.infos), formula.sizes or None)


@dataclass(slots=True)
class DataflowFrame:
    """`with R.dataflow()`."""


@dataclass(slots=True)
class OutputRecord:
    """`R.output(a, b)`: the outputs of a dataflow block."""

    values: tuple[Any, ...]


def as_value(value: Any) -> GraphExpr:
    """Return the right-hand side of a binding as a value; numbers become scalar tensors."""
    if isinstance(value, (bool, int, float, np.ndarray, np.generic)):
        return const_of(value)
    if isinstance(value, (tuple, list)):
        return Tuple(as_value(v) for v in value)
    if isinstance(value, GraphExpr):
        return value
    raise IRTypeError(_invalid_value_error(value))


def as_argument(value: Any) -> GraphExpr:
    """Return an argument of a call: a number as `PrimValue`, a string as `StringValue`, sizes as a
    shape.
    """
    if isinstance(value, GraphExpr):
        return value
    if isinstance(value, (bool, int, float, PrimExpr)) and not isinstance(value, GlobalVar):
        return PrimValue(value)
    if isinstance(value, str):
        return StringValue(value)
    if isinstance(value, DtypeForm):
        return DataTypeValue(value.dtype)
    if isinstance(value, (np.ndarray, np.generic)):
        return const_of(value)
    if isinstance(value, (tuple, list)):
        if value and all(isinstance(v, (int, PrimExpr)) for v in value):
            return ShapeExpr(value)
        return Tuple(as_argument(v) for v in value)
    raise IRTypeError(_invalid_value_error(value))


def _invalid_value_error(value: Any) -> str:
    if isinstance(value, Callee):
        name = value.gvar.name
        return (
            f"function {name} cannot be a value; call it by R.call_tir({name}, ...) or {name}(...)"
        )
    if isinstance(value, MacroCall):
        return f"a call of macro {value.macro.name} cannot be an argument; give it a name first"
    if isinstance(value, PrimExpr):
        return f"{value} is a size, not a value; write R.prim_value({value}) or R.shape([{value}])"
    return f"a {type(value).__name__} cannot be a value of a graph function"


# ------------------------------------------------------------------------------------------- calls


def call_tir(
    callee: Any,
    args: Any,
    out: Any = None,
    dtype: Any = None,
    *,
    out_sinfo: Any = None,
    out_ty: Any = None,
    tir_vars: Any = None,
) -> GraphCall:
    """Call a tensor function of the module; the caller allocates the outputs.

    `out` is a struct info, or a shape together with `dtype`, as in older releases of TVM. There a
    string as callee is a library function. Newer releases call `out_sinfo` `out_ty`, and
    `sinfo_args` `ty_args`.
    """
    infos = _outputs(out, dtype, _given_argument(out_sinfo, out_ty))
    operands = _operands(args)
    if isinstance(callee, (str, ExternFunc)):
        return calls.call_dps_packed(callee, operands, infos)
    return calls.call_tir(_gvar(callee), operands, infos, _tir_vars(tir_vars))


def call_tir_inplace(
    callee: Any,
    args: Any,
    inplace_indices: Any,
    out: Any = None,
    *,
    out_sinfo: Any = None,
    out_ty: Any = None,
    tir_vars: Any = None,
) -> GraphCall:
    """Call a tensor function of the module that overwrites arguments with outputs."""
    infos = _outputs(out, None, _given_argument(out_sinfo, out_ty))
    indices = [int(k) for k in np.atleast_1d(np.asarray(inplace_indices)).tolist()]
    return calls.call_tir_inplace(
        _gvar(callee), _operands(args), indices, infos, _tir_vars(tir_vars)
    )


def call_dps_packed(
    func: Any,
    args: Any,
    out: Any = None,
    dtype: Any = None,
    *,
    out_sinfo: Any = None,
    out_ty: Any = None,
) -> GraphCall:
    """Call a library function that writes to outputs, which follow its arguments."""
    return calls.call_dps_packed(
        func, _operands(args), _outputs(out, dtype, _given_argument(out_sinfo, out_ty))
    )


def call_packed(
    func: Any,
    *args: Any,
    sinfo_args: Any = None,
    ty_args: Any = None,
    num_outputs: int | None = None,
) -> GraphCall:
    """Call a library function that returns its result; it may have effects.

    With `num_outputs`, its only effect is to write to that number of last arguments.
    """
    infos = _infos(_given_argument(sinfo_args, ty_args, ()))
    operands = map(_library_argument, args)
    return calls.call_packed(_library(func), *operands, sinfo_args=infos, num_outputs=num_outputs)


def call_pure_packed(
    func: Any, *args: Any, sinfo_args: Any = None, ty_args: Any = None
) -> GraphCall:
    """Call a library function that returns its result and is free of side effects."""
    infos = _infos(_given_argument(sinfo_args, ty_args, ()))
    operands = map(_library_argument, args)
    return calls.call_pure_packed(_library(func), *operands, sinfo_args=infos)


def operator_call(
    operator: Operator, *args: Any, sinfo_args: Any = None, ty_args: Any = None, **attrs: Any
) -> GraphCall:
    """Call an operator: its operands by position, its attributes by name."""
    infos = _infos(_given_argument(sinfo_args, ty_args, ()))
    if not infos and callable(operator):  # declared operators have a signature
        call: GraphCall = operator(*args, **attrs)
        return call
    known = {name: _attribute(value) for name, value in attrs.items()}
    if operator is calls.CALL_GRAPH_INTO and args and isinstance(args[0], Callee):
        args = (args[0].gvar, *args[1:])
    operands = [a if isinstance(a, GlobalVar) else as_argument(a) for a in args]
    return GraphCall(operator, operands, known, infos)


def _attribute(value: Any) -> Any:
    """Return an attribute of a call; calls are immutable, so lists become tuples."""
    return tuple(map(_attribute, value)) if isinstance(value, (list, tuple)) else value


def _library(func: Any) -> str | ExternFunc:
    if isinstance(func, Callee):
        name = func.gvar.name
        raise IRTypeError(
            f"{name} is a function of the module; call a library function by its name in quotes, "
            f'"{name}", and a tensor function of the module by R.call_tir({name}, ...)'
        )
    known: str | ExternFunc = func
    return known


def _library_argument(value: Any) -> GraphExpr | GlobalVar:
    """Return an argument of a library function, which may be a function of the module."""
    if isinstance(value, Callee):
        return value.gvar
    return value if isinstance(value, GlobalVar) else as_argument(value)


def _gvar(callee: Any) -> GlobalVar:
    if isinstance(callee, Callee):
        return callee.gvar
    if isinstance(callee, GlobalVar):
        return callee
    if isinstance(callee, BaseFunc):
        raise IRTypeError(
            "a function from outside of the module cannot be called; write `name = function` "
            "in the class, and call cls.name"
        )
    raise IRTypeError(
        "a callee must be a function of the module, cls.f, or a string for a library function, "
        f"not a {type(callee).__name__}"
    )


def _operands(args: Any) -> Any:
    if isinstance(args, (tuple, list)):
        return Tuple(as_value(a) for a in args)
    return as_value(args)


def _outputs(out: Any, dtype: Any, out_sinfo: Any) -> Any:
    """Return the outputs of a call as struct infos; older releases write shapes and dtypes."""
    if out_sinfo is not None:
        return _stated(out_sinfo)
    if out is None:
        raise IRValueError('a call must state its outputs: out_sinfo=R.Tensor((...), "<dtype>")')
    if isinstance(out, StructInfo) or (
        isinstance(out, (tuple, list)) and out and all(isinstance(o, StructInfo) for o in out)
    ):
        return _stated(out)
    if dtype is None:
        raise IRValueError('the shape of an output needs a dtype: dtype="float32"')
    if isinstance(out, ShapeExpr):
        return TensorStructInfo(out.values, dtype_text(dtype))
    if not isinstance(out, (tuple, list)):
        raise IRTypeError(f"an output must be a struct info, or a shape and a dtype, not {out!r}")
    if not isinstance(dtype, (tuple, list)):
        return TensorStructInfo(sizes(out), dtype_text(dtype))
    if len(dtype) != len(out):
        raise IRValueError(f"there are {len(out)} shapes of outputs, but {len(dtype)} dtypes")
    return [TensorStructInfo(sizes(o), dtype_text(d)) for o, d in zip(out, dtype, strict=True)]


def emit_te(
    fn: Callable[..., Any],
    *args: Any,
    primfunc_name_hint: str | None = None,
    primfunc_attrs: dict[str, Any] | None = None,
    **kwargs: Any,
) -> FormulaRecord:
    """Call a new tensor function of the module that computes `fn(*args, **kwargs)`."""
    name = primfunc_name_hint or str(getattr(fn, "__name__", ""))
    # Imported late: tensor expressions import scripts.
    call_te = import_module("tensorir.relax.call_te")
    formula = call_te.formula_of(fn, args, kwargs)
    return FormulaRecord(formula, primfunc_attrs or {}, name if name.isidentifier() else "te_func")


def _given_argument(older: Any, newer: Any, otherwise: Any = None) -> Any:
    """Return the given one of two arguments with the same meaning."""
    given = newer if older is None else older
    return otherwise if given is None else given


def _stated(infos: Any) -> Any:
    return _infos(infos) if isinstance(infos, (tuple, list)) else struct_info_of(infos)


def _infos(infos: Any) -> Any:
    return [struct_info_of(i) for i in (infos if isinstance(infos, (tuple, list)) else [infos])]


def _tir_vars(values: Any) -> Any:
    return values if values is None or isinstance(values, ShapeExpr) else ShapeExpr(values)


# ------------------------------------------------------------------------------------------ leaves


def match_cast(value: Any, struct_info: Any) -> MatchCastRecord:
    """Check a value at run time; this defines the new sizes in the struct info."""
    return MatchCastRecord(as_value(value), struct_info_of(struct_info))


def const(value: Any, dtype: Any = None) -> Constant:
    """Return an array, a list or a number as a constant."""
    number = value.value if isinstance(value, PrimExpr) and hasattr(value, "value") else value
    kind = None if dtype is None else dtype_text(dtype)
    if kind is None and isinstance(value, PrimExpr):
        kind = value.dtype
    return const_of(number, kind)


def shape(values: Sequence[PrimExpr | int]) -> ShapeExpr:
    """Return a shape as a value."""
    return ShapeExpr(sizes(values))


def prim_value(value: Any) -> PrimValue:
    """Return a scalar to pass to tensor functions; a Python int is an int64."""
    if isinstance(value, str):
        raise IRTypeError(f"R.prim_value needs a number or a size, not {value!r}; write R.str(...)")
    return PrimValue(value)


def dtype(value: Any) -> DataTypeValue:
    """Return a dtype as a value."""
    return DataTypeValue(dtype_text(value))


def string(value: str) -> StringValue:
    """Return a string as a value."""
    if not isinstance(value, str):
        raise IRTypeError(f"R.str needs a string, not {value!r}")
    return StringValue(value)


def tuple_of(*values: Any) -> Tuple:
    """Return several values as one."""
    return Tuple(as_value(v) for v in values)


def output(*values: Any) -> OutputRecord:
    """Return the outputs of a dataflow block."""
    return OutputRecord(values)


# --------------------------------------------------------------------------------------- namespace


def _operators(prefix: str) -> Namespace:
    """Return the namespace of operators with a prefix, which ends in a dot or is ""."""

    def found(name: str) -> Any:
        if Operator.exists(prefix + name):
            call = partial(operator_call, Operator.get(prefix + name))
            call.__doc__ = f"Call the operator {prefix}{name}."
            return call
        if any(known.startswith(f"{prefix}{name}.") for known in Operator.names()):
            return _operators(f"{prefix}{name}.")
        return None

    def names() -> set[str]:
        rests = (n[len(prefix) :] for n in Operator.names() if n.startswith(prefix))
        return {rest.split(".")[0] for rest in rests}

    return Namespace(f"R.{prefix}".rstrip("."), {} if prefix else _TABLE, found, names, _ADVICE)


_ADVICE = (
    "; R.call_tir calls a tensor function, R.call_dps_packed a library function, and "
    "R.emit_te makes a tensor function of a tensor expression"
)


_TABLE: dict[str, Any] = {
    "Tensor": infos.tensor,
    "Tuple": infos.tuple_of,
    "Shape": infos.shape,
    "Prim": infos.prim,
    "Callable": infos.function,
    "Object": infos.object_,
    "Any": infos.object_,
    "call_tir": call_tir,
    "call_tir_inplace": call_tir_inplace,
    "call_dps_packed": call_dps_packed,
    "call_packed": call_packed,
    "call_pure_packed": call_pure_packed,
    "emit_te": emit_te,
    "match_cast": match_cast,
    "const": const,
    "array": array_of_bytes,
    "shape": shape,
    "prim_value": prim_value,
    "str": string,
    "dtype": dtype,
    "tuple": tuple_of,
    "ExternFunc": ExternFunc,
    "dataflow": DataflowFrame,
    "output": output,
    "func_attr": frames.func_attr,
}
OLD_NAMES = {name: _TABLE[name] for name in ("Tensor", "Tuple", "Shape", "Callable", "Object")}
"""Names of annotations that older releases write without `R.`."""

R: Any = _operators("")
