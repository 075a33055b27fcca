"""Extern operations: tensors defined by statements or functions instead of expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensorir.arith import Analyzer
from tensorir.errors import IRTypeError, IRValueError
from tensorir.function import PrimFunc
from tensorir.memory.access import get_block_read_write_region
from tensorir.nodes.buffer import Buffer, decl_buffer
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.ops import cast, const
from tensorir.nodes.stmt import Block, BlockRealize, Evaluate, Stmt
from tensorir.rewriting.visit import Substitution
from tensorir.te.tensor import ExternOp, ShapeLike, Tensor, as_shape


def extern(
    shape: ShapeLike | Sequence[Sequence[ShapeLike]],
    inputs: Sequence[Tensor],
    fcompute: Callable[[list[Buffer], list[Buffer]], Stmt | PrimExpr],
    name: str = "extern",
    dtype: str | Sequence[str] | None = None,
    in_buffers: Buffer | Sequence[Buffer] | None = None,
    out_buffers: Buffer | Sequence[Buffer] | None = None,
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """Return the tensors that a statement, or a call with an effect, writes.

    `shape` is the shape of the output or a sequence of shapes, `dtype` the matching dtypes, by
    default the dtype of the inputs. `fcompute(ins, outs)` receives a buffer for every input and
    output: compact buffers, or `in_buffers` and `out_buffers`. Variables in the layouts of these
    buffers get the values of a compact layout. If the layout is still not compact, it becomes the
    layout of the tensor as an argument of `te.create_prim_func`; intermediate tensors cannot have
    such a layout. Reads and writes are inferred from accesses; if a pointer is used, all buffers
    count as accessed. `tag` is accepted for compatibility and ignored.

    Raises IRTypeError for an input that is not a tensor, for different or undetermined dtypes, and
    for a result that is neither a statement nor an expression; IRValueError for counts and shapes
    that do not match.
    """
    del tag
    for k, tensor in enumerate(inputs):
        if not isinstance(tensor, Tensor):
            raise IRTypeError(
                f"te.extern {name!r} needs tensors, got {type(tensor).__name__} as input {k}"
            )
    shapes = [as_shape(dims, name) for dims in _shapes(shape)]
    dtypes = _dtypes(dtype, inputs, len(shapes), name)
    ins = _buffers(in_buffers, [(t.shape, t.dtype, t.name) for t in inputs], "in", name)
    rows = [(dims, kind, name) for dims, kind in zip(shapes, dtypes, strict=True)]
    outs = _buffers(out_buffers, rows, "out", name)
    result = fcompute(ins, outs)
    if isinstance(result, PrimExpr):
        result = Evaluate(result)
    if not isinstance(result, Stmt):
        raise IRTypeError(
            f"the function of te.extern {name!r} must return a statement or an expression, "
            f"got {type(result).__name__}"
        )
    matching = _Matching(f"te.extern {name!r}")
    for buffer, (dims, kind, given) in zip(outs, rows, strict=True):
        matching.match(buffer, dims, kind, given)
    return matching.operation(name, inputs, ins, outs, Block((), (), (), name, result), attrs)


def extern_primfunc(
    input_tensors: Sequence[Tensor],
    primfunc: PrimFunc,
    name: str = "extern",
    attrs: Mapping[str, Any] | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """Return the tensors that a function computes from `input_tensors`.

    The buffers that the function writes are the outputs (a tuple for several). The other buffers
    are matched with the tensors in the order of parameters, which determines the variables in their
    layouts. Raises IRTypeError for scalar parameters and different dtypes, IRValueError for counts
    or layouts that do not match.
    """
    buffers = [primfunc.buffer_map[p] for p in primfunc.params if p in primfunc.buffer_map]
    if len(buffers) != len(primfunc.params):
        scalars = [p.name for p in primfunc.params if p not in primfunc.buffer_map]
        raise IRTypeError(
            f"te.extern_primfunc {name!r} needs a function over buffers, but {', '.join(scalars)} "
            "of its parameters are scalars; fix them with PrimFunc.specialize"
        )
    block = without_root(primfunc, name)
    _, writes = get_block_read_write_region(block, {b.data: b for b in buffers})
    written = {region.buffer for region in writes}
    outs = [buffer for buffer in buffers if buffer in written]
    ins = [buffer for buffer in buffers if buffer not in written]
    if not outs:
        raise IRValueError(f"the function of te.extern_primfunc {name!r} must write a parameter")
    if len(ins) != len(input_tensors):
        raise IRValueError(
            f"the function of te.extern_primfunc {name!r} reads {len(ins)} buffer(s), "
            f"got {len(input_tensors)} tensor(s)"
        )
    matching = _Matching(f"te.extern_primfunc {name!r}")
    return matching.operation(name, input_tensors, ins, outs, block, attrs)


def without_root(func: PrimFunc, name: str) -> Block:
    """Return the body of a function as a block `name`, which replaces its root block."""
    body = func.body
    if isinstance(body, BlockRealize) and not body.block.iter_vars:
        return body.block.with_(name_hint=name)
    return Block((), (), (), name, body)


class _Matching:
    """The values of variables in the layouts of buffers, from the tensors that they hold."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._values: dict[Var, PrimExpr] = {}
        self._analyzer = Analyzer()

    def match(self, buffer: Buffer, shape: Sequence[PrimExpr], dtype: str, name: str) -> None:
        """Match a buffer with a tensor; free strides and offsets become compact.

        Raises an error if dtypes or shapes differ.
        """
        where = f"{self._what} passes tensor {name} as {buffer.name}"
        if buffer.dtype is not dtype:
            raise IRTypeError(f"{where}: dtype mismatch, {dtype} and {buffer.dtype}")
        same_rank = len(buffer.shape) == len(shape)
        if not same_rank or not all(map(self._equate, buffer.shape, shape)):
            shapes = [f"({', '.join(map(str, dims))})" for dims in (shape, buffer.shape)]
            raise IRValueError(f"{where}: shapes {shapes[0]} and {shapes[1]} differ")
        step: PrimExpr = const(1)
        for k in reversed(range(len(buffer.strides))):
            self._equate(buffer.strides[k], step)
            step = shape[k] * step
        self._equate(buffer.elem_offset, const(0))

    def _equate(self, part: PrimExpr, actual: PrimExpr) -> bool:
        actual = cast(part.dtype, actual)
        known = self._values.setdefault(part, actual) if isinstance(part, Var) else part
        return self._analyzer.can_prove_equal(known, actual)

    def operation(
        self,
        name: str,
        inputs: Sequence[Tensor],
        ins: Sequence[Buffer],
        outs: Sequence[Buffer],
        body: Block,
        attrs: Mapping[str, Any] | None,
    ) -> Tensor | tuple[Tensor, ...]:
        """Return the outputs of the operation that runs `body`."""
        for buffer, tensor in zip(ins, inputs, strict=True):
            self.match(buffer, tensor.shape, tensor.dtype, tensor.name)
        known = Substitution(self._values)
        ins, outs = [known.buffer(b) for b in ins], [known.buffer(b) for b in outs]
        op = ExternOp(name, inputs, ins, outs, known(body), attrs)
        op.set_outputs([buffer.shape for buffer in outs], [buffer.dtype for buffer in outs])
        return op.outputs if len(outs) > 1 else op.outputs[0]


def _shapes(shape: Any) -> list[Any]:
    """Return the shapes of outputs; a flat sequence of dimensions is the shape of one output."""
    several = isinstance(shape, Sequence) and any(isinstance(dim, Sequence) for dim in shape)
    return list(shape) if several else [shape]


def _dtypes(
    dtype: str | Sequence[str] | None, inputs: Sequence[Tensor], count: int, name: str
) -> Sequence[str]:
    if dtype is None:
        found = {tensor.dtype for tensor in inputs}
        if len(found) != 1:
            raise IRTypeError(
                f"the inputs of te.extern {name!r} do not determine the dtypes of its outputs: "
                f"they are {sorted(found)}; pass dtype"
            )
        return list(found) * count
    dtypes = [dtype] * count if isinstance(dtype, str) else list(dtype)
    if len(dtypes) != count:
        raise IRValueError(f"te.extern {name!r} has {count} output(s), and {len(dtypes)} dtype(s)")
    return [DataType(kind) for kind in dtypes]


def _buffers(
    given: Buffer | Sequence[Buffer] | None,
    rows: Sequence[tuple[Sequence[PrimExpr], str, str]],
    which: str,
    name: str,
) -> list[Buffer]:
    """Return the given buffers.

    By default compact buffers with the shapes, dtypes and names in `rows`.
    """
    if given is None:
        return [decl_buffer(list(shape), dtype, label) for shape, dtype, label in rows]
    buffers = [given] if isinstance(given, Buffer) else list(given)
    if len(buffers) != len(rows):
        raise IRValueError(
            f"te.extern {name!r} has {len(rows)} {which}put(s), "
            f"and {len(buffers)} {which}_buffer(s)"
        )
    return buffers
