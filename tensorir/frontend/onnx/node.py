"""The interface of a converter to its node."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorir.arith import Analyzer
from tensorir.errors import IRTypeError, IRValueError
from tensorir.frontend.onnx.known_values import common_element
from tensorir.frontend.onnx.step_function import Body, StepFunction, step_function
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.ops import as_expr
from tensorir.relax.expr import GraphExpr, GraphVar
from tensorir.relax.struct_info import UNKNOWN_NDIM, TensorStructInfo
from tensorir.topi.extents import is_number

if TYPE_CHECKING:
    from tensorir.frontend.onnx.graph_import import GraphImport
    from tensorir.frontend.onnx.scope import Scope
    from tensorir.relax.block_builder import BlockBuilder

_WIDEST: Final = 1 << 24
"""An upper bound for the strides and widths of windows."""


class OnnxNode:
    """A node of a graph: its names and version, and the graph function under construction.

    A converter may return a nested expression; the importer emits it. Attributes
    are passed to the converter as arguments: numbers, strings, tuples of them; a tensor is a
    `Constant`, a graph is the model's message, which `graph` converts.
    """

    def __init__(
        self,
        importing: GraphImport,
        scope: Scope,
        op_type: str,
        domain: str,
        name: str,
        outputs: Sequence[str],
        attributes: Mapping[str, Any],
    ) -> None:
        self.importing = importing
        self.known = importing.known
        """The known facts about values."""
        self._scope = scope
        self.op_type = op_type
        self.domain = domain
        self.name = name
        self.outputs = tuple(outputs)
        """The names of the outputs, "" for an unused output."""
        self.attributes = attributes
        self.opset = scope.opset(domain)
        """The version of the operators of the node's domain."""

    @property
    def builder(self) -> BlockBuilder:
        """The builder of the function; it is not in a dataflow block."""
        return self.importing.builder

    def emit(self, expr: GraphExpr) -> GraphExpr:
        """Bind an expression to a variable, with a known shape if possible; return the variable.

        Sizes that depend on data become symbolic sizes.
        """
        return self.importing.emitted(expr, self.outputs[0] if self.outputs else "")

    # --------------------------------------------------------------------------------- struct infos

    def shape(self, value: GraphExpr) -> tuple[PrimExpr, ...]:
        """Return the shape of a tensor. Raises IRTypeError if it is unknown."""
        info = self.tensor(value)
        if info.shape is None:
            raise IRTypeError(
                f"the shape of an input is not known: {info}; if the branches of an If have "
                "different ranks, set the input sizes that select a branch with shape_dict"
            )
        return info.shape

    def extent(self, value: GraphExpr, axis: int) -> PrimExpr:
        """Return the extent of an axis. Raises IRValueError if the axis is out of range."""
        shape = self.shape(value)
        return shape[self.axis(axis, len(shape))]

    def sizes(self, value: GraphExpr, rank: int) -> tuple[PrimExpr, ...]:
        """Return the shape of a tensor of rank `rank`. Raises IRValueError for another rank."""
        shape = self.shape(value)
        if len(shape) != rank:
            raise IRValueError(f"an input must have {rank} dimensions, got {value.struct_info}")
        return tuple(shape)

    def rank(self, value: GraphExpr) -> int:
        """Return the number of dimensions of a tensor. Raises IRTypeError if it is unknown."""
        info = self.tensor(value)
        if info.ndim == UNKNOWN_NDIM:
            raise IRTypeError(f"the number of dimensions of an input is not known: {info}")
        return info.ndim

    def dtype(self, value: GraphExpr) -> DataType:
        """Return the dtype of a tensor. Raises IRTypeError if it is unknown."""
        info = self.tensor(value)
        if info.dtype is None:
            raise IRTypeError(f"the dtype of an input is not known: {info}")
        return info.dtype

    def narrowed(self, value: GraphExpr, number: int) -> GraphExpr:
        """Return a tensor, and record that it holds integers of fewer than 8 bits."""
        var = self.emit(value)
        self.known.remember_kind(var, number)
        return var

    def tensor(self, value: GraphExpr) -> TensorStructInfo:
        """Return the struct info of a tensor. Raises IRTypeError for another value."""
        info = value.struct_info
        if not isinstance(info, TensorStructInfo):
            raise IRTypeError(f"an input must be a tensor, got {info}")
        return info

    def axis(self, axis: int, rank: int) -> int:
        """Return an axis counted from the front. Raises IRValueError if it is out of range."""
        if not -rank <= axis < rank:
            raise IRValueError(f"the axis {axis} is not one of {rank} dimension(s)")
        return axis % rank

    # ------------------------------------------------------------------------------------- contents

    def contents(self, value: GraphExpr | None) -> NDArray[Any] | None:
        """Return the known elements of a tensor: numbers, or objects (integers and expressions).

        Return None if they are unknown, or if NumPy lacks their dtype.
        """
        return None if value is None else self.known.contents(value)

    def numbers(self, value: GraphExpr, what: str) -> NDArray[Any]:
        """Return the elements of a tensor, which must be known while the model is read.

        Raises IRValueError, which names the tensor `what`.
        """
        known = self.contents(value)
        if known is None or known.dtype == object:
            raise IRValueError(
                f"{what} must be known while the model is read, but is computed when it runs; make "
                "it a constant of the model"
            )
        return known

    def integers(self, value: GraphExpr, what: str) -> list[int | PrimExpr]:
        """Return the elements of a tensor of integers, in order, as numbers and expressions.

        Unknown elements become symbolic sizes that the model reads at run time. Raises
        IRValueError, which names the tensor `what`, if the number of elements is unknown.
        """
        known = self.contents(value)
        if known is not None:
            return [_plain(n) for n in known.reshape(-1)]
        return list(self.known.runtime_scalars(value, what))

    def known_integers(self, value: GraphExpr, what: str) -> list[int]:
        """Return integers that must be known while the model is read; see `numbers`."""
        return [int(n) for n in self.numbers(value, what).reshape(-1)]

    def integer(self, value: GraphExpr, what: str) -> int | PrimExpr:
        """Return the element of a tensor of one integer; see `integers`.

        Raises IRValueError for a tensor that is known to have another number of elements.
        """
        self.check_single(value, what)
        (number,) = self.integers(value, what)
        return number

    def known_integer(self, value: GraphExpr, what: str) -> int:
        """Return the element of a tensor of one integer that must be known; see `numbers`."""
        self.check_single(value, what)
        (number,) = self.known_integers(value, what)
        return number

    def check_single(self, value: GraphExpr, what: str) -> None:
        """Raise IRValueError for a tensor that is known not to have exactly one element."""
        shape = self.tensor(value).static_shape
        if shape is not None and math.prod(shape) != 1:
            raise IRValueError(f"{what} must be one element, got a tensor of shape {shape}")

    def check_parts(self, count: int, what: str) -> None:
        """Raise ImportLimitError if a value has too many parts."""
        self.importing.limits.check("max_parts", count, what)

    def check_shape(self, shape: Sequence[int | PrimExpr], like: GraphExpr) -> None:
        """Raise ImportLimitError if a result with this shape and the dtype of `like` is too large.

        Operators compute extents with 64 bits, but extents here are Python ints.
        """
        self.importing.limits.check_shape(shape, self.dtype(like), "the result")

    def check_narrow(self, what: str, values: Sequence[int | PrimExpr]) -> None:
        """Raise IRValueError for numbers so large that their product with an extent may exceed 64
        bits.
        """
        if any(isinstance(n, int) and not -_WIDEST < n < _WIDEST for n in values):
            raise IRValueError(
                f"{what} must be numbers between {-_WIDEST:,} and {_WIDEST:,}, got {list(values)}"
            )

    def elements(self, sequence: GraphExpr) -> TensorStructInfo:
        """Return the struct info of the elements of a sequence; IRTypeError for other values."""
        known = self.known.known_elements(sequence)
        if known is None:
            raise IRTypeError(f"a sequence of tensors is needed, got {sequence.struct_info}")
        return known

    def common_elements(self, values: Sequence[GraphExpr]) -> TensorStructInfo | None:
        """Return the struct info that the elements of all sequences share, if known."""
        known = [info for v in values if (info := self.known.known_elements(v)) is not None]
        return common_element(known) if known else None

    def broadcast_operands(self, *operands: GraphExpr) -> list[GraphExpr]:
        """Return operands whose shapes broadcast together.

        Sizes must be equal or 1. If that is not provable, assume that they are equal; the model
        checks this at run time.
        """
        rank = max(map(self.rank, operands), default=0)
        return self.known.equal_sizes(
            operands,
            [
                [
                    (k, self.rank(value) - axis)
                    for k, value in enumerate(operands)
                    if axis <= self.rank(value)
                    and not is_number(self.shape(value)[self.rank(value) - axis], 1)
                ]
                for axis in range(1, rank + 1)
            ],
        )

    def broadcast_to(self, value: GraphExpr, shape: Sequence[int | PrimExpr]) -> GraphExpr:
        """Return a tensor, assumed to broadcast to `shape`; checked at run time if not provable."""
        like = GraphVar("shape", TensorStructInfo(shape, self.dtype(value)))
        return self.broadcast_operands(like, value)[1]

    def with_extent(self, value: GraphExpr, axis: int, extent: int | PrimExpr) -> GraphExpr:
        """Return a tensor, assumed to have `extent` along an axis; see `broadcast_to`."""
        shape = list(self.shape(value))
        shape[axis] = as_expr(extent)
        if Analyzer().can_prove_equal(shape[axis], self.extent(value, axis)):
            return value
        return self.builder.match_cast(value, TensorStructInfo(shape, self.dtype(value)))

    def equal_except(self, operands: Sequence[GraphExpr], axis: int) -> list[GraphExpr]:
        """Return operands with equal shapes except along an axis; see `broadcast_operands`."""
        rank = self.rank(operands[0])
        own = self.axis(axis, rank)
        same = [value for value in operands if self.rank(value) == rank]
        places = [[(k, d) for k in range(len(same))] for d in range(rank) if d != own]
        return (
            self.known.equal_sizes(operands, places) if len(same) == len(operands) else [*operands]
        )

    # ----------------------------------------------------------------------------------- graphs

    def graph(self, graph: Any, inputs: Sequence[GraphExpr] = ()) -> list[GraphExpr]:
        """Emit a subgraph from an attribute for these inputs; return its outputs.

        The subgraph may use all values that the node may use.
        """
        return self.importing.subgraph(graph, inputs, self._scope)

    def step_function(self, carried: Sequence[GraphExpr], body: Body) -> StepFunction:
        """Return a function of the module that is one step of a loop; see `step_function.py`."""
        hint = self.name if self.name.isidentifier() else f"{self.op_type.lower()}_step"
        return step_function(self.importing, self._scope, hint, carried, body)


def _plain(value: Any) -> int | PrimExpr:
    if isinstance(value, PrimExpr):
        return value.value if isinstance(value, IntImm) else value
    if isinstance(value, (np.floating, float)):
        raise IRTypeError(f"expected integers, got {value}")
    return int(value)
