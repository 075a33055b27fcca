"""Matrix products, and sums of products over named indices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from tensorir import te
from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.ops import cast, const
from tensorir.relax.declaration import operator
from tensorir.te.tensor import Tensor
from tensorir.topi.broadcast import (
    broadcast_shape,
    convert_dtype,
    same_dtype,
    shape_text,
    sum_dtype,
)
from tensorir.topi.extents import check_equal, check_rank, is_number, size_analyzer


@operator("matmul")
def matmul(x1: Tensor, x2: Tensor, out_dtype: str | None = None) -> Tensor:
    """Return the matrix product, as `numpy.matmul` does.

    `x1[..., n, k]` and `x2[..., k, m]` give `[..., n, m]`; leading dimensions broadcast. An operand
    of rank 1 is a row or a column; the result lacks that dimension. Products are added in
    `out_dtype` (for example int32 for a product of bytes), by default the dtype of the operands,
    and float32 for float16.
    """
    return product_of_matrices("matmul", x1, x2, out_dtype)


def product_of_matrices(
    name: str,
    a: Tensor,
    b: Tensor,
    out_dtype: str | None,
    transposed: tuple[bool, bool] = (False, False),
) -> Tensor:
    """Return the product of matrices of rank 1 or more; `transposed` has a flag for each."""
    if not a.ndim or not b.ndim:
        raise IRValueError("operands must have at least 1 dimension; multiply accepts numbers")
    transpose_a, transpose_b = (t and x.ndim > 1 for t, x in zip(transposed, (a, b), strict=True))
    depth_a = a.shape[-2] if transpose_a else a.shape[-1]
    depth_b = b.shape[-2] if b.ndim > 1 and not transpose_b else b.shape[-1]
    try:
        check_equal(depth_a, "the length of rows of x1", depth_b, "that of columns of x2")
    except IRValueError as error:
        shapes = f"{shape_text(a.shape)} and {shape_text(b.shape)}"
        raise IRValueError(f"shapes {shapes} do not match: {error}") from None
    batch = broadcast_shape(a.shape[:-2], b.shape[:-2])
    rows = [] if a.ndim == 1 else [a.shape[-1] if transpose_a else a.shape[-2]]
    columns = [] if b.ndim == 1 else [b.shape[-2] if transpose_b else b.shape[-1]]
    result, wide = product_dtypes(a, b, out_dtype)
    k = te.reduce_axis((0, depth_a), "k")

    def element(*indices: PrimExpr) -> PrimExpr:
        outer = indices[: len(batch)]
        row = indices[len(batch) : len(batch) + len(rows)]
        column = indices[len(batch) + len(rows) :]
        left = [k.var, *row] if transpose_a else [*row, k.var]
        right = [*column, k.var] if transpose_b else [k.var, *column]
        x = a[(*_broadcast_leading(a, outer), *left)]
        y = b[(*_broadcast_leading(b, outer), *right)]
        return te.sum(cast(wide, x) * cast(wide, y), axis=k)

    names = [f"b{d}" for d in range(len(batch))] if len(batch) > 1 else ["b"] * len(batch)
    names += ["i"] * len(rows) + ["j"] * len(columns)
    shape = [*batch, *rows, *columns]
    total = te.compute(shape, element, name=name, varargs_names=names)
    return convert_dtype(total, result)


def product_dtypes(a: Tensor, b: Tensor, out_dtype: str | None) -> tuple[DataType, DataType]:
    """Return the dtype of sums of products, and the dtype of their accumulators.

    Raises IRTypeError for operands of different dtypes without `out_dtype`.
    """
    if out_dtype is None:
        if a.dtype is not b.dtype:
            raise IRTypeError(
                f"operands must have one dtype, got {a.dtype} and {b.dtype}; set the dtype of the "
                "result by out_dtype"
            )
        return a.dtype, sum_dtype(a.dtype)
    result = DataType(out_dtype)
    return result, sum_dtype(result)


def _broadcast_leading(tensor: Tensor, outer: Sequence[PrimExpr]) -> list[PrimExpr]:
    """Return the leading indices of an operand: the result's, 0 for broadcast dimensions."""
    own = tensor.shape[:-2]
    return [
        te.const(0, i.dtype) if isinstance(n, IntImm) and n.value == 1 else i
        for i, n in zip(outer[len(outer) - len(own) :], own, strict=True)
    ]


@operator("nn.batch_matmul")
def batch_matmul(
    x: Tensor,
    y: Tensor,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> Tensor:
    """Return the products of the matrices `x[b, n, k]` and `y[b, m, k]` for each `b`.

    Without `transpose_b` the second operand is `y[b, k, m]`; with `transpose_a` the first is `x[b,
    k, n]`.
    """
    check_rank("x", x, 3)
    check_rank("y", y, 3)
    letters = ("T" if transpose_a else "N") + ("T" if transpose_b else "N")
    return product_of_matrices(
        f"T_batch_matmul_{letters}", x, y, out_dtype, (transpose_a, transpose_b)
    )


@operator("nn.dense")
def dense(
    data: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: str | None = None
) -> Tensor:
    """Return `data @ weight.T + bias`; `weight[m, k]` has a row for each column of the result."""
    check_rank("weight", weight, 2)
    total = product_of_matrices("T_matmul_NT", data, weight, out_dtype, (False, True))
    if bias is None:
        return total
    check_rank("bias", bias, 1)
    check_equal(bias.shape[0], "the length of bias", weight.shape[0], "that of weight")
    return te.compute(
        total.shape, lambda *i: total[i] + cast(total.dtype, bias[i[-1]]), name="T_add"
    )


@operator("contract")
def contract(operands: Sequence[Tensor], subscripts: str) -> Tensor:
    """Return products of elements, summed over all letters that are not in the result.

    `subscripts` names the dimensions of each operand and of the result by letters: `ij,jk->ik` is a
    product of matrices. A repeated letter of an operand selects its diagonal. Dimensions of extent
    1 broadcast. `einsum` combines several operands, two at a time.
    """
    inputs, _, output = subscripts.partition("->")
    letters = inputs.split(",")
    extents = _extents(operands, letters)
    wide = sum_dtype(operands[0].dtype)
    if operands[0].dtype.is_bool:
        raise IRTypeError("a contraction needs numbers, got bool; convert by astype")
    over = [te.reduce_axis((0, n), letter) for letter, n in extents.items() if letter not in output]

    def element(*indices: PrimExpr) -> PrimExpr:
        place: dict[str, PrimExpr] = dict(zip(output, indices, strict=True))
        place |= {axis.var.name: axis.var for axis in over}
        factors = [
            cast(wide, _element(tensor, names, place))
            for tensor, names in zip(operands, letters, strict=True)
        ]
        product = reduce(te.multiply, factors)
        return te.sum(product, axis=over) if over else product

    shape = [extents[letter] for letter in output]
    return convert_dtype(te.compute(shape, element, name="T_contract"), operands[0].dtype)


def _element(tensor: Tensor, letters: str, place: dict[str, PrimExpr]) -> PrimExpr:
    return tensor[
        tuple(
            const(0, place[letter].dtype) if is_number(n, 1) else place[letter]
            for letter, n in zip(letters, tensor.shape, strict=True)
        )
    ]


def _extents(operands: Sequence[Tensor], letters: Sequence[str]) -> dict[str, PrimExpr]:
    """Return the extent of each letter, in order of first use.

    Raises IRTypeError and IRValueError if operands do not match their letters.
    """
    same_dtype(*operands)
    analyzer = size_analyzer(*(tensor.shape for tensor in operands))
    extents: dict[str, PrimExpr] = {}
    for tensor, names in zip(operands, letters, strict=True):
        if tensor.ndim != len(names):
            raise IRValueError(f"{names!r} names {len(names)} of {tensor.ndim} dimension(s)")
        for letter, extent in zip(names, tensor.shape, strict=True):
            known = extents.setdefault(letter, extent)
            if is_number(known, 1):
                extents[letter] = extent
            elif not is_number(extent, 1) and not analyzer.can_prove_equal(known, extent):
                raise IRValueError(f"{letter} has the extents {shape_text([known, extent])}")
    return extents
