"""Padding: with a constant, or with elements of the tensor (reflect, edge, wrap)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from tensorir import te
from tensorir.errors import IRValueError
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.ops import const, floormod
from tensorir.relax.declaration import operator
from tensorir.relax.dimension_order import per_dimension
from tensorir.te.tensor import Tensor
from tensorir.topi.extents import simplified
from tensorir.topi.nn.spatial import padded

Mode: TypeAlias = Literal[
    "constant", "reflect", "symmetric", "edge", "replicate", "wrap", "circular"
]


@operator("nn.pad", dimension_order=per_dimension("pad_width"))
def pad(
    data: Tensor,
    pad_width: Sequence[int],
    pad_mode: Mode | None = "constant",
    pad_value: int | float | bool | None = 0,
) -> Tensor:
    """Return padded `data`: `pad_width` is `[before0, behind0, before1, ...]`.

    The padding is `pad_value`, or as in `numpy.pad`: mirrored at the centres of the first and last
    element (`reflect`) or at their outer edges (`symmetric`), the nearest element (`edge`,
    `replicate`), or elements of the other end (`wrap`, `circular`). A negative width crops.
    """
    return dynamic_pad(data, pad_width, pad_mode, pad_value)


@operator("nn.dynamic_pad")
def dynamic_pad(
    data: Tensor,
    pad_width: Sequence[int | PrimExpr],
    pad_mode: Mode | None = "constant",
    pad_value: int | float | bool | None = 0,
) -> Tensor:
    """Return padded `data`, as `nn.pad` does; the widths may be symbolic."""
    widths = [_plain(width) for width in pad_width]
    if len(widths) != 2 * data.ndim:
        raise IRValueError(
            f"pad_width must be {2 * data.ndim} numbers for {data.ndim} dimensions, got {widths}"
        )
    sides = list(zip(widths[::2], widths[1::2], strict=True))
    if pad_mode in ("constant", None):
        value = const(pad_value or 0, data.dtype)
        return padded(data, dict(enumerate(sides)), value, "PadInput")
    shape = [
        simplified(n + (before + behind))
        for n, (before, behind) in zip(data.shape, sides, strict=True)
    ]

    def element(*indices: PrimExpr) -> PrimExpr:
        places = [
            _source_index(pad_mode, i - before, n, before, behind)
            if _may_add(before) or _may_add(behind)
            else i - before
            for i, n, (before, behind) in zip(indices, data.shape, sides, strict=True)
        ]
        return data[tuple(places)]

    return te.compute(shape, element, name="MirrorPadInput")


def _plain(width: int | PrimExpr) -> int | PrimExpr:
    return width.value if isinstance(width, IntImm) else width


def _may_add(width: int | PrimExpr) -> bool:
    """Return True if a width may be positive."""
    return not isinstance(width, int) or width > 0


def _source_index(
    mode: str | None,
    place: PrimExpr,
    n: PrimExpr,
    before: int | PrimExpr,
    behind: int | PrimExpr,
) -> PrimExpr:
    """Return the index of the element that pads an axis of `n` at a position."""
    zero, last = const(0, n.dtype), n - 1
    if isinstance(n, IntImm) and n.value == 0:
        raise IRValueError(f"an axis without elements cannot be padded with pad_mode {mode!r}")
    if mode in ("edge", "replicate"):
        clamped: PrimExpr = te.min(te.max(place, zero), last)
        return clamped
    if mode in ("wrap", "circular"):
        return floormod(place, n)
    shift = 0 if mode == "reflect" else 1
    if isinstance(n, IntImm) and n.value == 1 and mode == "reflect":
        return zero
    known = isinstance(before, int) and isinstance(behind, int)
    if not known or not isinstance(n, IntImm) or max(before, behind) >= n.value + shift:
        period = n * 2 - (0 if shift else 2)
        place = floormod(place, te.max(period, const(1, n.dtype)))
        before = 0
        return te.min(place, period - shift - place)
    if _may_add(before):
        place = te.max(place, -place - shift)
    if _may_add(behind):
        place = te.min(place, last * 2 + shift - place)
    return place
