"""One lane of a vector expression, as a scalar expression: how the interpreter reads vectors."""

from __future__ import annotations

from tensorir import expr as e
from tensorir.errors import IRTypeError
from tensorir.expr import PrimExpr
from tensorir.ops import add, as_expr, const, mul


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
        return e.BufferLoad(node.buffer, [lane_of(i, lane) for i in node.indices], predicate)
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
    if isinstance(node, e.Call):
        return e.Call(dtype, node.op, [lane_of(as_expr(arg), lane) for arg in node.args])
    if isinstance(node, e.Shuffle):
        lanes = [(part, k) for part in node.vectors for k in range(part.dtype.lanes)]
        index = node.indices[lane]
        if isinstance(index, e.IntImm):
            return lane_of(*lanes[index.value])
    raise IRTypeError(f"`{node}` has no meaning for each of its lanes")
