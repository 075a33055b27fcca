"""A graph of tensor operations as text, one line for each tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tensorir.nodes.expr import Add, CommReducer, Max, Min, Mul, PrimExpr, Reduce
from tensorir.nodes.ops import is_const_int
from tensorir.te import ComputeOp, PlaceholderOp
from tensorir.te.tensor import Operation

_SIGNS: Final[dict[type[PrimExpr], str]] = {Add: "+=", Mul: "*=", Max: "max=", Min: "min="}


def dag_text(ops: Sequence[Operation]) -> str:
    """Return the definition of each operation as text.

    `A = PLACEHOLDER [64, 32]` is an input, `C(i, j) += A[i, k] * B[k, j]` a sum over the axes that
    are not on the left.
    """
    return "".join(f"{line}\n" for op in ops for line in _lines(op))


def _lines(op: Operation) -> list[str]:
    if isinstance(op, PlaceholderOp):
        shape = ", ".join(map(str, op.outputs[0].shape))
        return [f"{op.name} = PLACEHOLDER [{shape}]"]
    if not isinstance(op, ComputeOp):
        inputs = ", ".join(tensor.name for tensor in op.inputs)
        return [f"{tensor.name} = EXTERN({inputs})" for tensor in op.outputs]
    axes = ", ".join(axis.var.name for axis in op.axis)
    pairs = zip(op.outputs, op.body, strict=True)
    return [f"{tensor.name}({axes}) {_defined(body)}" for tensor, body in pairs]


def _defined(body: PrimExpr) -> str:
    if not isinstance(body, Reduce):
        return f"= {body}"
    source = body.source[body.value_index]
    where = "" if is_const_int(body.condition, 1) else f" where {body.condition}"
    return f"{_sign(body.combiner)} {source}{where}"


def _sign(combiner: CommReducer) -> str:
    """Return the sign by which results are combined; several at a time have none of their own."""
    return (
        _SIGNS.get(type(combiner.result[0]), "reduce=") if len(combiner.result) == 1 else "reduce="
    )
