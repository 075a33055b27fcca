"""The contents of integer tensors: elements that are known while a model is read.

Contents are an array of numbers, or an array of objects: integers and integer expressions over
symbolic sizes. Symbolic elements, and a few integers, are computed by an analyzer from the
operator's `te` formula. `FoldConstant` computes larger arrays of numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import product
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tensorir import te
from tensorir.arith import Analyzer
from tensorir.errors import IRTypeError, IRValueError
from tensorir.frontend.onnx.limits import ImportLimits
from tensorir.function import IRModule
from tensorir.nodes import expr as e
from tensorir.nodes.dtype import INT64
from tensorir.nodes.ops import FALSE, TRUE, const, logical_not
from tensorir.relax import expr as g
from tensorir.relax.declaration import CompositeOperator, DeclaredOperator, FormulaOperator
from tensorir.relax.function import Function
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.rewriting.visit import Rewriter, collect_vars, substitute, walk
from tensorir.te.tensor import ComputeOp, Tensor
from tensorir.transform import FoldConstant

Array: TypeAlias = NDArray[Any]
Contents: TypeAlias = Callable[[g.GraphExpr], Array | None]

_OF_SIZES: Final = (
    e.IntImm, e.Var, e.Add, e.Sub, e.Mul, e.FloorDiv, e.FloorMod, e.Div, e.Max, e.Min,
)  # fmt: skip
"""Node classes that occur in the expression of a size."""
_SHORT: Final = 16
"""Up to this number, constant elements are computed one by one too, which saves a compilation."""


def contents_of_call(
    call: g.GraphCall, contents: Contents, analyzer: Analyzer, limits: ImportLimits
) -> Array | None:
    """Return the elements of the result of an operator; None if unknown or too many.

    `contents` returns the known elements of operands.
    """
    info, op = call.struct_info, call.op
    if not isinstance(info, TensorStructInfo) or not isinstance(op, DeclaredOperator):
        return None
    shape = info.static_shape
    if shape is None:
        return None
    if isinstance(op, CompositeOperator):
        return contents(op.expression(op.signature.arguments(call.args, call.attrs)))  # type: ignore[arg-type]
    operands = [leaf for arg in call.args for leaf in _tensors(arg)]
    found = [contents(leaf) for leaf in operands]
    arrays = [array for array in found if array is not None]
    if len(arrays) < len(found) or not isinstance(op, FormulaOperator):
        return None
    if max(sum(array.size for array in arrays), math.prod(shape)) > limits.max_known_elements:
        return None
    known = dict(zip(operands, arrays, strict=True))
    has_sizes = bool(collect_vars(call)) or any(array.dtype == object for array in arrays)
    is_short = math.prod(shape) <= _SHORT and all(a.dtype in (bool, np.int64) for a in arrays)
    if has_sizes or (is_short and info.dtype in ("bool", "int64")):
        with suppress(_UndecidedError, IRTypeError, IRValueError, OverflowError):
            return _Elements(op, call, known, analyzer, limits).of_result()
    return None if has_sizes else _fold_constants(call, known)


def as_array(values: Sequence[Any]) -> Array:
    """Return a list of integers and expressions as contents."""
    plain = [v.value if isinstance(v, e.IntImm) else v for v in values]
    if all(isinstance(v, (int, np.integer)) for v in plain):
        return np.array(plain, np.int64)
    result = np.empty(len(plain), object)
    result[:] = plain
    return result


def _tensors(value: Any) -> list[g.GraphExpr]:
    """Return the tensors of an operand: the operand itself, or the elements of a tuple."""
    if isinstance(value, g.Tuple):
        return [tensor for field in value.elements for tensor in _tensors(field)]
    return [value] if isinstance(value.struct_info, TensorStructInfo) else []


def _fold_constants(call: g.GraphCall, known: Mapping[g.GraphExpr, Array]) -> Array | None:
    """Return the result of an operator on constants."""

    def constant(value: Any) -> Any:
        if isinstance(value, g.Tuple):
            return g.Tuple(map(constant, value.elements))
        if value not in known or isinstance(value, g.Constant):
            return value
        return g.Constant(known[value], value.struct_info.dtype)

    on_constants = g.GraphCall(call.op, [constant(arg) for arg in call.args], call.attrs)
    var = g.GraphVar("value", call.struct_info)
    body = g.SeqExpr([g.BindingBlock([g.VarBinding(var, on_constants)])], var)
    folded = FoldConstant()(IRModule({"main": Function([], body)}))["main"]
    result = folded.body.body if isinstance(folded, Function) else None
    return result.data if isinstance(result, g.Constant) else None


class _UndecidedError(Exception):
    """An element can be computed only when the model runs."""


class _Elements(Rewriter):
    """Evaluates the elements of a formula: loads become elements, and conditions are decided.

    32-bit integers are computed with 64 bits: sizes are assumed to fit in 32.
    """

    def __init__(
        self,
        op: FormulaOperator,
        call: g.GraphCall,
        contents: Mapping[g.GraphExpr, Array],
        analyzer: Analyzer,
        limits: ImportLimits,
    ) -> None:
        self._analyzer = analyzer
        self._limits = limits
        self._known: dict[Tensor, Array] = {}

        def placeholder(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(map(placeholder, value))
            if not isinstance(value, g.GraphExpr):
                return value
            array = contents[value]
            if array.dtype.kind not in "biuO":
                raise _UndecidedError
            dtype = "bool" if array.dtype == bool else "int64"
            tensor = te.placeholder(array.shape, dtype, "x")
            self._known[tensor] = array
            return tensor

        arguments = op.signature.arguments(call.args, call.attrs)  # type: ignore[arg-type]
        given = {
            name: "int64" if name.endswith("dtype") and value == "int32" else placeholder(value)
            for name, value in arguments.items()
        }
        self._result: Tensor = op.function(**given)

    def of_result(self) -> Array:
        """Return the elements of the formula; _UndecidedError if one is unknown."""
        if not isinstance(self._result, Tensor):
            raise _UndecidedError
        shape = [self._number(n) for n in self._result.shape]
        result = np.empty(shape, object)
        for place in np.ndindex(*shape):
            value = self._element(self._result, place)
            result[place] = value.value if isinstance(value, e.IntImm) else value
        numbers = [value for value in result.flat if isinstance(value, int)]
        if not self._limits.has_few_terms(result.flat) or any(
            not -(1 << 63) <= n < 1 << 63 for n in numbers
        ):
            raise _UndecidedError
        is_bool = self._result.dtype.is_bool
        if len(numbers) == result.size:
            return result.astype(bool if is_bool else np.int64)
        if is_bool or not all(isinstance(n, int) or _is_size(n) for n in result.flat):
            raise _UndecidedError
        return result

    def _element(self, tensor: Tensor, place: Sequence[int]) -> e.PrimExpr:
        if tensor in self._known:
            value = self._known[tensor][tuple(place)]
            return value if isinstance(value, e.PrimExpr) else const(int(value), tensor.dtype)
        if not isinstance(tensor.op, ComputeOp):
            raise _UndecidedError
        at = {axis.var: const(k, INT64) for axis, k in zip(tensor.op.axis, place, strict=True)}
        body = tensor.op.body[tensor.value_index]
        if not isinstance(body, e.Reduce):
            return self._simplified_element(substitute(body, at))
        total: Sequence[e.PrimExpr] = body.init
        for inner in product(*(range(self._number(axis.dom.extent)) for axis in body.axis)):  # type: ignore[union-attr]
            at.update({axis.var: const(k, INT64) for axis, k in zip(body.axis, inner, strict=True)})
            if not self._decide(substitute(body.condition, at)):
                continue
            terms = [self._simplified_element(substitute(source, at)) for source in body.source]
            if total:
                sides = dict(zip(body.combiner.lhs, total, strict=True))
                sides.update(zip(body.combiner.rhs, terms, strict=True))
                terms = [
                    self._simplified_element(substitute(r, sides)) for r in body.combiner.result
                ]
            total = terms
        return (total or body.combiner.identity_element)[body.value_index]

    def _simplified_element(self, expr: e.PrimExpr) -> e.PrimExpr:
        evaluated = self(expr)
        if not self._limits.has_few_terms([evaluated]):
            raise _UndecidedError
        return self._analyzer.simplify(evaluated)

    def _number(self, expr: e.PrimExpr) -> int:
        value = self._simplified_element(expr)
        if not isinstance(value, e.IntImm):
            raise _UndecidedError
        return value.value

    def _decide(self, condition: e.PrimExpr) -> bool:
        return bool(self._number(condition))

    def rewrite_BufferLoad(self, node: e.BufferLoad) -> e.PrimExpr:  # noqa: N802
        """Return the element that the load reads."""
        assert isinstance(node.buffer, Tensor)
        return self._element(node.buffer, [self._number(i) for i in node.indices])

    def rewrite_CmpOp(self, node: e.CmpOp) -> e.PrimExpr:  # noqa: N802
        """Return True or False if a comparison has that value for all sizes."""
        condition = self.generic(node)
        if self._analyzer.can_prove(condition):
            return TRUE
        if self._analyzer.can_prove(logical_not(condition)):
            return FALSE
        raise _UndecidedError

    def rewrite_Select(self, node: e.Select) -> e.PrimExpr:  # noqa: N802
        """Return the chosen value."""
        return self(node.true_value if self._decide(node.condition) else node.false_value)

    def rewrite_Call(self, node: e.Call) -> e.PrimExpr:  # noqa: N802
        """Return the chosen value of `if_then_else`."""
        if getattr(node.op, "short_name", "") != "if_then_else":
            return self.generic(node)
        condition, chosen, other = node.args
        return self(chosen if self._decide(condition) else other)


def _is_size(expr: e.PrimExpr) -> bool:
    return all(isinstance(node, _OF_SIZES) for node in walk(expr))
