"""Branches and loops: If, Loop, Scan.

If the condition of an If is known while the model is read, only the chosen branch is imported. A
loop with a small known number of rounds is unrolled. Other loops become functions of the module
that a library function calls (`tensorir.relax.library.loop`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from tensorir.errors import IRValueError
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator
from tensorir.frontend.onnx.step_function import StepFunction, StepOutputs
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.relax import op
from tensorir.relax.expr import Constant, GraphExpr, TupleGetItem
from tensorir.relax.struct_info import TupleStructInfo


@onnx_operator("If")
def if_(
    node: OnnxNode, cond: GraphExpr, *, then_branch: Any, else_branch: Any
) -> Sequence[GraphExpr]:
    """The outputs of one of two graphs, chosen by a condition."""
    node.check_single(cond, "the condition")
    known = node.contents(cond)
    if known is not None and known.dtype != object:
        return node.graph(then_branch if known.all() else else_branch)
    if len(then_branch.output) != len(else_branch.output):
        raise IRValueError(
            f"one branch gives {len(then_branch.output)} value(s), the other "
            f"{len(else_branch.output)}"
        )
    if node.rank(cond) != 0:
        cond = op.reshape(cond, ())
    given: list[list[GraphExpr]] = []

    def branch(graph: Any) -> list[GraphExpr]:
        with node.known.branch():
            given.append(node.graph(graph))
        return given[-1]

    value = node.builder.emit_if(
        node.emit(cond), lambda: branch(then_branch), lambda: branch(else_branch)
    )
    fields = [node.emit(TupleGetItem(value, k)) for k in range(len(then_branch.output))]
    for field, outputs in zip(fields, zip(*given, strict=True), strict=True):
        node.known.remember_elements(field, node.common_elements(outputs))
    return fields


@onnx_operator("Loop")
def loop(
    node: OnnxNode,
    trips: GraphExpr | None = None,
    cond: GraphExpr | None = None,
    *carried: GraphExpr,
    body: Any,
) -> Sequence[GraphExpr]:
    """Run a graph until its condition or the number of rounds ends the loop."""
    count = len(carried)
    if len(body.input) != count + 2 or None in carried:
        raise IRValueError(
            f"the body has {len(body.input)} input(s); expected the number of the round, the "
            f"condition, and {count} carried value(s), all of them given"
        )
    limit = None if trips is None else _number_of_rounds(node, trips)
    if cond is not None:
        node.check_single(cond, "the condition")
    begins = None if cond is None else node.contents(cond)
    if begins is not None:
        if not begins.all():
            limit = 0
        cond = None

    def emit(k: GraphExpr, values: Sequence[GraphExpr], graph: _Graph) -> StepOutputs:
        go_on, *outputs = graph(body, [k, Constant(np.array(True)), *values])
        return StepOutputs(go_on, outputs[:count], outputs[count:])

    if cond is None and (limit is None or isinstance(limit, int)):
        done = _unrolled(node, node.importing.repeats.rounds(body), limit, carried, emit)
        if done is not None:
            return done
    function = node.step_function(carried, lambda step, k, values: emit(k, values, step.graph))
    call = function.loop(carried, limit, True if cond is None else cond)
    return _loop_outputs(node, function, call)


_Graph: TypeAlias = Callable[[Any, Sequence[GraphExpr]], Sequence[GraphExpr]]
"""Return the outputs of a graph for its inputs."""


def _number_of_rounds(node: OnnxNode, trips: GraphExpr) -> GraphExpr | PrimExpr | int:
    node.check_single(trips, "the number of rounds")
    known = node.contents(trips)
    if known is None:
        return trips
    number = known.item()
    return number if isinstance(number, PrimExpr) else int(number)


def _loop_outputs(node: OnnxNode, function: StepFunction, call: GraphExpr) -> list[GraphExpr]:
    """Return the outputs of a loop."""
    result = node.emit(call)
    assert isinstance(result.struct_info, TupleStructInfo)
    fields = [TupleGetItem(result, k) for k in range(len(result.struct_info))]
    return [*function.named(node.importing, fields), *fields[len(function.carried) :]]


def _unrolled(
    node: OnnxNode,
    most: int,
    limit: int | None,
    carried: Sequence[GraphExpr],
    emit: Callable[[GraphExpr, Sequence[GraphExpr], _Graph], StepOutputs],
) -> list[GraphExpr] | None:
    """Return the outputs of an unrolled loop.

    Return None if the number of rounds is unknown or too large.
    """
    if limit is not None and (limit > most or limit == 0):
        return None
    values, parts = carried, []
    rounds = most if limit is None else limit
    for k in range(rounds):
        with node.importing.repeats.reading_rounds(rounds):
            outputs = emit(Constant(np.array(k, np.int64)), values, node.graph)
        go_on = node.contents(outputs.go_on)
        if go_on is None or go_on.dtype == object:
            return None
        values = outputs.carried
        parts.append(outputs.parts)
        if not go_on.all():
            break
    else:
        if limit is None:
            return None
    stacked = [op.stack(list(column), axis=0) for column in zip(*parts, strict=True)]
    return [*values, *stacked]


# ------------------------------------------------------------------------------------------- scans


@onnx_operator("Scan")
def scan(
    node: OnnxNode,
    first: GraphExpr | None = None,
    *others: GraphExpr,
    body: Any,
    num_scan_inputs: int,
    scan_input_axes: Sequence[int] = (),
    scan_input_directions: Sequence[int] = (),
    scan_output_axes: Sequence[int] = (),
    scan_output_directions: Sequence[int] = (),
    directions: Sequence[int] = (),
) -> Sequence[GraphExpr]:
    """Run a graph for each slice of its inputs, and stack its outputs.

    In the first version of the operator, `first` has the lengths of sequences, and may be absent.
    """
    values = others if node.opset < _WITHOUT_BATCH or first is None else (first, *others)
    states = len(values) - num_scan_inputs
    if states < 0 or len(body.input) != len(values):
        raise IRValueError(
            f"the body takes {len(body.input)} input(s), but is given {len(values)}, "
            f"{num_scan_inputs} of them slice by slice"
        )
    over = _Scan(
        body,
        states,
        _one_for_each(scan_input_axes, num_scan_inputs),
        _one_for_each(scan_input_directions or directions, num_scan_inputs),
        _one_for_each(scan_output_axes, len(body.output) - states),
        _one_for_each(scan_output_directions, len(body.output) - states),
    )
    if node.opset < _WITHOUT_BATCH:
        return _scan_batches(node, over, first, values)
    return over.converted(node, values)


_WITHOUT_BATCH: Final = 9
"""Since this version, the inputs have no batch dimension."""


def _one_for_each(values: Sequence[int], count: int) -> list[int]:
    """Return one number for each input or output; zeros if there are no values."""
    if values and len(values) != count:
        raise IRValueError(f"expected {count} numbers, one for each, got {list(values)}")
    return list(values) or [0] * count


@dataclass(frozen=True)
class _Scan:
    """The graph of a Scan, and the axes and directions (1: reverse) of its slices and outputs."""

    body: Any
    states: int
    input_axes: Sequence[int]
    input_directions: Sequence[int]
    output_axes: Sequence[int]
    output_directions: Sequence[int]

    def converted(self, node: OnnxNode, inputs: Sequence[GraphExpr]) -> list[GraphExpr]:
        """Return the last states and the stacked outputs."""
        carried = inputs[: self.states]
        sliced, axes, lengths = [], [], []
        for x, axis, direction in zip(
            inputs[self.states :], self.input_axes, self.input_directions, strict=True
        ):
            axes.append(node.axis(axis, node.rank(x)))
            lengths.append(node.extent(x, axes[-1]))
            sliced.append(node.emit(op.flip(x, axis=axes[-1]) if direction else x))
        length = lengths[0]

        def emit(
            k: GraphExpr, values: Sequence[GraphExpr], xs: Sequence[GraphExpr], graph: _Graph
        ) -> StepOutputs:
            slices = [op.take(x, k, axis=axis) for x, axis in zip(xs, axes, strict=True)]
            outputs = graph(self.body, [*values, *slices])
            return StepOutputs(
                Constant(np.array(True)), outputs[: self.states], outputs[self.states :]
            )

        done = None
        if isinstance(length, IntImm):
            most = node.importing.repeats.rounds(self.body)
            done = _unrolled(
                node, most, length.value, carried, lambda k, v, graph: emit(k, v, sliced, graph)
            )
        if done is None:
            function = node.step_function(
                carried,
                lambda step, k, v: emit(k, v, [step.taken(x) for x in sliced], step.graph),
            )
            done = _loop_outputs(node, function, function.loop(carried, length))
        return [*done[: self.states], *self._place_outputs(node, done[self.states :])]

    def _place_outputs(self, node: OnnxNode, outputs: Sequence[GraphExpr]) -> list[GraphExpr]:
        result = []
        for x, axis, direction in zip(
            outputs, self.output_axes, self.output_directions, strict=True
        ):
            stacked = op.flip(x, axis=0) if direction else x
            if axis != 0:
                rank = node.rank(x)
                order = list(range(1, rank))
                order.insert(node.axis(axis, rank), 0)
                stacked = op.permute_dims(stacked, order)
            result.append(stacked)
        return result


def _scan_batches(
    node: OnnxNode, over: _Scan, lengths: GraphExpr | None, values: Sequence[GraphExpr]
) -> list[GraphExpr]:
    """Return a Scan of the first version, which iterates over the sequences of a batch."""
    if lengths is not None:
        raise IRValueError("sequences of several lengths are not supported; leave out their input")
    batch = node.extent(values[0], 0)
    if not isinstance(batch, IntImm):
        raise IRValueError("the number of sequences must be known while the model is read")
    node.check_parts(batch.value, "too many sequences of a batch")
    results = []
    for k in range(batch.value):
        at = Constant(np.array(k, np.int64))
        results.append(over.converted(node, [node.emit(op.take(x, at, axis=0)) for x in values]))
    return [op.stack(list(column), axis=0) for column in zip(*results, strict=True)]
