"""Convolutions along one to three axes, and transposed convolutions (their gradients)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tensorir import te
from tensorir.errors import IRValueError
from tensorir.nodes.expr import EQ, IntImm, PrimExpr
from tensorir.nodes.ops import as_expr, cast, compare, const, floordiv, floormod
from tensorir.te.tensor import Tensor
from tensorir.topi.broadcast import convert_dtype
from tensorir.topi.extents import (
    as_divisor,
    check_equal,
    is_number,
    known_extent,
    simplified,
)
from tensorir.topi.matmul import product_dtypes
from tensorir.topi.nn.spatial import (
    SPATIAL,
    Layout,
    Window,
    each_rank,
    margins,
    padded,
    per_axis,
)


@each_rank("nn.conv#d")
def convolution(
    rank: int,
    data: Tensor,
    weight: Tensor,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    data_layout: str = "NC#",
    kernel_layout: str = "OI#",
    out_layout: str | None = None,
    out_dtype: str | None = None,
) -> Tensor:
    """Return the convolution of `data` with `weight` along #.

    `data[n, c, h, w]` and `weight[o, i, kh, kw]` give `[n, o, h', w']` with `h' = (h + padding -
    dilation * (kh - 1) - 1) // stride + 1`; layouts give the order of axes. Channels are divided
    into `groups` with `i` input channels each. Padding is `[top, left, bottom, right]`, `[vertical,
    horizontal]` or one number. Products are added in `out_dtype`, by default the dtype of the
    operands, and float32 for float16.
    """
    letters = SPATIAL[rank]
    layout = Layout(data_layout, f"NC{letters}", "data_layout")
    kernel = Layout(kernel_layout, f"OI{letters}", "kernel_layout")
    out = Layout(out_layout or data_layout, f"NC{letters}", "out_layout")
    size, taps = layout.sizes(data, "data"), kernel.sizes(weight, "weight")
    _check_groups(size["C"], taps["I"], taps["O"], groups)
    result, wide = product_dtypes(data, weight, out_dtype)
    windows = {
        letter: Window(size[letter], taps[letter], stride, margin, step)
        for letter, stride, margin, step in zip(
            letters,
            per_axis(strides, rank, "strides"),
            margins(padding, rank),
            per_axis(dilation, rank, "dilation"),
            strict=True,
        )
    }
    amounts = {layout.text.index(x): (w.before, w.behind) for x, w in windows.items()}
    source = padded(data, amounts, const(0, data.dtype))
    is_depthwise = groups > 1 and is_number(taps["I"], 1)
    # The reduction axes have the order of the data axes over which they run.
    walked = [x for x in layout.text if x in letters or (x == "C" and not is_depthwise)]
    axes = {x: te.reduce_axis((0, taps["I" if x == "C" else x]), f"r{x.lower()}") for x in walked}

    def element(*indices: PrimExpr) -> PrimExpr:
        at = out.named(indices)
        channel = axes["C"].var if "C" in axes else const(0, at["C"].dtype)
        own = channel
        if groups > 1:
            per_group = known_extent(taps["O"], "the number of output channels") // groups
            own = floordiv(at["C"], max(per_group, 1)) * taps["I"] + channel
        places = {x: w.tap(at[x], axes[x].var) for x, w in windows.items()}
        x = source[layout.ordered({"N": at["N"], "C": own, **places})]
        across = {letter: axes[letter].var for letter in letters}
        y = weight[kernel.ordered({"O": at["C"], "I": channel, **across})]
        return te.sum(cast(wide, x) * cast(wide, y), axis=[axes[letter] for letter in walked])

    extents = {"N": size["N"], "C": taps["O"], **{x: w.count for x, w in windows.items()}}
    kind = "depthwise_" if is_depthwise else "group_" if groups > 1 else ""
    names = {"N": "n", "C": "co", **{letter: letter.lower() for letter in letters}}
    total = te.compute(
        out.ordered(extents),
        element,
        name=f"{kind}conv{rank}d_{out.text.lower()}",
        varargs_names=[names[letter] for letter in out.text],
    )
    return convert_dtype(total, result)


def _check_groups(inputs: PrimExpr, per_group: PrimExpr, outputs: PrimExpr, groups: int) -> None:
    """Raise IRValueError unless channels match: `inputs` of data, `per_group` of weights."""
    if groups < 1:
        raise IRValueError(f"groups must be at least 1, got {groups}")
    of = f" in {groups} groups" if groups > 1 else ""
    check_equal(
        inputs, "the number of input channels", per_group * groups, f"that of the weight{of}"
    )
    if isinstance(outputs, IntImm) and outputs.value % groups:
        raise IRValueError(
            f"{outputs.value} output channels cannot be divided into {groups} groups"
        )


class _Phases:
    """One axis of a transposed convolution, decomposed into `stride` convolutions, one for each
    phase.

    The convolution of a phase computes the elements `place * stride + phase` of the result. Tap `k`
    of the kernel contributes to such an element if `place * stride + phase + margin - k * step` is
    a multiple of the stride, and reads the element at that multiple. So a phase has every
    `interval`-th tap, `count` taps in all, and no products with zeros between the elements (Shi et
    al., 2016, sub-pixel convolution). The input is padded by `before` and `behind` elements.
    """

    def __init__(
        self, size: PrimExpr, taps: int, stride: int, margin: tuple[int, int], extra: int, step: int
    ) -> None:
        self.taps, self.stride, self._step, self._margin = taps, stride, step, margin[0]
        self._common = math.gcd(stride, step)
        self.interval = stride // self._common
        self.count = -(-taps // self.interval)
        more = step * (taps - 1) + extra + 1 - sum(margin) - stride
        places = -(-more // stride)
        self.extent = simplified(size * stride + more)
        self.places = simplified(size + places)
        self._offsets = [self._offset(phase) for phase in range(stride)]
        reach = (self.count - 1) * (step // self._common)
        self.before = max(0, reach - min(self._offsets))
        self.behind = max(0, places + max(self._offsets))
        self._surplus = self.before - reach

    def _first(self, phase: Any) -> Any:
        """Return the first tap of a phase."""
        inverse = pow(self._step // self._common, -1, self.interval)
        return (phase + self._margin) // self._common * inverse % self.interval

    def _offset(self, phase: Any) -> Any:
        """Return the distance from `place` to the element that the first tap reads."""
        return (phase + self._margin - self._first(phase) * self._step) // self.stride

    def position(self, place: PrimExpr, phase: PrimExpr, k: PrimExpr) -> PrimExpr:
        """Return the element of the padded input that tap `k` of a phase reads.

        Taps are mirrored.
        """
        is_same = len(set(self._offsets)) == 1
        offset = self._offsets[0] if is_same else self._offset(phase)
        element: PrimExpr = place + offset + self._surplus + k * (self._step // self._common)
        return element

    def tap(self, phase: PrimExpr, k: PrimExpr) -> PrimExpr:
        """Return the tap of the kernel that is tap `k` of a phase; taps are mirrored."""
        first: PrimExpr = self._first(phase)
        return first + (self.count - 1 - k) * self.interval

    def conditions(self, phase: PrimExpr, k: PrimExpr) -> list[PrimExpr]:
        """Return the conditions under which a phase has a tap `k`."""
        found = [self.tap(phase, k) < self.taps] if self.taps % self.interval else []
        if self._common > 1:
            found.append(compare(EQ, (phase + self._margin) % self._common, 0))
        return found


@each_rank("nn.conv#d_transpose")
def transposed_convolution(
    rank: int,
    data: Tensor,
    weight: Tensor,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    data_layout: str = "NC#",
    kernel_layout: str = "IO#",
    out_layout: str | None = None,
    out_dtype: str | None = None,
) -> Tensor:
    """Return the transposed convolution of `data` with `weight` along #.

    Each element of `data[n, c, h, w]` adds its multiple of `weight[c, o, kh, kw]` to the result,
    `stride` apart: `[n, o * groups, h', w']` with `h' = (h - 1) * stride - padding + dilation * (kh
    - 1) + output_padding + 1`. Padding is cropped from the sides to which `conv2d` adds it;
    `output_padding`, which is less than the stride or the dilation, is added at the end.
    """
    letters = SPATIAL[rank]
    layout = Layout(data_layout, f"NC{letters}", "data_layout")
    kernel = Layout(kernel_layout, f"OI{letters}", "kernel_layout")
    out = Layout(out_layout or data_layout, f"NC{letters}", "out_layout")
    size, taps = layout.sizes(data, "data"), kernel.sizes(weight, "weight")
    check_equal(
        size["C"], "the number of input channels", taps["I"], "that of the weight"
    )  # fmt: skip
    channels = known_extent(taps["I"], "the number of input channels") if groups > 1 else 0
    if groups < 1 or channels % groups:
        raise IRValueError(f"{channels} input channels cannot be divided into {groups} groups")
    result, wide = product_dtypes(data, weight, out_dtype)
    steps = per_axis(strides, rank, "strides")
    widths = per_axis(dilation, rank, "dilation")
    extras = per_axis(output_padding, rank, "output_padding", 0)
    for extra, stride, step in zip(extras, steps, widths, strict=True):
        if extra >= max(stride, step):
            raise IRValueError(
                f"output_padding must be less than the stride or the dilation, got {extras} for "
                f"strides {steps}"
            )
    phases = {
        x: _Phases(size[x], known_extent(taps[x], "the kernel's size"), stride, margin, extra, step)
        for x, stride, margin, extra, step in zip(
            letters, steps, margins(padding, rank), extras, widths, strict=True
        )
    }
    amounts = {layout.text.index(x): (p.before, p.behind) for x, p in phases.items()}
    source = padded(data, amounts, const(0, data.dtype))
    per_group = channels // groups if groups > 1 else taps["I"]

    def if_tapped(value: PrimExpr, phase: Sequence[PrimExpr], k: Sequence[PrimExpr]) -> PrimExpr:
        each = zip(phases.values(), phase, k, strict=True)
        needed = [condition for p, *at in each for condition in p.conditions(*at)]
        zero = const(0, value.dtype)
        return te.if_then_else(te.all(*needed), value, zero) if needed else value

    def mirrored(*indices: PrimExpr) -> PrimExpr:
        phase, k = indices[:rank], indices[rank:-2]
        at = {x: p.tap(*step) for (x, p), *step in zip(phases.items(), phase, k, strict=True)}
        value = weight[kernel.ordered({**at, "I": indices[-2], "O": indices[-1]})]
        return if_tapped(value, phase, k)

    every = phases.values()
    kernels = te.compute(
        [*(p.stride for p in every), *(p.count for p in every), taps["I"], taps["O"]],
        mirrored,
        name="kernels",
    )
    axes = {x: te.reduce_axis((0, p.count), f"r{x.lower()}") for x, p in phases.items()}
    axes["C"] = te.reduce_axis((0, per_group), "rc")
    walked = [x for x in layout.text if x in axes]
    # Each axis of places is followed by its axis of phases if there are several phases.
    keys = [key for x in out.text for key in ([x, x.lower()] if x in phases else [x])]
    keys = [key for key in keys if key.isupper() or phases[key.upper()].stride > 1]

    def element(*indices: PrimExpr) -> PrimExpr:
        at = dict(zip(keys, indices, strict=True))
        channel: PrimExpr = axes["C"].var
        output = at["C"]
        if groups > 1:
            divisor = as_divisor(taps["O"])
            channel = floordiv(output, divisor) * per_group + channel
            output = floormod(output, divisor)
        phase = [at.get(x.lower(), const(0, at[x].dtype)) for x in letters]
        k = [axes[x].var for x in letters]
        places = {
            x: p.position(at[x], *step)
            for (x, p), *step in zip(phases.items(), phase, k, strict=True)
        }
        x = if_tapped(source[layout.ordered({"N": at["N"], "C": channel, **places})], phase, k)
        y = kernels[(*phase, *k, channel, output)]
        return te.sum(cast(wide, x) * cast(wide, y), axis=[axes[letter] for letter in walked])

    extents = {"N": size["N"], "C": taps["O"] * groups, **{x: p.places for x, p in phases.items()}}
    extents |= {x.lower(): as_expr(p.stride) for x, p in phases.items()}
    names = {"N": "n", "C": "co", **{x: x.lower() for x in letters}}
    names |= {x.lower(): f"{x.lower()}_phase" for x in letters}
    total = te.compute(
        [extents[key] for key in keys],
        element,
        name=f"{'group_' if groups > 1 else ''}conv{rank}d_transpose_{out.text.lower()}",
        varargs_names=[names[key] for key in keys],
    )
    total = convert_dtype(total, result)
    if len(keys) == len(out.text):
        return total

    def interleaved(*indices: PrimExpr) -> PrimExpr:
        at = out.named(indices)
        for x, p in phases.items():
            at[x], at[x.lower()] = floordiv(at[x], p.stride), floormod(at[x], p.stride)
        return total[tuple(at[key] for key in keys)]

    extents |= {x: p.extent for x, p in phases.items()}
    return te.compute(out.ordered(extents), interleaved, name="T_interleave")
