"""Tensor functions from formulas over the arguments of a call.

    def kernel(A, axis):                      # A is a te tensor here
        return te.compute(A.shape, lambda i, j: te.exp(A[i, j]), name="exp")

While the formula is built, a placeholder represents each value of the graph function. The new
tensor function has these values as parameters, in the order of their first use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tensorir import te
from tensorir.arith import Analyzer
from tensorir.errors import IRTypeError
from tensorir.function import PrimFunc
from tensorir.nodes.dtype import INT64, DataType
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.ops import cast
from tensorir.relax import expr as g
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.rewriting.visit import collect_vars
from tensorir.te.tensor import Tensor

_PLAIN: Final = (int, float, str, bool, type(None), PrimExpr)


@dataclass(frozen=True)
class Kernel:
    """A tensor function with its arguments and results.

    `args` are its arguments, `outputs` the struct infos of its results. `sizes` are further integer
    arguments that the shapes of the arguments do not determine.
    """

    func: PrimFunc
    args: tuple[g.GraphExpr, ...]
    outputs: tuple[TensorStructInfo, ...]
    sizes: tuple[Var, ...]


def kernel_of(
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    attrs: Mapping[str, Any] | None = None,
    leaf: Callable[[g.GraphExpr], g.GraphExpr] = lambda value: value,
) -> Kernel:
    """Return the tensor function that computes `fn(*args, **kwargs)`.

    Tensors become placeholders, shapes become lists of integers, scalar values become expressions;
    lists, tuples and dicts are converted item by item, plain values stay. `fn` returns one or
    several tensors. Extents, loops and indices of the function are int64. It has no
    `global_symbol`; `attrs` are added to its attributes, `leaf` returns the value to use in the
    call. Raises IRTypeError for another kind of argument or result.
    """
    inputs = _Inputs(leaf)
    outputs = _own(_tensors(inputs.applied(fn, args, kwargs)), inputs.tensors)
    sizes = tuple(inputs.undefined())
    func = te.create_prim_func([*inputs.tensors, *outputs, *sizes], index_dtype_override="int64")
    func = func.without_attr("global_symbol").with_attrs(attrs or {})
    infos = tuple(TensorStructInfo(*info) for info in _infos(outputs))
    return Kernel(func, tuple(inputs.values), infos, sizes)


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


class Outputs(NamedTuple):
    """The tensors that a formula returns, their shapes and dtypes, and whether it is a list."""

    tensors: list[Tensor]
    infos: list[tuple[list[PrimExpr], DataType]]
    is_list: bool


def outputs_of(fn: Callable[..., Any], kwargs: Mapping[str, Any]) -> Outputs:
    """Return the outputs of `fn(**kwargs)`, for arguments as in `kernel_of`."""
    result = _Inputs(lambda value: value).applied(fn, (), kwargs)
    tensors = _tensors(result)
    return Outputs(tensors, _infos(tensors), isinstance(result, (list, tuple)))


def _infos(outputs: Sequence[Tensor]) -> list[tuple[list[PrimExpr], DataType]]:
    analyzer = Analyzer()
    return [
        ([analyzer.simplify(cast(INT64, n)) for n in tensor.shape], tensor.dtype)
        for tensor in outputs
    ]


@dataclass
class _Inputs:
    """The inputs of a formula: graph values, their tensors, and integer variables."""

    leaf: Callable[[g.GraphExpr], g.GraphExpr]
    values: list[g.GraphExpr] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    variables: dict[Var, None] = field(default_factory=dict)
    """The integers in shapes and scalar arguments, in order of appearance."""

    def applied(
        self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Return the result of a formula for these arguments."""
        positional = [self.converted(arg, f"argument {k}") for k, arg in enumerate(args)]
        named = {key: self.converted(arg, f"argument {key}") for key, arg in kwargs.items()}
        return fn(*positional, **named)

    def converted(self, value: Any, name: str) -> Any:
        """Return an argument in the form that the formula receives; `name` is for messages."""
        if isinstance(value, g.GraphExpr):
            return self._value(self.leaf(value), name)
        if isinstance(value, Mapping):
            if not all(isinstance(key, str) for key in value):
                raise IRTypeError(f"{name} of call_te is a dict with keys other than strings")
            return {key: self.converted(v, f"{name}[{key!r}]") for key, v in value.items()}
        if isinstance(value, (list, tuple)):
            items = [self.converted(v, f"{name}[{k}]") for k, v in enumerate(value)]
            return tuple(items) if isinstance(value, tuple) else items
        if isinstance(value, PrimExpr):
            self._needs(value)
        if isinstance(value, _PLAIN):
            return value
        raise IRTypeError(
            f"{name} of call_te is a {type(value).__name__}; a formula accepts values of the graph "
            "function, numbers, strings, None, and lists, tuples and dicts of them"
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
                f"{shown} of call_te is {info}; a formula needs a tensor whose shape and dtype are "
                "known: match_cast states them"
            )
        for extent in info.shape:
            self._needs(extent)
        position = len(self.tensors)
        letter = chr(ord("A") + position) if position < 26 else f"A{position}"
        tensor = te.placeholder(
            info.shape, info.dtype, value.name if isinstance(value, g.GraphVar) else letter
        )
        self.values.append(value)
        self.tensors.append(tensor)
        return tensor

    def _needs(self, expr: PrimExpr) -> None:
        self.variables.update(dict.fromkeys(collect_vars(expr)))

    def undefined(self) -> list[Var]:
        """Return the variables that the shapes of the tensors do not define."""
        defined = {n for tensor in self.tensors for n in tensor.shape if isinstance(n, Var)}
        return [var for var in self.variables if var not in defined]


def _own(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
    """Return the outputs of a formula as distinct tensors; copy inputs and repeated tensors."""
    own: list[Tensor] = []
    for tensor in outputs:
        is_taken = any(tensor is other for other in (*inputs, *own))
        own.append(_copied(tensor) if is_taken else tensor)
    return own


def _copied(tensor: Tensor) -> Tensor:
    return te.compute(tensor.shape, lambda *i: tensor[i], name="T_identity")


def _tensors(result: Any) -> list[Tensor]:
    tensors = list(result) if isinstance(result, (list, tuple)) else [result]
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise IRTypeError(
                f"the function of call_te must return a te tensor or a list of them, got "
                f"{type(tensor).__name__}"
            )
    return tensors
