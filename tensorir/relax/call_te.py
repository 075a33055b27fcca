"""Tensor functions from formulas over the arguments of a call.

    def kernel(A, axis):                      # A is a te tensor here
        return te.compute(A.shape, lambda i, j: te.exp(A[i, j]), name="exp")

While the formula is built, a placeholder represents each value of the graph function. The new
tensor function has these values as parameters, in the order of their first use.

A model has many calls of an operator that differ only in their values: `FormulaCache` stores one
formula and one function for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from tensorir import te
from tensorir.arith import Analyzer
from tensorir.arith.terms import expr_key
from tensorir.errors import IRTypeError
from tensorir.function import PrimFunc
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import GlobalVar, IntImm, PrimExpr, Var
from tensorir.nodes.ops import cast
from tensorir.relax import expr as g
from tensorir.relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tensorir.rewriting.visit import collect_vars
from tensorir.te.tensor import Tensor

_PLAIN: Final = (int, float, str, bool, type(None), PrimExpr)


@dataclass(frozen=True, eq=False)
class Formula:
    """The tensors that a formula returns, for arguments of known shapes.

    `args` are the graph values that it was built for, `inputs` their tensors. `sizes` are further
    integer arguments of the function, which the shapes of the inputs do not determine. `is_list` is
    True if the formula returned a list.
    """

    args: tuple[g.GraphExpr, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    sizes: tuple[Var, ...]
    is_list: bool

    @cached_property
    def infos(self) -> tuple[TensorStructInfo, ...]:
        """The struct infos of the outputs."""
        analyzer = Analyzer()
        return tuple(
            TensorStructInfo([analyzer.simplify(cast(INT64, n)) for n in out.shape], out.dtype)
            for out in self.outputs
        )

    @cached_property
    def func(self) -> PrimFunc:
        """The tensor function, with int64 indices and without `global_symbol`.

        Inputs and tensors that are returned twice are copied.
        """
        own: list[Tensor] = []
        for tensor in self.outputs:
            is_taken = any(tensor is other for other in (*self.inputs, *own))
            own.append(_copy_tensor(tensor) if is_taken else tensor)
        func = te.create_prim_func([*self.inputs, *own, *self.sizes], index_dtype_override="int64")
        return func.without_attr("global_symbol")


def formula_of(
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    leaf: Callable[[g.GraphExpr], g.GraphExpr] = lambda value: value,
    named_by_parameter: bool = False,
) -> Formula:
    """Return the formula `fn(*args, **kwargs)`.

    Tensors become placeholders, shapes become lists of integers, scalar values become expressions;
    lists, tuples and dicts are converted item by item; other values are passed unchanged. `fn`
    returns one or several tensors. `leaf` returns the value that the call uses for an argument.
    Placeholders are named after the variables that they represent, or after the parameters of `fn`.
    Raises IRTypeError for another kind of argument or result.
    """
    inputs = _Inputs(leaf, named_by_parameter)
    positional = [inputs.converted(arg, str(k)) for k, arg in enumerate(args)]
    named = {key: inputs.converted(arg, key) for key, arg in kwargs.items()}
    result = fn(*positional, **named)
    is_list = isinstance(result, (list, tuple))
    outputs = tuple(result) if is_list else (result,)
    for tensor in outputs:
        if not isinstance(tensor, Tensor):
            raise IRTypeError(
                f"the function of call_te must return a te tensor or a list of them, got "
                f"{type(tensor).__name__}"
            )
    return Formula(
        tuple(inputs.values), tuple(inputs.tensors), outputs, tuple(inputs.undefined()), is_list
    )


def tensors_in(value: Any) -> list[g.GraphExpr]:
    """Return the graph values in an argument that a formula receives as tensors, in order."""
    if isinstance(value, Mapping):
        return [tensor for v in value.values() for tensor in tensors_in(v)]
    if isinstance(value, (list, tuple)):
        return [tensor for v in value for tensor in tensors_in(v)]
    if isinstance(value, g.Tuple):
        return tensors_in(value.elements)
    is_tensor = isinstance(value, g.GraphExpr) and isinstance(value.struct_info, TensorStructInfo)
    return [value] if is_tensor else []


@dataclass
class _Inputs:
    """The inputs of a formula: graph values, their tensors, and integer variables."""

    leaf: Callable[[g.GraphExpr], g.GraphExpr]
    named_by_parameter: bool
    values: list[g.GraphExpr] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    variables: dict[Var, None] = field(default_factory=dict)
    """The integers in shapes and scalar arguments, in order of appearance."""

    def converted(self, value: Any, name: str) -> Any:
        """Return an argument in the form that the formula receives; `name` is for messages."""
        if isinstance(value, g.GraphExpr):
            return self._value(self.leaf(value), name)
        if isinstance(value, Mapping):
            if not all(isinstance(key, str) for key in value):
                raise IRTypeError(
                    f"argument {name} of call_te is a dict with keys other than strings"
                )
            return {key: self.converted(v, f"{name}[{key!r}]") for key, v in value.items()}
        if isinstance(value, (list, tuple)):
            items = [self.converted(v, f"{name}[{k}]") for k, v in enumerate(value)]
            return tuple(items) if isinstance(value, tuple) else items
        if isinstance(value, PrimExpr):
            self._needs(value)
        if isinstance(value, _PLAIN):
            return value
        raise IRTypeError(
            f"argument {name} of call_te is a {type(value).__name__}; a formula accepts values of "
            "the graph function, numbers, strings, None, and lists, tuples and dicts of them"
        )

    def _value(self, value: g.GraphExpr, name: str) -> Any:
        if isinstance(value, g.PrimValue):
            self._needs(value.value)
            return value.value
        if isinstance(value, g.ShapeExpr):
            for extent in value.values:
                self._needs(extent)
            return list(value.values)
        if isinstance(value, (g.StringValue, g.DataTypeValue)):
            return value.value
        if isinstance(value, g.Tuple):
            return [self._value(v, f"{name}[{k}]") for k, v in enumerate(value.elements)]
        info = value.struct_info
        if not isinstance(info, TensorStructInfo) or info.shape is None or info.dtype is None:
            shown = f"{name}, {value.name}," if isinstance(value, g.GraphVar) else name
            raise IRTypeError(
                f"argument {shown} of call_te is {info}; a formula needs a tensor whose shape and "
                "dtype are known; state them by match_cast"
            )
        for extent in info.shape:
            self._needs(extent)
        position = len(self.tensors)
        if self.named_by_parameter:
            label = re.sub(r"\W+", "_", name).strip("_")
        elif isinstance(value, g.GraphVar):
            label = value.name
        else:
            label = chr(ord("A") + position) if position < 26 else f"A{position}"
        tensor = te.placeholder(info.shape, info.dtype, label)
        self.values.append(value)
        self.tensors.append(tensor)
        return tensor

    def _needs(self, expr: PrimExpr) -> None:
        self.variables.update(dict.fromkeys(collect_vars(expr)))

    def undefined(self) -> list[Var]:
        """Return the variables that the shapes of the tensors do not define."""
        defined = {n for tensor in self.tensors for n in tensor.shape if isinstance(n, Var)}
        return [var for var in self.variables if var not in defined]


def _copy_tensor(tensor: Tensor) -> Tensor:
    return te.compute(tensor.shape, lambda *i: tensor[i], name="T_identity")


# ------------------------------------------------------------------------- formulas of equal calls


class FormulaCache:
    """The formulas of an operator by the struct infos and attributes of its calls."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[Any, Sequence[StructInfo]]] = {}
        """The cached results, with the struct infos of the operands.

        Keys contain the identities of symbolic sizes, so the struct infos must stay alive.
        """

    def of(
        self,
        args: Sequence[g.GraphExpr | GlobalVar],
        attrs: Mapping[str, Any],
        make: Callable[[], Any],
    ) -> Any:
        """Return the cached result for an equal call, or call `make` and cache its result."""
        parts = tuple(map(_argument_key, args))
        if _NONE in parts:
            return make()
        key = parts, repr(attrs)
        known = self._known.get(key)
        if known is None:
            infos = [arg.struct_info for arg in args if isinstance(arg, g.GraphExpr)]
            known = make(), infos
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = known
        return known[0]


_MOST_KNOWN: Final = 1 << 10
"""The number of calls of an operator that are cached."""
_NONE: Final = object()


def _argument_key(arg: g.GraphExpr | GlobalVar) -> Hashable:
    if isinstance(arg, GlobalVar):
        return _NONE
    if isinstance(arg, g.Constant) and arg.source.shape == ():
        # The value of the constant may be a number in the formula.
        return arg.data.tobytes(), _info_key(arg.struct_info)
    if isinstance(arg, g.Tuple):
        keys = tuple(map(_argument_key, arg.elements))
        return _NONE if _NONE in keys else keys
    return arg.value if isinstance(arg, g.StringValue) else _info_key(arg.struct_info)


def _info_key(info: StructInfo) -> Hashable:
    if isinstance(info, TensorStructInfo):
        return _extents_key(info.shape), info.ndim, info.dtype
    if isinstance(info, ShapeStructInfo):
        return "shape", _extents_key(info.values), info.ndim
    if isinstance(info, PrimStructInfo) and info.value is not None:
        return "number", info.dtype, _extent_key(info.value)
    if isinstance(info, TupleStructInfo):
        keys = tuple(map(_info_key, info.elements))
        return _NONE if _NONE in keys else keys
    return _NONE


def _extents_key(extents: Sequence[PrimExpr] | None) -> Hashable:
    return None if extents is None else tuple(map(_extent_key, extents))


def _extent_key(extent: PrimExpr) -> Hashable:
    key: Hashable = extent.value if isinstance(extent, IntImm) else expr_key(extent)
    return key
