"""One lane of a vector expression, as a scalar expression: how the interpreter reads vectors."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir import expr as e
from tensorir.buffer import Buffer
from tensorir.dtype import INT32
from tensorir.errors import IRTypeError
from tensorir.expr import PrimExpr
from tensorir.interp_bits import is_across_lanes
from tensorir.ops import add, as_expr, const, floordiv, floormod, mul


def lane_of(node: PrimExpr, lane: int) -> PrimExpr:
    """Return the value of lane `lane`; a scalar has it in every lane.

    Raises IRTypeError for a vector variable or a call without a meaning for each lane.
    """
    if node.dtype.lanes == 1 and not isinstance(node, e.BufferLoad):
        return node
    dtype = node.dtype.with_lanes(1)
    if isinstance(node, e.Ramp):
        return add(node.base, mul(node.stride, const(lane, node.stride.dtype)))
    if isinstance(node, e.Broadcast):
        return node.value
    if isinstance(node, e.BufferLoad):
        predicate = None if node.predicate is None else lane_of(node.predicate, lane)
        return e.BufferLoad(node.buffer, lane_indices(node.buffer, node.indices, lane), predicate)
    if isinstance(node, e.BinaryOp):
        return type(node)(lane_of(node.a, lane), lane_of(node.b, lane))
    if isinstance(node, e.Not):
        return e.Not(lane_of(node.a, lane))
    if isinstance(node, e.Cast):
        return e.Cast(dtype, lane_of(node.value, lane))
    if isinstance(node, e.Select):
        parts = (node.condition, node.true_value, node.false_value)
        return e.Select(*(lane_of(part, lane) for part in parts))
    if isinstance(node, e.Let):
        return e.Let(node.var, node.value, lane_of(node.body, lane))
    if is_across_lanes(node):
        return e.Shuffle([node], [const(lane, INT32)])
    if isinstance(node, e.Call):
        return e.Call(dtype, node.op, [lane_of(as_expr(arg), lane) for arg in node.args])
    if isinstance(node, e.Shuffle):
        lanes = [(part, k) for part in node.vectors for k in range(part.dtype.lanes)]
        index = node.indices[lane]
        if isinstance(index, e.IntImm):
            return lane_of(*lanes[index.value])
    raise IRTypeError(f"`{node}` has no meaning for each of its lanes")


def lane_indices(buffer: Buffer, indices: Sequence[PrimExpr], lane: int) -> list[PrimExpr]:
    """Return where a lane of a vector access goes.

    A ramp that is longer than a row of a compact buffer runs on into the rows that follow.
    """
    result = [lane_of(index, lane) for index in indices]
    ramp = indices[-1] if indices else None
    if not isinstance(ramp, e.Ramp) or buffer.strides or len(indices) < 2:
        return result
    last = buffer.shape[-1]
    stride = ramp.stride
    if not isinstance(last, e.IntImm) or not isinstance(stride, e.IntImm):
        return result
    if stride.value * (ramp.dtype.lanes - 1) < last.value:
        return result
    for k in range(len(result) - 1, 0, -1):
        size = buffer.shape[k]
        result[k - 1] = add(result[k - 1], floordiv(result[k], size))
        result[k] = floormod(result[k], size)
    return result
