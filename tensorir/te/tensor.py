"""Tensors and the operations that define them.

A `Tensor` is a `Buffer` without memory, so expressions over tensors are ordinary expressions, and
visitors, printers and rewriters need no special case for tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.dtype import INT32, DataType
from tensorir.nodes.expr import (
    BufferLoad,
    ExprLike,
    IntImm,
    IterVar,
    PointerType,
    PrimExpr,
    PrimType,
    Reduce,
    SizeVar,
    Var,
)
from tensorir.nodes.ops import as_expr, const
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import post_order_visit

ShapeLike: TypeAlias = Sequence[ExprLike] | ExprLike


class Tensor(Buffer):
    """An output of an operation; `A[i, j]`, or `A(i, j)`, is an element of it.

    `op` is the operation, `value_index` the index of the tensor in its outputs. A tensor of rank 0
    is accessed by `A[()]` or `A()`.
    """

    __slots__ = ("op", "value_index")

    def __init__(
        self, op: Operation, value_index: int, shape: Sequence[PrimExpr], dtype: str, name: str
    ) -> None:
        kind = DataType(dtype)
        pointer = PointerType(PrimType("int8" if kind.is_bool else kind))
        offset = const(0, shape[0].dtype if shape else INT32)
        super().__init__(Var(name, pointer), kind, shape, (), offset, name)
        self.op = op
        self.value_index = value_index

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def __call__(self, *indices: ExprLike | IterVar) -> BufferLoad:
        """Return the element at `indices`.

        Raises IRValueError for a wrong number of indices, IRTypeError for a non-integer index.
        """
        values = [self._index(index) for index in indices]
        if len(values) != len(self.shape):
            raise IRValueError(
                f"tensor {self.name} has {len(self.shape)} dimension(s) "
                f"but is accessed with {len(values)} index(es)"
            )
        return BufferLoad(self, values)

    def __getitem__(self, indices: Any) -> BufferLoad:
        return self(*indices) if isinstance(indices, tuple) else self(indices)

    def _index(self, index: Any) -> PrimExpr:
        if isinstance(index, slice):
            raise IRTypeError(
                f"tensor {self.name} cannot be indexed by the slice {index}; "
                "compute a tensor of that part instead"
            )
        value = as_expr(index)
        if not value.dtype.is_integral:
            raise IRTypeError(f"an index of tensor {self.name} is {value.dtype}, not an integer")
        return value

    def __repr__(self) -> str:
        return f"Tensor({self.name}, shape=({', '.join(map(str, self.shape))}), dtype={self.dtype})"

    __str__ = __repr__


class Operation:
    """An operation that defines tensors; `inputs` and `outputs` are the edges of the graph."""

    def __init__(
        self, name: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any] | None
    ) -> None:
        self.name = name
        self.inputs = tuple(inputs)
        self.attrs: Final = dict(attrs or {})
        self.outputs: tuple[Tensor, ...] = ()

    def set_outputs(self, shapes: Sequence[Sequence[PrimExpr]], dtypes: Sequence[str]) -> None:
        """Create the outputs; several outputs are named `<name>.v0`, `<name>.v1`, ..."""
        names = (
            [self.name] if len(shapes) == 1 else [f"{self.name}.v{k}" for k in range(len(shapes))]
        )
        rows = zip(shapes, dtypes, names, strict=True)
        self.outputs = tuple(Tensor(self, k, *row) for k, row in enumerate(rows))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


class PlaceholderOp(Operation):
    """An input of the program."""


class ComputeOp(Operation):
    """A tensor defined by an expression over the axes, or by a reduction of an expression.

    `body` has an expression for each output; `reduce_axis` is empty unless they are reductions.
    """

    def __init__(
        self,
        name: str,
        axis: Sequence[IterVar],
        reduce_axis: Sequence[IterVar],
        body: Sequence[PrimExpr],
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(name, tensors_read(body), attrs)
        self.axis = tuple(axis)
        self.reduce_axis = tuple(reduce_axis)
        self.body = tuple(body)

    @property
    def reduces(self) -> bool:
        """True if the body is a reduction."""
        return isinstance(self.body[0], Reduce)


class ExternOp(Operation):
    """A block over `in_buffers` and `out_buffers`, the buffers of inputs and outputs."""

    def __init__(
        self,
        name: str,
        inputs: Sequence[Tensor],
        in_buffers: Sequence[Buffer],
        out_buffers: Sequence[Buffer],
        body: Block,
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(name, inputs, attrs)
        self.in_buffers = tuple(in_buffers)
        self.out_buffers = tuple(out_buffers)
        self.body = body


def tensors_read(body: Sequence[PrimExpr]) -> list[Tensor]:
    """Return the tensors that expressions read, each once; tensors in indices come first."""
    found: dict[Tensor, None] = {}

    def visit(node: object) -> None:
        if isinstance(node, BufferLoad) and isinstance(node.buffer, Tensor):
            found[node.buffer] = None

    for expr in body:
        post_order_visit(expr, visit)
    return list(found)


def as_shape(shape: ShapeLike, name: str) -> list[PrimExpr]:
    """Return the dimensions of the tensor `name`; one number is a shape of rank 1.

    Raises IRTypeError for a dimension that is not a signed integer, IRValueError for a negative
    one.
    """
    dims = [as_expr(n) for n in (shape if isinstance(shape, Sequence) else (shape,))]
    for k, dim in enumerate(dims):
        if not dim.dtype.is_int or dim.dtype.lanes != 1:
            raise IRTypeError(
                f"dimension {k} of tensor {name} is {dim.dtype}, not a signed integer"
            )
        if isinstance(dim, IntImm) and dim.value < 0:
            raise IRValueError(f"dimension {k} of tensor {name} is {dim.value}, which is negative")
    return dims


def placeholder(shape: ShapeLike, dtype: str = "float32", name: str = "placeholder") -> Tensor:
    """Return an input; `shape` may have variables, and one number is a shape of rank 1."""
    op = PlaceholderOp(name, (), None)
    op.set_outputs([as_shape(shape, name)], [dtype])
    return op.outputs[0]


def var(name: str = "tindex", dtype: str = "int32") -> Var:
    """Return a scalar variable."""
    return Var(name, dtype)


def size_var(name: str = "size", dtype: str = "int32") -> SizeVar:
    """Return a scalar variable that is at least 0, such as the extent of a dimension."""
    return SizeVar(name, dtype)
