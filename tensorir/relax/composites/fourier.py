"""Discrete Fourier transforms, as products with a matrix that is made when a model is built."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.arith import Analyzer
from tensorir.errors import IRValueError
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.ops import floordiv
from tensorir.relax import op
from tensorir.relax.composites.operand_shapes import dtype_of, rank_of, shape_of
from tensorir.relax.declaration import composite
from tensorir.relax.expr import GraphExpr, ShapeExpr


@composite("signal.dft")
def dft(
    x: GraphExpr,
    length: Sequence[PrimExpr] | None = None,
    axis: int = -2,
    inverse: bool = False,
    onesided: bool = False,
) -> GraphExpr:
    """Return the discrete Fourier transform of `x[..., n, c]` along an axis, `[..., k, 2]`.

    The last dimension has real and imaginary parts, or real parts alone. `length`, by default the
    extent of the axis, cuts the signal off or adds zeros. `onesided` gives the first half of the
    spectrum, which mirrors the rest of a real signal's; the inverse of it is real, `[..., k, 1]`.
    Sums are float64: what cancels leaves few digits of float32.
    """
    rank = rank_of(x)
    shape = shape_of(x)
    parts = shape[-1]
    if rank < 2 or not isinstance(parts, IntImm) or parts.value not in (1, 2):
        raise IRValueError(f"the last dimension of x must be 1 or 2 parts, got {shape}")
    along = axis % rank if -rank <= axis < rank else rank
    if along >= rank - 1:
        raise IRValueError(f"axis {axis} is none of a signal of rank {rank} with parts")
    count = shape[along]
    halved = inverse and onesided
    if length is not None and len(length) != 1:
        raise IRValueError(f"length must be one number, got {len(length)}")
    total = length[0] if length is not None else (count - 1) * 2 if halved else count
    results = floordiv(total, 2) + 1 if onesided and not inverse else total
    sizes = [Analyzer().simplify(n) for n in (count, total, results)]
    kind = "real" if halved else "inverse" if inverse else "forward"
    matrix = op.signal.dft_matrix(
        ShapeExpr(sizes), kind=kind, components=parts.value, dtype="float64"
    )
    others = [k for k in range(rank - 1) if k != along]
    order = [*others, along, rank - 1]
    wide = op.astype(x, "float64")
    rows = op.reshape(
        op.permute_dims(wide, axes=order), [*(shape[k] for k in others), count * parts.value]
    )
    product = op.astype(op.matmul(rows, matrix), dtype_of(x))
    result = op.reshape(product, [*(shape[k] for k in others), sizes[2], 1 if halved else 2])
    return op.permute_dims(result, axes=[order.index(k) for k in range(rank)])


@composite("signal.stft")
def stft(
    x: GraphExpr,
    extents: Sequence[PrimExpr],
    window: GraphExpr | None = None,
    onesided: bool = True,
) -> GraphExpr:
    """Return the transforms of frames of `x[b, n, c]`, as `[b, frame, k, 2]`.

    `extents` are the length of a frame, and the step from one to the next. Frames are multiplied by
    a window of their length.
    """
    if rank_of(x) != 3:
        raise IRValueError(f"x must have 3 dimensions, got {rank_of(x)}")
    parts = op.signal.frames(x, ShapeExpr(extents), axis=1)
    if window is not None:
        parts = op.multiply(parts, op.expand_dims(window, axis=-1))
    return op.signal.dft(parts, axis=-2, onesided=onesided)
