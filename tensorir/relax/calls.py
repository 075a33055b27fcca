"""The calls of tensor functions and library functions.

`call_tir` calls a tensor function: the caller allocates the outputs and passes them after the
arguments ("destination passing style"). `call_dps_packed` calls a library function the same way,
`call_packed` a library function that allocates its result. `view` is a tensor with another shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any, Final, NamedTuple

from tensorir.arith import Analyzer
from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import GlobalVar, PrimExpr
from tensorir.nodes.ops import const
from tensorir.relax.expr import (
    DataTypeValue,
    ExternFunc,
    GraphCall,
    GraphExpr,
    PrimValue,
    ShapeExpr,
    StringValue,
    Tuple,
)
from tensorir.relax.operator import Operator
from tensorir.relax.struct_info import (
    OBJECT,
    VOID,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    is_void,
)

_Args = Sequence[GraphExpr]
_Attrs = Mapping[str, Any]
_Infos = Sequence[StructInfo]

NUM_OUTPUTS: Final = "num_outputs"
"""An attribute of a library call whose only effect is to write its last arguments: the number of
these arguments.
"""
FRESH: Final = -1
"""In `inplace_indices`: the output has new memory."""


def _stated_info(args: _Args, attrs: _Attrs, sinfo_args: _Infos) -> StructInfo:
    return sinfo_args[0] if sinfo_args else OBJECT


def _tensor(args: _Args, attrs: _Attrs, sinfo_args: _Infos) -> StructInfo:
    shapes = [a for a in args if isinstance(a, ShapeExpr)]
    dtypes = [a for a in args if isinstance(a, DataTypeValue)]
    if len(shapes) != 1 or len(dtypes) != 1:
        raise IRTypeError("allocating a tensor needs one R.shape([...]) and one R.dtype(...)")
    return TensorStructInfo(shapes[0].values, dtypes[0].value)


def _view(args: _Args, attrs: _Attrs, sinfo_args: _Infos) -> StructInfo:
    if len(args) != 2 or not isinstance(args[1], ShapeExpr):
        raise IRTypeError(
            "a view needs one tensor and one shape: R.memory.view(x, R.shape([2, 3]))"
        )
    info, shape = args[0].struct_info, args[1].values
    if not isinstance(info, TensorStructInfo) or info.shape is None or info.dtype is None:
        raise IRTypeError(
            f"a view needs a tensor whose shape and dtype are known, got {info}; state them "
            "by match_cast"
        )
    if Analyzer().can_prove(product(info.shape) != product(shape)):
        raise IRValueError(
            f"a view must have as many elements as its tensor, but {info} has another number than "
            f"{args[1]}"
        )
    return TensorStructInfo(shape, info.dtype)


def product(shape: Iterable[PrimExpr]) -> PrimExpr:
    """Return the number of elements of a tensor of a shape."""
    return prod(shape, start=const(1, INT64))


CALL_TIR: Final = Operator.register("relax.call_tir", _stated_info)
CALL_TIR_INPLACE: Final = Operator.register("relax.call_tir_inplace", _stated_info)
CALL_DPS_PACKED: Final = Operator.register("relax.call_dps_packed", _stated_info)
CALL_PURE_PACKED: Final = Operator.register("relax.call_pure_packed", _stated_info)
ALLOC_TENSOR: Final = Operator.register("relax.builtin.alloc_tensor", _tensor, pure=False)
"""New memory for one tensor: `(shape, dtype, device index, scope)`."""
ALLOC_STORAGE: Final = Operator.register(
    "relax.memory.alloc_storage", lambda *_: OBJECT, pure=False
)
"""Memory that tensors share: `(shape of one extent: bytes, device index, scope, dtype)`."""
PLACE_TENSOR: Final = Operator.register("relax.memory.alloc_tensor", _tensor, pure=False)
"""A tensor in shared memory: `(storage, offset in bytes, shape, dtype)`."""
COPY_INTO: Final = Operator.register("relax.memory.copy_into", lambda *_: VOID, pure=False)
"""Copy the elements of the first tensor to the second, which is of the same shape and dtype."""
CALL_GRAPH_INTO: Final = Operator.register("relax.memory.call_into", lambda *_: VOID, pure=False)
"""A call that writes the result of a graph function to tensors: `(function, tuple of arguments,
tuple of tensors)`, one tensor for each tensor of the result; nested tuples are flattened."""
VIEW: Final = Operator.register("relax.memory.view", _view)
"""A tensor in another shape, `(tensor, shape)`: its elements in row-major order.

The result is a tensor value that shares the memory of the first tensor.
"""


def call_tir(
    gvar: GlobalVar,
    args: GraphExpr | Iterable[GraphExpr],
    out_sinfo: StructInfo | Sequence[StructInfo],
    tir_vars: Iterable[PrimExpr | int] | ShapeExpr | None = None,
) -> GraphCall:
    """Return the call of a tensor function; it returns one tensor, or a tuple for a list.

    `tir_vars` are integer arguments after the buffers.
    """
    return GraphCall(
        CALL_TIR, _operands(_tensor_function(gvar), args, tir_vars), None, [_output(out_sinfo)]
    )


def call_tir_inplace(
    gvar: GlobalVar,
    args: GraphExpr | Iterable[GraphExpr],
    inplace_indices: int | Sequence[int],
    out_sinfo: StructInfo | Sequence[StructInfo],
    tir_vars: Iterable[PrimExpr | int] | ShapeExpr | None = None,
) -> GraphCall:
    """Return the call of a tensor function that overwrites arguments with outputs.

    `inplace_indices` has for each output the argument that it overwrites, -1 for new memory. The
    parameters of the function are its arguments, followed by the outputs with new memory. The
    argument, as a value, does not change: if it is used later, the call overwrites a copy of it.
    """
    operands = _operands(_tensor_function(gvar), args, tir_vars)
    indices = [inplace_indices] if isinstance(inplace_indices, int) else list(inplace_indices)
    output = _output(out_sinfo)
    count = len(output) if isinstance(output, TupleStructInfo) else 1
    inputs = operands[1]
    assert isinstance(inputs, Tuple)
    if len(indices) != count:
        raise IRValueError(
            f"{gvar.name} has {count} output(s), but inplace_indices has {len(indices)}"
        )
    if not all(FRESH <= k < len(inputs) for k in indices):
        raise IRValueError(
            f"inplace_indices must be -1 or positions of arguments, 0 to {len(inputs) - 1}, "
            f"got {indices}"
        )
    taken = [k for k in indices if k != FRESH]
    if not taken or len(set(taken)) != len(taken):
        raise IRValueError(
            f"inplace_indices must name at least one argument, and each at most once; got {indices}"
        )
    return GraphCall(CALL_TIR_INPLACE, operands, {"inplace_indices": tuple(indices)}, [output])


def call_dps_packed(
    func: str | ExternFunc,
    args: GraphExpr | Iterable[GraphExpr],
    out_sinfo: StructInfo | Sequence[StructInfo],
) -> GraphCall:
    """Return the call of a library function that writes its outputs, passed after the arguments.

    The library function is assumed to be pure: the call may be dropped, repeated or moved.
    """
    return GraphCall(CALL_DPS_PACKED, [_extern(func), _tuple(args)], None, [_output(out_sinfo)])


def call_packed(
    func: str | ExternFunc,
    *args: GraphExpr | GlobalVar,
    sinfo_args: StructInfo | Sequence[StructInfo] = (),
    num_outputs: int | None = None,
) -> GraphCall:
    """Return the call of a library function that returns its result; it may have effects.

    With `num_outputs` its only effect is to write its last `num_outputs` arguments. Graph functions
    may be arguments; see `call_pure_packed`.
    """
    attrs = None if num_outputs is None else {NUM_OUTPUTS: num_outputs}
    return GraphCall(_extern(func), args, attrs, _infos(sinfo_args))


def call_pure_packed(
    func: str | ExternFunc,
    *args: GraphExpr | GlobalVar,
    sinfo_args: StructInfo | Sequence[StructInfo] = (),
) -> GraphCall:
    """Return the call of a library function that returns its result, without effects.

    A graph function of the module may be an argument: the library function receives a function that
    calls it.
    """
    return GraphCall(CALL_PURE_PACKED, [_extern(func), *args], None, _infos(sinfo_args))


def call_into(
    func: GlobalVar | ExternFunc,
    args: Sequence[GraphExpr],
    outputs: Sequence[GraphExpr],
    scalars: Iterable[PrimExpr] = (),
) -> GraphCall:
    """Return the lowered form of a call in destination passing style: it writes to `outputs`."""
    operands = [*args, *outputs, *map(PrimValue, scalars)]
    if isinstance(func, GlobalVar):
        return GraphCall(func, operands, struct_info=VOID)
    return call_packed(func, *operands, sinfo_args=VOID, num_outputs=len(outputs))


def alloc_tensor(shape: Iterable[PrimExpr | int], dtype: str) -> GraphCall:
    """Return the allocation of a tensor with new memory."""
    return GraphCall(
        ALLOC_TENSOR,
        [ShapeExpr(shape), DataTypeValue(dtype), PrimValue(0), StringValue("global")],
    )


def alloc_storage(nbytes: PrimExpr | int) -> GraphCall:
    """Return the allocation of memory for several tensors, aligned to 64 bytes."""
    return GraphCall(
        ALLOC_STORAGE,
        [ShapeExpr([nbytes]), PrimValue(0), StringValue("global"), DataTypeValue("uint8")],
    )


def place_tensor(
    storage: GraphExpr, offset: PrimExpr | int, shape: Iterable[PrimExpr | int], dtype: str
) -> GraphCall:
    """Return a tensor at `offset` bytes in shared memory."""
    return GraphCall(
        PLACE_TENSOR, [storage, PrimValue(offset), ShapeExpr(shape), DataTypeValue(dtype)]
    )


def copy_into(source: GraphExpr, destination: GraphExpr) -> GraphCall:
    """Return the copy of the elements of a tensor into another one."""
    return GraphCall(COPY_INTO, [source, destination])


def call_graph_into(
    func: GlobalVar, args: Iterable[GraphExpr], outputs: Iterable[GraphExpr]
) -> GraphCall:
    """Return the call of a graph function that writes the tensors of its result to `outputs`."""
    return GraphCall(CALL_GRAPH_INTO, [func, Tuple(args), Tuple(outputs)])


def view(tensor: GraphExpr, shape: Iterable[PrimExpr | int]) -> GraphCall:
    """Return a tensor in another shape with the same number of elements.

    Raises IRTypeError if the shape or dtype of the tensor is unknown, IRValueError if the numbers
    of elements differ. Symbolic sizes are accepted unless they provably differ.
    """
    return GraphCall(VIEW, [tensor, ShapeExpr(shape)])


def same_elements(a: TensorStructInfo, b: TensorStructInfo) -> bool:
    """Return True if tensors provably have equal dtypes and numbers of elements."""
    if a.dtype is None or a.dtype != b.dtype or a.shape is None or b.shape is None:
        return False
    return Analyzer().can_prove_equal(product(a.shape), product(b.shape))


# ------------------------------------------------------------------------------- calls, taken apart


class CalledGraph(NamedTuple):
    """A call of a graph function, as a value or into memory."""

    callee: GlobalVar
    args: tuple[GraphExpr, ...]
    outputs: tuple[GraphExpr, ...] | None
    """The tensors that receive the result, None for a call that returns a value."""


def called_graph(call: GraphCall) -> CalledGraph | None:
    """Return the parts of a call of a graph function, direct or into memory.

    Return None for other calls.
    """
    if isinstance(call.op, GlobalVar):
        return CalledGraph(call.op, call.args, None)  # type: ignore[arg-type]
    if call.op is not CALL_GRAPH_INTO:
        return None
    callee, args, outputs = call.args
    if not (
        isinstance(callee, GlobalVar) and isinstance(args, Tuple) and isinstance(outputs, Tuple)
    ):
        raise IRTypeError(
            f"{CALL_GRAPH_INTO.short_name} needs a graph function of the module, a tuple of "
            "arguments and a tuple of tensors"
        )
    return CalledGraph(callee, args.elements, outputs.elements)


class DestinationPassing(NamedTuple):
    """A call of a tensor function, or of a library function that writes to its outputs."""

    callee: GlobalVar | ExternFunc
    args: tuple[GraphExpr, ...]
    outputs: tuple[TensorStructInfo, ...]
    inplace: tuple[int, ...]
    """For each output the index of the argument that it overwrites, `FRESH` for new memory."""
    scalars: tuple[PrimExpr, ...]
    """Integer arguments after the buffers."""
    gives_tuple: bool
    """True if the call returns a tuple of outputs, False for a single output."""


def destination_passing(value: object) -> DestinationPassing | None:
    """Return the parts of a `call_tir`, `call_tir_inplace` or `call_dps_packed`.

    Return None for other values. Raises IRTypeError for a call with another layout than the
    functions above create.
    """
    if not isinstance(value, GraphCall):
        return None
    if value.op not in (CALL_TIR, CALL_TIR_INPLACE, CALL_DPS_PACKED):
        return None
    callee, inputs, *rest = value.args
    info = value.struct_info
    outputs = info.elements if isinstance(info, TupleStructInfo) else (info,)
    if not isinstance(callee, (GlobalVar, ExternFunc)) or not isinstance(inputs, Tuple):
        raise IRTypeError("a call in destination passing style needs a callee and a tuple")
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
    """Return the number of last arguments that a library call writes, if that is its only effect,
    else 0.

    Calls in destination passing style are lowered to such calls. Raises IRTypeError for a call with
    another layout than `call_into` creates.
    """
    count = call.attrs.get(NUM_OUTPUTS) if isinstance(call.op, ExternFunc) else None
    if count is None:
        return 0
    possible = isinstance(count, int) and 0 < count <= len(call.args)
    if not possible or not is_void(call.struct_info):
        raise IRTypeError(
            f"{NUM_OUTPUTS} must be the number of last arguments that a call without result "
            f"writes; it is {count} for a call with {len(call.args)} argument(s) that returns "
            f"{call.struct_info}"
        )
    return int(count)


# ------------------------------------------------------------------------------ operands of calls


def _tensor_function(gvar: GlobalVar) -> GlobalVar:
    if not isinstance(gvar, GlobalVar):
        raise IRTypeError(
            f"call_tir calls a tensor function of the module by its GlobalVar, got "
            f"{type(gvar).__name__}; a library function is called by call_dps_packed"
        )
    return gvar


def _operands(
    callee: GlobalVar,
    args: GraphExpr | Iterable[GraphExpr],
    tir_vars: Iterable[PrimExpr | int] | ShapeExpr | None,
) -> list[GraphExpr | GlobalVar]:
    operands: list[GraphExpr | GlobalVar] = [callee, _tuple(args)]
    if tir_vars is not None:
        operands.append(tir_vars if isinstance(tir_vars, ShapeExpr) else ShapeExpr(tir_vars))
    return operands


def _tuple(args: GraphExpr | Iterable[GraphExpr]) -> Tuple:
    if isinstance(args, Tuple):
        return args
    if not isinstance(args, GraphExpr):
        return Tuple(args)
    if isinstance(args.struct_info, TupleStructInfo):
        return Tuple(args)  # its fields, one by one
    return Tuple([args])


def _output(out_sinfo: StructInfo | Sequence[StructInfo]) -> StructInfo:
    infos = _infos(out_sinfo)
    for info in infos:
        parts = info.elements if isinstance(info, TupleStructInfo) else (info,)
        for part in parts:
            if not isinstance(part, TensorStructInfo) or part.shape is None or part.dtype is None:
                raise IRTypeError(
                    f"an output must be a tensor with a stated shape and dtype, got {part}"
                )
    if not infos:
        raise IRValueError("a call in destination passing style must have at least one output")
    if isinstance(out_sinfo, StructInfo):
        return out_sinfo
    return infos[0] if len(infos) == 1 else TupleStructInfo(infos)


def _infos(infos: StructInfo | Sequence[StructInfo]) -> list[StructInfo]:
    return [infos] if isinstance(infos, StructInfo) else list(infos)


def _extern(func: str | ExternFunc) -> ExternFunc:
    if isinstance(func, str):
        return ExternFunc(func)
    if not isinstance(func, ExternFunc):
        raise IRTypeError(
            f"a library function must be given by its name in quotes, got {func!r}; call a tensor "
            "function of the module by call_tir"
        )
    return func
