"""The matrices of discrete Fourier transforms, and the frames of a signal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from tensorir import te
from tensorir.errors import IRValueError
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import EQ, PrimExpr
from tensorir.nodes.ops import cast, compare, const, div, floordiv, floormod, select
from tensorir.relax.declaration import operator
from tensorir.relax.signature import DTypeName
from tensorir.te.tensor import Tensor
from tensorir.topi.extents import is_number, simplified


@operator("signal.dft_matrix")
def dft_matrix(
    extents: Sequence[PrimExpr],
    kind: Literal["forward", "inverse", "real"] = "forward",
    components: Literal[1, 2] = 2,
    dtype: DTypeName = "float32",
) -> Tensor:
    """Return the matrix by which a row of numbers becomes its discrete Fourier transform.

    `extents` are the numbers of a row, the length of the transform, and the numbers of the result.
    Rows of the matrix are inputs, their real parts and, if there are 2 components, their imaginary
    ones; columns real and imaginary parts of the result. The `inverse` divides by the length. A
    `real` one has real results of the first half of a spectrum, whose other half mirrors it.
    """
    if len(extents) != 3:
        raise IRValueError(f"extents must be 3 numbers, got {len(extents)}")
    count, length, results = extents
    if is_number(length, 0):
        raise IRValueError("the length of a transform must be at least 1, got 0")
    kind_of = DataType(dtype)
    parts = 1 if kind == "real" else 2

    def element(row: PrimExpr, column: PrimExpr) -> PrimExpr:
        n, of_n = floordiv(row, components), floormod(row, components)
        k, of_k = floordiv(column, parts), floormod(column, parts)
        # The angle is less than a turn, so that it has all its digits.
        turn = div(cast(kind_of, floormod(n * k, length)), cast(kind_of, length))
        angle = turn * const(2 * math.pi, kind_of)
        sine = te.sin(angle)
        if kind == "forward":
            sine = -sine
        # (a + bi)(cos + i sin): real parts a cos - b sin, imaginary ones a sin + b cos.
        is_real = compare(EQ, of_n, 0)
        factor = select(
            compare(EQ, of_k, 0),
            select(is_real, te.cos(angle), -sine),
            select(is_real, sine, te.cos(angle)),
        )
        if kind != "forward":
            factor = div(factor, cast(kind_of, length))
        used = n < length
        if kind == "real":
            middle = te.any(compare(EQ, n, 0), compare(EQ, n * 2, length))
            factor = factor * select(middle, const(1, kind_of), const(2, kind_of))
            used = n * 2 <= length
        return select(used, factor, const(0, kind_of))

    shape = [count * components, results * parts]
    return te.compute([simplified(n) for n in shape], element, name="dft_matrix")


@operator("signal.frames")
def frames(x: Tensor, extents: Sequence[PrimExpr], axis: int = -1) -> Tensor:
    """Return parts of a signal: `[..., frame, place]` in place of an axis.

    `extents` are the length of a frame, and the step from one to the next.
    """
    if len(extents) != 2:
        raise IRValueError(f"extents must be 2 numbers, got {len(extents)}")
    if not -x.ndim <= axis < x.ndim:
        raise IRValueError(f"axis {axis} is not among those of {x.ndim} dimension(s)")
    along = axis % x.ndim
    length, step = extents
    count = simplified(floordiv(x.shape[along] - length, step) + 1)

    def element(*indices: PrimExpr) -> PrimExpr:
        place = indices[along] * step + indices[along + 1]
        return x[(*indices[:along], place, *indices[along + 2 :])]

    shape = [*x.shape[:along], count, length, *x.shape[along + 1 :]]
    return te.compute(shape, element, name="frames")
