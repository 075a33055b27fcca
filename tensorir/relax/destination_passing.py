"""Calls whose outputs are allocated by the caller, taken apart."""

from __future__ import annotations

from typing import NamedTuple

from tensorir.errors import IRTypeError
from tensorir.nodes.expr import GlobalVar, PrimExpr
from tensorir.relax.calls import (
    CALL_DPS_PACKED,
    CALL_TIR,
    CALL_TIR_INPLACE,
    FRESH,
    NUM_OUTPUTS,
)
from tensorir.relax.expr import ExternFunc, GraphCall, GraphExpr, ShapeExpr, Tuple
from tensorir.relax.struct_info import TensorStructInfo, TupleStructInfo, is_void


class DestinationPassing(NamedTuple):
    """A call of a tensor function, or of a library function that writes to its outputs."""

    callee: GlobalVar | ExternFunc
    args: tuple[GraphExpr, ...]
    outputs: tuple[TensorStructInfo, ...]
    inplace: tuple[int, ...]
    """For each output the index of the argument that it overwrites, `FRESH` for none."""
    scalars: tuple[PrimExpr, ...]
    """Integers behind the buffers."""
    gives_tuple: bool
    """True if the value of the call is a tuple of its outputs, not the one output."""


def destination_passing(value: object) -> DestinationPassing | None:
    """Return the parts of `call_tir`, `call_tir_inplace` and `call_dps_packed`, else None.

    Raises IRTypeError for a call that is not of the layout that `tensorir.relax.calls` makes.
    """
    if not isinstance(value, GraphCall):
        return None
    if value.op not in (CALL_TIR, CALL_TIR_INPLACE, CALL_DPS_PACKED):
        return None
    callee, inputs, *rest = value.args
    info = value.struct_info
    outputs = info.elements if isinstance(info, TupleStructInfo) else (info,)
    if not isinstance(callee, (GlobalVar, ExternFunc)) or not isinstance(inputs, Tuple):
        raise IRTypeError("a call in destination passing style has a callee and a tuple")
    tensors = tuple(out for out in outputs if isinstance(out, TensorStructInfo))
    if len(tensors) != len(outputs):
        raise IRTypeError(f"the outputs of a call must be tensors, got {info}")
    scalars = rest[0].values if rest and isinstance(rest[0], ShapeExpr) else ()
    return DestinationPassing(
        callee,
        inputs.elements,
        tensors,
        tuple(value.attrs.get("inplace_indices", (FRESH,) * len(tensors))),
        scalars,
        isinstance(info, TupleStructInfo),
    )


def written_last(call: GraphCall) -> int:
    """Return the number of last arguments that a library call writes, if it does no more.

    That is what destination passing is lowered to; 0 for any other call. Raises IRTypeError for a
    call that is not of the layout that `calls.call_into` makes.
    """
    count = call.attrs.get(NUM_OUTPUTS) if isinstance(call.op, ExternFunc) else None
    if count is None:
        return 0
    possible = isinstance(count, int) and 0 < count <= len(call.args)
    if not possible or not is_void(call.struct_info):
        raise IRTypeError(
            f"{NUM_OUTPUTS} is the number of last arguments that a call without result writes; "
            f"it is {count} of a call with {len(call.args)} argument(s) that gives "
            f"{call.struct_info}"
        )
    return int(count)
