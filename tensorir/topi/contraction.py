"""Sums of products over named indices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from tensorir import te
from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.expr import PrimExpr
from tensorir.nodes.ops import cast, const
from tensorir.relax.declaration import operator
from tensorir.te.tensor import Tensor
from tensorir.topi.broadcast import convert_dtype, same_dtype, shape_text, sum_dtype
from tensorir.topi.extents import is_number, size_analyzer


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
