"""Stages that are functions rather than expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorir.access import get_block_read_write_region
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.errors import IRTypeError, IRValueError
from tensorir.function import PrimFunc
from tensorir.stmt import Block, BlockRealize
from tensorir.te.tensor import ExternOp, Tensor


def extern_primfunc(
    input_tensors: Sequence[Tensor],
    primfunc: PrimFunc,
    name: str = "extern",
    attrs: Mapping[str, Any] | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """Return what a function writes when it reads `input_tensors`.

    The buffers that the function writes are the outputs (a tuple if there are several), the others
    take the tensors in the order of parameters. Raises IRTypeError for scalar parameters and where
    dtypes differ, IRValueError where counts or shapes do.
    """
    buffers = [primfunc.buffer_map[p] for p in primfunc.params if p in primfunc.buffer_map]
    if len(buffers) != len(primfunc.params):
        scalars = [p.name for p in primfunc.params if p not in primfunc.buffer_map]
        raise IRTypeError(
            f"te.extern_primfunc {name!r} takes a function over buffers, but {', '.join(scalars)} "
            "of its parameters are scalars; fix them with PrimFunc.specialize"
        )
    block = without_root(primfunc, name)
    _, writes = get_block_read_write_region(block, {b.data: b for b in buffers})
    written = {region.buffer for region in writes}
    outs = [buffer for buffer in buffers if buffer in written]
    ins = [buffer for buffer in buffers if buffer not in written]
    if not outs:
        raise IRValueError(f"the function of te.extern_primfunc {name!r} writes no parameter")
    if len(ins) != len(input_tensors):
        raise IRValueError(
            f"the function of te.extern_primfunc {name!r} reads {len(ins)} buffer(s), "
            f"got {len(input_tensors)} tensor(s)"
        )
    for buffer, tensor in zip(ins, input_tensors, strict=True):
        _check_match(buffer, tensor, name)
    op = ExternOp(name, input_tensors, ins, outs, block, attrs)
    op.give([buffer.shape for buffer in outs], [buffer.dtype for buffer in outs])
    return op.outputs if len(outs) > 1 else op.outputs[0]


def without_root(func: PrimFunc, name: str) -> Block:
    """Return the body of a function as a block `name`, which takes the place of its root block."""
    body = func.body
    if isinstance(body, BlockRealize) and not body.block.iter_vars:
        return body.block.with_(name_hint=name)
    return Block((), (), (), name, body)


def _check_match(buffer: Buffer, tensor: Tensor, name: str) -> None:
    where = f"te.extern_primfunc {name!r} passes tensor {tensor.name} as {buffer.name}"
    if buffer.dtype is not tensor.dtype:
        raise IRTypeError(f"{where}: dtype mismatch, {tensor.dtype} and {buffer.dtype}")
    analyzer = Analyzer()
    same_rank = len(buffer.shape) == len(tensor.shape)
    if not same_rank or not all(map(analyzer.can_prove_equal, buffer.shape, tensor.shape)):
        shapes = [f"({', '.join(map(str, thing.shape))})" for thing in (tensor, buffer)]
        raise IRValueError(f"{where}: shapes {shapes[0]} and {shapes[1]} differ")
