"""What a converter sees of the node that it converts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorir.errors import IRTypeError, IRValueError
from tensorir.frontend.onnx.elements import common_element
from tensorir.frontend.onnx.step_function import Body, StepFunction, step_function
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.relax.expr import GraphExpr, GraphVar
from tensorir.relax.struct_info import UNKNOWN_NDIM, StructInfo, TensorStructInfo
from tensorir.topi.extents import is_number

if TYPE_CHECKING:
    from tensorir.frontend.onnx.graph_import import GraphImport
    from tensorir.frontend.onnx.scope import Scope
    from tensorir.relax.block_builder import BlockBuilder

_WIDEST: Final = 1 << 24
"""Above the steps and widths of windows."""


class OnnxNode:
    """A node of a graph: its names and version, and the graph function that is being built.

    Values are expressions, which may nest: the importer emits what a converter gives. Attributes
    come to the converter as arguments: numbers, strings, tuples of them; a tensor is a `Constant`,
    a graph the message of the model, which `graph` converts.
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
        self._importing = importing
        self._scope = scope
        self.op_type = op_type
        self.domain = domain
        self.name = name
        self.outputs = tuple(outputs)
        """The names of the outputs, "" for one that nobody needs."""
        self.attributes = attributes
        self.opset = scope.opset(domain)
        """The version of the operators of the domain of the node."""

    @property
    def builder(self) -> BlockBuilder:
        """The builder of the function; it is not in a dataflow block."""
        return self._importing.builder

    def emit(self, expr: GraphExpr) -> GraphExpr:
        """Return the variable that an expression is bound to, with a known shape where it can be.

        Sizes that only data decide become symbolic sizes.
        """
        return self._importing.emitted(expr, self.outputs[0] if self.outputs else "")

    # --------------------------------------------------------------------------------- struct infos

    def shape(self, value: GraphExpr) -> tuple[PrimExpr, ...]:
        """Return the shape of a tensor; IRTypeError if it is not known."""
        info = self.tensor(value)
        if info.shape is None:
            raise IRTypeError(
                f"the shape of an input is not known: {info}; if branches of an If give several "
                "ranks, sizes of inputs that decide which one it is are given by shape_dict"
            )
        return info.shape

    def extent(self, value: GraphExpr, axis: int) -> PrimExpr:
        """Return the extent of an axis; IRValueError if a tensor lacks the axis."""
        shape = self.shape(value)
        return shape[self.axis(axis, len(shape))]

    def sizes(self, value: GraphExpr, rank: int) -> tuple[PrimExpr, ...]:
        """Return the shape of a tensor of a rank; IRValueError for one of another rank."""
        shape = self.shape(value)
        if len(shape) != rank:
            raise IRValueError(f"an input must have {rank} dimensions, got {value.struct_info}")
        return tuple(shape)

    def rank(self, value: GraphExpr) -> int:
        """Return the number of dimensions of a tensor; IRTypeError if it is not known."""
        info = self.tensor(value)
        if info.ndim == UNKNOWN_NDIM:
            raise IRTypeError(f"the number of dimensions of an input is not known: {info}")
        return info.ndim

    def dtype(self, value: GraphExpr) -> DataType:
        """Return the dtype of a tensor; IRTypeError if it is not known."""
        info = self.tensor(value)
        if info.dtype is None:
            raise IRTypeError(f"the dtype of an input is not known: {info}")
        return info.dtype

    def narrow(self, value: GraphExpr) -> int | None:
        """Return the number of the dtype of integers of fewer than 8 bits, None for others."""
        return self._importing.known.narrow(value)

    def narrowed(self, value: GraphExpr, number: int) -> GraphExpr:
        """Return a tensor as one of integers of fewer than 8 bits, which it holds."""
        var = self.emit(value)
        self._importing.known.remember_kind(var, number)
        return var

    def tensor(self, value: GraphExpr) -> TensorStructInfo:
        """Return the struct info of a tensor; IRTypeError if the value is none."""
        info = value.struct_info
        if not isinstance(info, TensorStructInfo):
            raise IRTypeError(f"an input must be a tensor, got {info}")
        return info

    def axis(self, axis: int, rank: int) -> int:
        """Return an axis counted from the first; IRValueError for one that a tensor has not."""
        if not -rank <= axis < rank:
            raise IRValueError(f"the axis {axis} is not one of {rank} dimension(s)")
        return axis % rank

    # ------------------------------------------------------------------------------------- contents

    def contents(self, value: GraphExpr | None) -> NDArray[Any] | None:
        """Return what is known of a tensor's elements: numbers, or objects that may be symbolic.

        None if they are not known, or if NumPy lacks their dtype.
        """
        return None if value is None else self._importing.known.contents(value)

    def numbers(self, value: GraphExpr, what: str) -> NDArray[Any]:
        """Return elements that have to be known numbers while a model is read.

        Raises IRValueError, which calls them `what`.
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

        Those that are not known are looked at when the model runs: they become symbolic.
        IRValueError if not even their number is known; it calls them `what`.
        """
        known = self.contents(value)
        if known is not None:
            return [_plain(n) for n in known.reshape(-1)]
        return list(self._importing.known.looked_at(value, what))

    def known_integers(self, value: GraphExpr, what: str) -> list[int]:
        """Return integers that have to be known while a model is read, as `numbers`."""
        return [int(n) for n in self.numbers(value, what).reshape(-1)]

    def integer(self, value: GraphExpr, what: str) -> int | PrimExpr:
        """Return the element of a tensor of one integer, as `integers`.

        IRValueError for a tensor that is known to have another number of elements.
        """
        self.check_single(value, what)
        (number,) = self.integers(value, what)
        return number

    def known_integer(self, value: GraphExpr, what: str) -> int:
        """Return the element of a tensor of one integer that has to be known, as `numbers`."""
        self.check_single(value, what)
        (number,) = self.known_integers(value, what)
        return number

    def check_single(self, value: GraphExpr, what: str) -> None:
        """Raise IRValueError for a tensor that is known not to have exactly one element."""
        shape = self.tensor(value).static_shape
        if shape is not None and math.prod(shape) != 1:
            raise IRValueError(f"{what} must be one element, got a tensor of shape {shape}")

    def check_parts(self, count: int, what: str) -> None:
        """Raise ImportLimitError for more parts of a value than may be listed one by one."""
        self._importing.limits.check("max_parts", count, what)

    def check_shape(self, shape: Sequence[int | PrimExpr], like: GraphExpr) -> None:
        """Raise ImportLimitError if a result of a shape and of the dtype of `like` is too large.

        Operators compute extents with 64 bits, here a number may be of any size.
        """
        self._importing.limits.check_shape(shape, self.dtype(like), "the result")

    def check_narrow(self, what: str, values: Sequence[int | PrimExpr]) -> None:
        """Raise IRValueError for numbers whose product with an extent may not fit 64 bits."""
        if any(isinstance(n, int) and not -_WIDEST < n < _WIDEST for n in values):
            raise IRValueError(
                f"{what} must be numbers between {-_WIDEST:,} and {_WIDEST:,}, got {list(values)}"
            )

    def integer_tensor(self, values: Sequence[int | PrimExpr], dtype: str = "int64") -> GraphExpr:
        """Return a tensor of rank 1 of integers, which are remembered as its contents."""
        return self._importing.known.integer_tensor(values, dtype)

    def elements(self, sequence: GraphExpr) -> TensorStructInfo:
        """Return what is known of the elements of a sequence; IRTypeError if it is none."""
        known = self.known_elements(sequence)
        if known is None:
            raise IRTypeError(f"a sequence of tensors is needed, got {sequence.struct_info}")
        return known

    def known_elements(self, value: GraphExpr) -> TensorStructInfo | None:
        """Return what is known of the elements of a sequence, or of an optional tensor, if any."""
        return self._importing.known.known_elements(value)

    def common_elements(self, values: Sequence[GraphExpr]) -> TensorStructInfo | None:
        """Return what is known of the elements of all of several sequences, if any."""
        known = [info for v in values if (info := self.known_elements(v)) is not None]
        return common_element(known) if known else None

    def remember_elements(self, value: GraphExpr, info: TensorStructInfo | None) -> None:
        """Note what the elements of a sequence are; nothing for None."""
        self._importing.known.remember_elements(value, info)

    def is_optional_tensor(self, value: GraphExpr) -> bool:
        """Say whether an object is a tensor or absent."""
        return self._importing.known.is_optional_tensor(value)

    def fresh_size(self, name: str) -> Var:
        """Return a symbolic size that `matched` may define."""
        return self._importing.known.fresh_size(name)

    def matched(self, value: GraphExpr, info: StructInfo) -> GraphVar:
        """Return a value whose struct info is checked when the model runs.

        Sizes in it that are new are defined by it.
        """
        return self.builder.match_cast(value, info)

    def agreed(self, *operands: GraphExpr) -> list[GraphExpr]:
        """Return operands of one shape after stretching, as far as that is to be known.

        Where sizes have to be equal, or 1, and nobody knows that they are, it is taken that they
        are equal, which is checked when the model runs.
        """
        rank = max(map(self.rank, operands), default=0)
        return self.agreed_sizes(
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

    def fitted(self, value: GraphExpr, shape: Sequence[int | PrimExpr]) -> GraphExpr:
        """Return a tensor whose sizes are taken to be those of a shape, or to be stretched to it.

        Where nobody knows that they are, that is checked when the model runs.
        """
        like = GraphVar("shape", TensorStructInfo(shape, self.dtype(value)))
        return self.agreed(like, value)[1]

    def agreed_but(self, operands: Sequence[GraphExpr], axis: int) -> list[GraphExpr]:
        """Return operands of one shape but for an axis; see `agreed`."""
        rank = self.rank(operands[0])
        own = self.axis(axis, rank)
        same = [value for value in operands if self.rank(value) == rank]
        places = [[(k, d) for k in range(len(same))] for d in range(rank) if d != own]
        return self.agreed_sizes(operands, places) if len(same) == len(operands) else [*operands]

    def agreed_sizes(
        self, operands: Sequence[GraphExpr], places: Sequence[Sequence[tuple[int, int]]]
    ) -> list[GraphExpr]:
        """Return operands with sizes that are taken to be equal; see `agreed`.

        Each of `places` is a list of sizes that have to be equal: (which operand, which axis).
        """
        return self._importing.known.agreed_sizes(operands, places)

    # ----------------------------------------------------------------------------------- graphs

    def graph(self, graph: Any, inputs: Sequence[GraphExpr] = ()) -> list[GraphExpr]:
        """Return the outputs of a graph that is an attribute, emitted here, for these inputs.

        It sees the values that the node does.
        """
        return self._importing.subgraph(graph, inputs, self._scope)

    def rounds(self, graph: Any) -> int:
        """Return the number of rounds of a graph that may be read one by one."""
        return self._importing.repeats.rounds(graph)

    def reading_rounds(self, count: int) -> AbstractContextManager[None]:
        """Read so many rounds of a graph one by one, in a `with` statement."""
        return self._importing.repeats.reading_rounds(count)

    def branch(self, graph: Any) -> list[GraphExpr]:
        """Return the outputs of a graph without inputs that is emitted in a suite of its own."""
        with self._importing.known.branch():
            return self.graph(graph)

    def step_function(self, carried: Sequence[GraphExpr], body: Body) -> StepFunction:
        """Return a function of the module that is a step of a loop; see `step_function.py`."""
        hint = self.name if self.name.isidentifier() else f"{self.op_type.lower()}_step"
        return step_function(self._importing, self._scope, hint, carried, body)

    def results(self, function: StepFunction, fields: Sequence[GraphExpr]) -> list[GraphExpr]:
        """Return variables for the values that a loop carried last."""
        return function.named(self._importing, fields)

    def converted(
        self, op_type: str, *inputs: GraphExpr | None, domain: str = "", **attributes: Any
    ) -> tuple[GraphExpr | None, ...]:
        """Return the outputs of another node on these values, converted as this one would be."""
        return self._importing.convert(
            OnnxNode(
                self._importing, self._scope, op_type, domain, self.name, self.outputs, attributes
            ),
            inputs,
        )


def _plain(value: Any) -> int | PrimExpr:
    if isinstance(value, PrimExpr):
        return value.value if isinstance(value, IntImm) else value
    if isinstance(value, (np.floating, float)):
        raise IRTypeError(f"integers were expected, got {value}")
    return int(value)
