"""Layouts by letters, and windows that slide along the spatial axes of a tensor.

A layout such as `NCHW` names the axes of a tensor in their order: N is the batch, C the channels
(in a kernel O, the output channels, and I, the input channels), the others are spatial.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Final, TypeVar

from tensorir import te
from tensorir.errors import IRValueError
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.ops import as_expr, ceildiv, floordiv, min_
from tensorir.relax.declaration import operator
from tensorir.relax.dimension_order import DimensionOrder
from tensorir.te.tensor import Tensor
from tensorir.topi.extents import check_rank, extent_text, simplified

SPATIAL: Final = {1: "W", 2: "HW", 3: "DHW"}
"""The letters of spatial axes, by the number of axes."""

_AXES: Final = {1: "one axis", 2: "two axes", 3: "three axes"}

F = TypeVar("F", bound=Callable[..., Any])


def each_rank(name: str, dimension_order: DimensionOrder | None = None) -> Callable[[F], F]:
    """Declare an operator along one, two and three axes by a function of the number of axes.

    `#` is the number in the operator's name, the letters of the axes in its layouts, and words such
    as "two axes" in its docstring.
    """

    def declare(function: F) -> F:
        for rank in SPATIAL:
            result = _along(rank, function, name.rpartition(".")[2])
            operator(name.replace("#", str(rank)), dimension_order)(result)
        return function

    return declare


def _along(rank: int, function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @wraps(function)
    def formula(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return function(rank, *bound.args, **bound.kwargs)

    parameters = [
        p.replace(default=p.default.replace("#", SPATIAL[rank]))
        if isinstance(p.default, str)
        else p
        for p in inspect.signature(function).parameters.values()
    ]
    signature = inspect.Signature(parameters[1:])
    formula.__signature__ = signature  # type: ignore[attr-defined]
    formula.__name__ = name.replace("#", str(rank))
    formula.__doc__ = (function.__doc__ or "").replace("#", _AXES[rank])
    return formula


class Layout:
    """The order of axes."""

    def __init__(self, text: str, letters: str, what: str) -> None:
        """Read a layout. Raises IRValueError unless it consists of exactly these letters."""
        if sorted(text) != sorted(letters):
            raise IRValueError(f"{what} must consist of the letters {letters}, got {text!r}")
        self.text = text

    def sizes(self, tensor: Tensor, name: str) -> dict[str, PrimExpr]:
        """Return the extents of the operand called `name` by letter.

        Raises IRValueError for another rank.
        """
        check_rank(f"{name} ({self.text})", tensor, len(self.text))
        return dict(zip(self.text, tensor.shape, strict=True))

    def ordered(self, values: Mapping[str, PrimExpr]) -> tuple[PrimExpr, ...]:
        """Return values in the order of the axes."""
        return tuple(values[letter] for letter in self.text)

    def named(self, indices: Sequence[PrimExpr]) -> dict[str, PrimExpr]:
        """Return indices by letter."""
        return dict(zip(self.text, indices, strict=True))


def per_axis(value: int | Sequence[int], rank: int, name: str, least: int = 1) -> tuple[int, ...]:
    """Return a number for each spatial axis; a single number applies to all.

    Raises IRValueError for another count, or for a number below `least`.
    """
    values = (value,) * rank if isinstance(value, int) else tuple(value)
    if len(values) == 1:
        values *= rank
    if len(values) != rank:
        raise IRValueError(f"{name} must be 1 or {rank} numbers, got {len(values)}: {values}")
    if min(values) < least:
        raise IRValueError(f"{name} must be at least {least}, got {values}")
    return values


def margins(padding: int | Sequence[int], rank: int) -> list[tuple[int, int]]:
    """Return the padding before and after each spatial axis.

    One number applies to all sides, one number for each axis applies to both of its sides; the full
    form has all paddings before axes, followed by all paddings after axes. Raises IRValueError for
    another count or a negative number.
    """
    values = (padding,) if isinstance(padding, int) else tuple(padding)
    if len(values) == 1:
        values *= 2 * rank
    elif len(values) == rank:
        values *= 2
    if len(values) != 2 * rank:
        counts = " or ".join(map(str, dict.fromkeys([1, rank, 2 * rank])))
        raise IRValueError(f"padding must be {counts} numbers, got {len(values)}: {values}")
    if min(values) < 0:
        raise IRValueError(f"padding must not be negative, got {values}; crop by strided_slice")
    return list(zip(values[:rank], values[rank:], strict=True))


class Window:
    """The windows along one axis: they begin at `o * stride - before` and have taps `dilation`
    apart.
    """

    def __init__(
        self,
        size: PrimExpr,
        taps: PrimExpr | int,
        stride: int = 1,
        margin: tuple[int, int] = (0, 0),
        dilation: int = 1,
        ceil_mode: bool = False,
    ) -> None:
        """Place windows on an axis of `size`. Raises IRValueError if no window fits.

        With `ceil_mode`, a window may extend beyond the end of the axis if it starts before the
        end.
        """
        self.size, self.taps = size, as_expr(taps)
        self.stride, self.dilation = stride, dilation
        self.before, self.behind = margin
        reach = (self.taps - 1) * dilation
        room = size + (self.before + self.behind) - reach - 1
        if ceil_mode:
            count = min_(ceildiv(room, stride) + 1, ceildiv(size + self.before, stride))
        else:
            count = floordiv(room, stride) + 1
        self.count = simplified(count)
        if isinstance(self.count, IntImm) and self.count.value <= 0 and _is_some(size):
            raise IRValueError(
                f"a window of {extent_text(simplified(reach + 1))} does not fit into an axis of "
                f"{extent_text(size)} with padding {margin}"
            )
        if ceil_mode:
            used = (self.count - 1) * stride + reach + 1
            self.behind_used = simplified(used - size - self.before)
        else:
            self.behind_used = as_expr(self.behind)
        """The padding after the end that windows need.

        A negative number counts the unused elements.
        """

    def tap(self, place: PrimExpr, k: PrimExpr) -> PrimExpr:
        """Return the position of tap `k` of the window at `place` on the padded axis."""
        return place * self.stride + k * self.dilation

    def taps_inside(self, place: PrimExpr, with_padding: bool) -> PrimExpr:
        """Return the number of taps of a window on the axis.

        With `with_padding`, taps on the padding count as well.
        """
        start = place * self.stride - self.before
        end = self.size + self.behind if with_padding else self.size
        last = min_(self.taps, ceildiv(end - start, self.dilation))
        if with_padding:
            return last
        first = te.max(ceildiv(-start, self.dilation), te.const(0, place.dtype))
        return te.max(last - first, te.const(1, place.dtype))

    @property
    def is_padded(self) -> bool:
        """True if windows extend beyond the axis."""
        return self.before > 0 or not (
            isinstance(self.behind_used, IntImm) and self.behind_used.value <= 0
        )


def _is_some(size: PrimExpr) -> bool:
    return not (isinstance(size, IntImm) and size.value == 0)


def padded(
    x: Tensor,
    amounts: Mapping[int, tuple[PrimExpr | int, PrimExpr | int]],
    value: PrimExpr,
    name: str = "pad_temp",
) -> Tensor:
    """Return a tensor padded with `value`; negative amounts crop.

    Returns `x` itself if all amounts are 0.
    """
    sides = {a: (as_expr(b), as_expr(e)) for a, (b, e) in amounts.items()}
    sides = {a: both for a, both in sides.items() if not all(map(_is_zero, both))}
    if not sides:
        return x
    shape = list(x.shape)
    for axis, (before, behind) in sides.items():
        shape[axis] = simplified(shape[axis] + before + behind)

    def element(*indices: PrimExpr) -> PrimExpr:
        places = list(indices)
        inside = []
        for axis, (before, behind) in sides.items():
            places[axis] = indices[axis] - before
            if not _is_crop(before):
                inside.append(indices[axis] >= before)
            if not _is_crop(behind):
                inside.append(indices[axis] < x.shape[axis] + before)
        loaded = x[tuple(places)]
        return te.if_then_else(te.all(*inside), loaded, value) if inside else loaded

    return te.compute(shape, element, name=name)


def _is_zero(amount: PrimExpr) -> bool:
    return isinstance(amount, IntImm) and amount.value == 0


def _is_crop(amount: PrimExpr) -> bool:
    """Return True if the padding is provably 0 or negative."""
    return isinstance(amount, IntImm) and amount.value <= 0
