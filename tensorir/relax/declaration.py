"""Operators, each declared once by a Python function.

    @operator("nn.relu")                              # a formula over te tensors
    def relu(x: Tensor) -> Tensor:
        return te.compute(x.shape, lambda *i: te.max(x[i], te.const(0, x.dtype)), name="relu")

    @composite("nn.silu")                             # other operators
    def silu(x: GraphExpr) -> GraphExpr:
        return x * op.sigmoid(x)

    @library("nonzero", result=lambda x: TensorStructInfo(dtype="int64", ndim=2))
    def nonzero(x: np.ndarray) -> np.ndarray:         # NumPy, when the model runs
        return np.stack(np.nonzero(x))

The signature declares the arguments (`tensorir.relax.signature`). The struct info of a call and its
lowered form (`transform.LegalizeOps`) are derived from the function. A declared operator is called
as `relax.op.nn.relu(x)`, and as `R.nn.relu(x)` in scripts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Final, TypeAlias, TypeVar

import numpy as np

from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import GlobalVar, PrimExpr, Var
from tensorir.relax.bfloat16_bits import bits_of, numbers_of
from tensorir.relax.call_te import Formula, FormulaCache, formula_of, tensors_in
from tensorir.relax.calls import call_pure_packed, call_tir
from tensorir.relax.dimension_order import DimensionOrder
from tensorir.relax.expr import GraphCall, GraphExpr, GraphVar, StringValue, Tuple, tensor_info
from tensorir.relax.operator import LIBRARY_PREFIX, Operator
from tensorir.relax.relations import known_by
from tensorir.relax.signature import Kind, Signature, immediate
from tensorir.relax.struct_info import (
    UNKNOWN_NDIM,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tensorir.rewriting.visit import collect_vars
from tensorir.te.compute import maps_elements

F = TypeVar("F", bound=Callable[..., Any])

Prepare: TypeAlias = "Callable[[dict[str, Any]], dict[str, Any]]"
"""Converts the arguments of a call, by name, to the form that the call stores."""


class DeclaredOperator(Operator):
    """An operator with a signature; calling it with values of a graph function returns a call."""

    __slots__ = ("function", "prepare", "signature")
    what: ClassVar[str] = "operator"

    def __init__(
        self, name: str, function: Callable[..., Any], prepare: Prepare | None = None
    ) -> None:
        super().__init__(self.prefix + name, self._infer, True)
        self.function = function
        self.prepare = prepare
        self.signature = Signature(name, function)

    def __call__(self, *args: Any, **kwargs: Any) -> GraphCall:
        """Return a call.

        Tensors are values of a graph function, arrays or numbers (with the dtype of the first
        tensor), shapes are sequences of integers and sizes. Raises IRTypeError for unknown
        arguments and arguments of the wrong kind, and IRTypeError or IRValueError for operands that
        do not match.
        """
        given = self.signature.by_name(args, kwargs)
        with self._errors_named():
            prepared = given if self.prepare is None else self.prepare(given)
        operands, attrs = self.signature.bind(prepared)
        return GraphCall(self, operands, attrs)

    def arguments(self, call: GraphCall) -> dict[str, Any]:
        """Return the operands and attributes of a call by parameter name."""
        return self.signature.arguments(call.args, call.attrs)  # type: ignore[arg-type]

    def shown_attrs(self, attrs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the attributes that a script prints: values other than the defaults."""
        return self.signature.shown_attrs(attrs)

    def _infer(
        self, args: Sequence[GraphExpr], attrs: Mapping[str, Any], sinfo_args: Sequence[StructInfo]
    ) -> StructInfo:
        with self._errors_named():
            return self.result(self.signature.arguments(args, attrs))

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        """Add the operator's name to errors about operands, in a `with` statement."""
        try:
            yield
        except (IRTypeError, IRValueError) as error:
            if str(error).startswith(self.short_name):
                raise
            raise type(error)(f"{self.short_name}: {error}") from None

    def result(self, arguments: dict[str, Any]) -> StructInfo:
        """Return the struct info of a call with these arguments."""
        raise NotImplementedError


class FormulaOperator(DeclaredOperator):
    """An operator that is a formula over te tensors.

    `dimension_order` is the rule for operands with dimensions in another order. It is None if there
    is none, and for an elementwise operator.
    """

    __slots__ = ("_cache", "dimension_order")

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        dimension_order: DimensionOrder | None = None,
        prepare: Prepare | None = None,
    ) -> None:
        super().__init__(name, function, prepare)
        self.dimension_order = dimension_order
        self._cache = FormulaCache()

    def _infer(
        self, args: Sequence[GraphExpr], attrs: Mapping[str, Any], sinfo_args: Sequence[StructInfo]
    ) -> StructInfo:
        return self._cached_build(args, attrs)[0]

    def formula(self, call: GraphCall) -> Formula | None:
        """Return the formula of a call, with parameters named as those of the function.

        Return None if a shape or dtype of an operand is unknown.
        """
        return self._cached_build(call.args, call.attrs)[1]

    def kernel_call(self, call: GraphCall, formula: Formula, name: GlobalVar) -> GraphCall:
        """Return the call of the tensor function `name` of a formula that replaces a call."""
        tensors = tensors_in(self.formula_arguments(self.arguments(call)))
        return call_tir(name, tensors, list(formula.infos), formula.sizes or None)

    def is_elementwise(self, call: GraphCall) -> bool:
        """Return True if each result element depends only on the operands' elements at its
        position.

        Operands may be broadcast. The result is derived from the formula.
        """
        formula = self.formula(call)
        return formula is not None and maps_elements(formula.outputs)

    def _cached_build(
        self, args: Sequence[Any], attrs: Mapping[str, Any]
    ) -> tuple[StructInfo, Formula | None]:
        """Return the result of a call and its formula, which is built once for equal calls."""

        def build() -> tuple[StructInfo, Formula | None]:
            with self._errors_named():
                return self._build(self.signature.arguments(args, attrs))

        built: tuple[StructInfo, Formula | None] = self._cache.of(args, attrs, build)
        return built

    def _build(self, arguments: Mapping[str, Any]) -> tuple[StructInfo, Formula | None]:
        """Return the struct info of the result, and the formula if all shapes are known.

        Unknown dimensions are variables while the formula is evaluated; dimensions of the result
        that depend on them are unknown.
        """
        unknown: dict[Var, None] = {}
        known: dict[str, Any] = {}
        for name, value in arguments.items():
            known[name] = _with_unknown_sizes(value, unknown)
            if known[name] is _UNKNOWN:
                return TensorStructInfo(None, None), None
        try:
            formula = formula_of(
                self.function, (), self.formula_arguments(known), named_by_parameter=True
            )
        except IRValueError:
            if unknown:
                return TensorStructInfo(None, None), None
            raise
        result = TupleStructInfo(formula.infos) if formula.is_list else formula.infos[0]
        if not unknown:
            # The cached formula must not keep weights alive.
            return result, replace(formula, args=())
        return known_by(result, [v for v in collect_vars(result) if v not in unknown]), None

    def formula_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of the formula.

        A constant for a `Tensor | PrimExpr` becomes a number.
        """
        result = dict(arguments)
        for p in self.signature.operands:
            value = arguments[p.name]
            if p.kind is Kind.VALUE and value is not None:
                number = immediate(value)
                result[p.name] = value if number is None else number
        return result


class CompositeOperator(DeclaredOperator):
    """An operator that is an expression of other operators."""

    __slots__ = ("_result",)

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        result: Callable[..., StructInfo] | None,
        prepare: Prepare | None = None,
    ) -> None:
        super().__init__(name, function, prepare)
        self._result = result

    def result(self, arguments: dict[str, Any]) -> StructInfo:
        """Return the struct info of the expression."""
        if self._result is not None:
            return self._result(**arguments)
        return self.expression(arguments).struct_info

    def expression(self, arguments: Mapping[str, Any]) -> GraphExpr:
        """Return the expression of a call with these arguments."""
        value = self.function(**arguments)
        return Tuple(value) if isinstance(value, (tuple, list)) else value


class LibraryOperator(DeclaredOperator):
    """An operator that NumPy computes at run time, usually with a data-dependent shape."""

    __slots__ = ("_result",)

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        result: Callable[..., StructInfo],
        prepare: Prepare | None = None,
    ) -> None:
        super().__init__(name, function, prepare)
        self._result = result

    def result(self, arguments: dict[str, Any]) -> StructInfo:
        """Return the struct info of the result, as far as it is known."""
        return self._result(**arguments)

    def library_call(self, call: GraphCall) -> GraphCall:
        """Return the call of the library function: operands, then attributes as JSON.

        An entry "bfloat16" has the numbers of operands and of results with this dtype.
        """
        attributes = dict(call.attrs)
        operands = [arg for arg in call.args if isinstance(arg, GraphExpr)]
        result = call.struct_info
        results = result.elements if isinstance(result, TupleStructInfo) else [result]
        places = _places_of_bfloat16(x.struct_info for x in operands), _places_of_bfloat16(results)
        if any(places):
            attributes["bfloat16"] = places
        return call_pure_packed(
            LIBRARY_PREFIX + self.short_name,
            StringValue(json.dumps(attributes)),
            *operands,
            sinfo_args=result,
        )

    def run(self, attributes: str, *operands: Any) -> Any:
        """Compute the operator for arrays: the library function that `library_call` names.

        The function computes with float32 in place of bfloat16.
        """
        attrs = {
            key: tuple(v) if isinstance(v, list) else v for key, v in json.loads(attributes).items()
        }
        wide, rounded = attrs.pop("bfloat16", ((), ()))
        if attrs.get("dtype") == "bfloat16":
            attrs["dtype"] = "float32"
        arguments: dict[str, Any] = {p.name: None for p in self.signature.operands}
        for k, (p, value) in enumerate(zip(self.signature.operands, operands, strict=False)):
            array = _array(value)
            arguments[p.name] = numbers_of(array) if k in wide else array
        result = self.function(**arguments, **attrs)
        if isinstance(result, (tuple, list)):
            parts = (bits_of(part) if k in rounded else part for k, part in enumerate(result))
            return _contiguous(tuple(parts))
        return _contiguous(bits_of(result) if rounded else result)


def _places_of_bfloat16(infos: Iterable[StructInfo]) -> list[int]:
    return [
        k
        for k, info in enumerate(infos)
        if isinstance(info, TensorStructInfo) and info.dtype == "bfloat16"
    ]


def library_function(name: str) -> Callable[..., Any] | None:
    """Return the function of an operator's library call; None for another name."""
    operator = name.removeprefix(LIBRARY_PREFIX)
    # `Operator.exists` loads the declarations of operators and library calls.
    if operator == name or not Operator.exists(operator):
        return _LIBRARY_CALLS.get(name)
    found = Operator.get(operator)
    return found.run if isinstance(found, LibraryOperator) else None


def library_call(name: str) -> Callable[[F], F]:
    """Register a library function that is not an operator, for arguments that operators do not
    have.

    Call it by `call_pure_packed(LIBRARY_PREFIX + name, ...)`.
    """

    def declare(function: F) -> F:
        _LIBRARY_CALLS[LIBRARY_PREFIX + name] = function
        return function

    return declare


_LIBRARY_CALLS: Final[dict[str, Callable[..., Any]]] = {}


def operator(
    name: str,
    dimension_order: DimensionOrder | None = None,
    prepare: Prepare | None = None,
) -> Callable[[F], F]:
    """Declare an operator by a formula over te tensors; `name` is without `relax.`.

    `dimension_order` is a rule of `tensorir.relax.dimension_order`, for operators whose attributes
    name dimensions. `prepare` converts the arguments of a call before they are checked; for
    example, it computes sizes that follow from other arguments.
    """
    return _declarator(FormulaOperator, name, dimension_order, prepare)


def composite(
    name: str,
    result: Callable[..., StructInfo] | None = None,
    prepare: Prepare | None = None,
) -> Callable[[F], F]:
    """Declare an operator by an expression of other operators.

    `result(**arguments)` returns its struct info, for expressions that are slow to build; see
    `operator` for `prepare`.
    """
    return _declarator(CompositeOperator, name, result, prepare)


def library(
    name: str, result: Callable[..., StructInfo], prepare: Prepare | None = None
) -> Callable[[F], F]:
    """Declare an operator by a function of NumPy arrays; `result(**arguments)` is its struct info.

    The function gets operands as read-only arrays, None for absent ones, and float32 in place of
    bfloat16. See `operator` for `prepare`.
    """
    return _declarator(LibraryOperator, name, result, prepare)


def _declarator(
    kind: Callable[..., DeclaredOperator], name: str, *options: Any
) -> Callable[[F], F]:
    def declare(function: F) -> F:
        kind(name, function, *options).added()
        return function

    return declare


_UNKNOWN: Final = object()


def _with_unknown_sizes(value: Any, unknown: dict[Var, None]) -> Any:
    """Return an argument of known shape: unknown dimensions become variables.

    Return `_UNKNOWN` if the rank is unknown.
    """
    if isinstance(value, tuple) and value and isinstance(value[0], GraphExpr):
        fields = tuple(_with_unknown_sizes(v, unknown) for v in value)
        return _UNKNOWN if any(field is _UNKNOWN for field in fields) else fields
    info = value.struct_info if isinstance(value, GraphExpr) else None
    if not isinstance(info, TensorStructInfo):
        return value
    if info.dtype is None or info.ndim == UNKNOWN_NDIM:
        return _UNKNOWN
    if info.shape is not None:
        return value
    sizes = [Var(f"d{k}", "int64") for k in range(info.ndim)]
    unknown.update(dict.fromkeys(sizes))
    return GraphVar("x", TensorStructInfo(sizes, info.dtype))


def _contiguous(result: Any) -> Any:
    """Return the result of a library function with arrays in row-major order."""
    if isinstance(result, (tuple, list)):
        return tuple(map(_contiguous, result))
    if isinstance(result, np.ndarray) and not result.flags.c_contiguous:
        return result.copy(order="C")
    return np.asarray(result) if isinstance(result, np.generic) else result


def _array(value: Any) -> Any:
    """Return an operand of a library function as a read-only array."""
    if isinstance(value, tuple) and not value:
        return None
    if isinstance(value, (tuple, list)):
        return tuple(_array(v) for v in value)
    if isinstance(value, (int, float, str, PrimExpr)):
        return value
    array = np.from_dlpack(value) if not isinstance(value, np.ndarray) else value.view()
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


# ------------------------------------------------------------------ facts that declarations ask for


def rank_of(x: GraphExpr) -> int:
    """Return the rank of a tensor. Raises IRTypeError if it is unknown."""
    info = tensor_info(x)
    if info.ndim == UNKNOWN_NDIM:
        raise IRTypeError(f"the rank of a tensor must be known, got {info}; state it by match_cast")
    return info.ndim


def shape_of(x: GraphExpr) -> tuple[PrimExpr, ...]:
    """Return the shape of a tensor. Raises IRTypeError if it is unknown."""
    info = tensor_info(x)
    if info.shape is None:
        raise IRTypeError(
            f"the shape of a tensor must be known, got {info}; state it by match_cast"
        )
    return info.shape


def dtype_of(x: GraphExpr) -> DataType:
    """Return the dtype of a tensor. Raises IRTypeError if it is unknown."""
    info = tensor_info(x)
    if info.dtype is None:
        raise IRTypeError(
            f"the dtype of a tensor must be known, got {info}; state it by match_cast"
        )
    return info.dtype
