"""Sequences of tensors, and optional values.

Sequences of known length are tuples of the graph function; for others see
`tensorir.relax.library.sequences`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorir.errors import IRTypeError, IRValueError
from tensorir.frontend.onnx.converters.shapes import parts_of
from tensorir.frontend.onnx.dtypes import dtype_of
from tensorir.frontend.onnx.known_values import common_element
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator
from tensorir.frontend.onnx.step_function import StepOutputs
from tensorir.nodes.expr import IntImm
from tensorir.relax import op
from tensorir.relax.expr import Constant, GraphExpr, Tuple, TupleGetItem
from tensorir.relax.library.sequences import sequence_call
from tensorir.relax.struct_info import (
    UNKNOWN_NDIM,
    ObjectStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)


def _length(value: GraphExpr) -> int | None:
    """Return the number of elements of a sequence; None if it is not known."""
    info = value.struct_info
    return len(info) if isinstance(info, TupleStructInfo) else None


def _elements(value: GraphExpr) -> list[GraphExpr]:
    """Return the elements of a sequence of known length."""
    if isinstance(value, Tuple):
        return list(value.elements)
    return [TupleGetItem(value, k) for k in range(_length(value) or 0)]


def _position(node: OnnxNode, value: GraphExpr | None, length: int | None) -> int | None:
    """Return a position counted from the front; None if it, or the length, is unknown."""
    if value is not None:
        node.check_single(value, "the position")
    known = node.contents(value)
    if length is None or known is None or known.dtype == object:
        return None
    place = int(known.item())
    if not -length <= place <= length:
        raise IRValueError(f"position {place} is not one of a sequence of {length}")
    return place + length if place < 0 else place


def _emit_sequence(node: OnnxNode, call: GraphExpr, element: TensorStructInfo) -> GraphExpr:
    """Return a sequence of unknown length, with the known facts about its elements."""
    value = node.emit(call)
    node.known.remember_elements(value, element)
    return value


def _join_facts(
    node: OnnxNode, sequences: Sequence[GraphExpr], tensors: Sequence[GraphExpr]
) -> TensorStructInfo:
    """Return the facts that hold both for the elements of the sequences and for the tensors."""
    infos = [info for s in sequences if (info := node.known.known_elements(s)) is not None]
    return common_element([*infos, *(tensor.struct_info for tensor in tensors)])


@onnx_operator("SequenceEmpty")
def sequence_empty(node: OnnxNode, *, dtype: int = 1) -> GraphExpr:
    """The sequence without elements."""
    empty = node.emit(Tuple(()))
    node.known.remember_elements(empty, TensorStructInfo(None, dtype_of(dtype)))
    return empty


@onnx_operator("SequenceConstruct")
def sequence_construct(node: OnnxNode, *elements: GraphExpr) -> GraphExpr:
    """The sequence of some tensors."""
    return Tuple(elements)


@onnx_operator("SequenceLength")
def sequence_length(node: OnnxNode, sequence: GraphExpr) -> GraphExpr:
    """The number of elements."""
    length = _length(sequence)
    if length is not None:
        return Constant(np.array(length, np.int64))
    return sequence_call("sequence_length", sequence, result=TensorStructInfo((), "int64"))


@onnx_operator("SequenceAt")
def sequence_at(node: OnnxNode, sequence: GraphExpr, position: GraphExpr) -> GraphExpr:
    """The element at a position."""
    length = _length(sequence)
    place = _position(node, position, length)
    if place is not None and place != length:
        return _elements(sequence)[place]
    result = node.elements(sequence)
    return sequence_call(
        "sequence_at", sequence, position, result=TensorStructInfo(None, result.dtype, result.ndim)
    )


@onnx_operator("SequenceInsert")
def sequence_insert(
    node: OnnxNode, sequence: GraphExpr, tensor: GraphExpr, position: GraphExpr | None = None
) -> GraphExpr:
    """The sequence with another element."""
    length = _length(sequence)
    place = length if position is None else _position(node, position, length)
    if place is not None:
        elements = _elements(sequence)
        return Tuple([*elements[:place], tensor, *elements[place:]])
    call = sequence_call("sequence_insert", sequence, tensor, position)
    return _emit_sequence(node, call, _join_facts(node, [sequence], [tensor]))


@onnx_operator("SequenceErase")
def sequence_erase(
    node: OnnxNode, sequence: GraphExpr, position: GraphExpr | None = None
) -> GraphExpr:
    """The sequence without an element."""
    length = _length(sequence)
    place = _position(node, position, length)
    if position is None and length:
        place = length - 1
    if place is not None:
        elements = _elements(sequence)
        return Tuple([*elements[:place], *elements[place + 1 :]])
    call = sequence_call("sequence_erase", sequence, position)
    return _emit_sequence(node, call, node.elements(sequence))


@onnx_operator("ConcatFromSequence")
def concat_from_sequence(
    node: OnnxNode, sequence: GraphExpr, *, axis: int, new_axis: int = 0
) -> GraphExpr:
    """The elements one after the other."""
    if _length(sequence):
        elements = _elements(sequence)
        return op.stack(elements, axis=axis) if new_axis else op.concat(elements, axis=axis)
    part = node.elements(sequence)
    rank = part.ndim if part.ndim == UNKNOWN_NDIM else part.ndim + new_axis
    result = TensorStructInfo(None, part.dtype, rank)
    return sequence_call("sequence_concat", sequence, axis, new_axis, result=result)


@onnx_operator("SplitToSequence")
def split_to_sequence(
    node: OnnxNode,
    x: GraphExpr,
    split: GraphExpr | None = None,
    *,
    axis: int = 0,
    keepdims: int = 1,
) -> GraphExpr:
    """The parts of a tensor along an axis."""
    place = node.axis(axis, node.rank(x))
    extent = node.extent(x, place)
    known = Constant(np.array(1)).data if split is None else node.contents(split)
    if known is not None and known.dtype != object and isinstance(extent, IntImm):
        lengths = [int(n) for n in known.reshape(-1)]
        if known.ndim == 0:
            if lengths[0] <= 0:
                raise IRValueError(f"the length of a part must be positive, got {lengths[0]}")
            count = max(1, -(-extent.value // lengths[0]))
            node.check_parts(count, f"too many parts of {extent.value} elements")
            last = extent.value - (count - 1) * lengths[0]
            lengths = [*[lengths[0]] * (count - 1), last]
        node.check_parts(len(lengths), "too many parts")
        elements = parts_of(node, x, place, lengths)
        if split is None and not keepdims:
            elements = [op.squeeze(element, axis=[place]) for element in elements]
        return Tuple(elements)
    rank = node.rank(x) - (split is None and not keepdims)
    call = sequence_call("sequence_split", x, split, place, keepdims)
    return _emit_sequence(node, call, TensorStructInfo(None, node.dtype(x), rank))


@onnx_operator("SequenceMap")
def sequence_map(
    node: OnnxNode, sequence: GraphExpr, *others: GraphExpr, body: Any
) -> Sequence[GraphExpr]:
    """Apply a graph to each element of sequences; tensor inputs are passed unchanged."""
    inputs = [sequence, *others]
    length = _length(sequence)
    lengths = [_length(value) for value in inputs if _is_sequence(value)]
    if length is not None and all(n == length for n in lengths):
        columns = [_elements(v) if _is_sequence(v) else [v] * length for v in inputs]
        rows = [node.graph(body, row) for row in zip(*columns, strict=True)]
        return [Tuple(column) for column in zip(*rows, strict=True)]
    outside = [node.emit(value) for value in inputs]
    empty = [sequence_empty(node) for _ in body.output]

    def element(value: GraphExpr, own: GraphExpr, k: GraphExpr) -> GraphExpr:
        return node.emit(sequence_at(node, own, k)) if _is_sequence(value) else own

    def step(step: Any, k: GraphExpr, values: Sequence[GraphExpr]) -> StepOutputs:
        given = [element(value, step.taken(value), k) for value in outside]
        outputs = step.graph(body, given)
        extended = [
            _emit_sequence(
                node,
                sequence_call("sequence_insert", value, output, None),
                _join_facts(node, [], [output]),
            )
            for value, output in zip(values, outputs, strict=True)
        ]
        return StepOutputs(Constant(np.array(True)), extended, ())

    function = node.step_function(empty, step)
    rounds = node.emit(sequence_length(node, sequence))
    result = node.emit(function.loop(empty, rounds))
    return function.named(node.importing, [TupleGetItem(result, k) for k in range(len(empty))])


def _is_sequence(value: GraphExpr) -> bool:
    return isinstance(value.struct_info, (TupleStructInfo, ObjectStructInfo))


# -------------------------------------------------------------------------------------- optionals


@onnx_operator("Optional")
def optional(node: OnnxNode, value: GraphExpr | None = None, *, type: Any = None) -> GraphExpr:
    """A value that may be absent; a node without an input returns an absent value."""
    return sequence_call("optional_none") if value is None else value


@onnx_operator("OptionalHasElement")
def optional_has_element(node: OnnxNode, value: GraphExpr | None = None) -> GraphExpr:
    """True if an optional value is present."""
    if value is None or not isinstance(value.struct_info, ObjectStructInfo):
        return Constant(np.array(value is not None))
    return sequence_call("optional_has_element", value, result=TensorStructInfo((), "bool"))


@onnx_operator("OptionalGetElement")
def optional_get_element(node: OnnxNode, value: GraphExpr) -> GraphExpr:
    """The content of an optional value that is present."""
    if not isinstance(value.struct_info, ObjectStructInfo):
        return value
    known = node.known.known_elements(value)
    if known is None:
        raise IRTypeError("the type of the optional value is not known")
    if node.known.is_optional_tensor(value):
        return sequence_call("optional_get_element", value, result=known)
    return _emit_sequence(node, sequence_call("optional_get_element", value), known)
