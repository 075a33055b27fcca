"""Convolutions along one to three axes, and transposed ones, their gradients."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir import te
from tensorir.errors import IRValueError
from tensorir.nodes.expr import EQ, IntImm, PrimExpr
from tensorir.nodes.ops import cast, compare, const, floordiv, floormod
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
    # The reduction axes have the order of the axes that they traverse.
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


class _Spread:
    """One axis, as a convolution of the input, spread by `stride - 1` zeros, with a mirrored
    kernel.

    Position `p` of the spread input is element `p // stride` if `p % stride` is 0, otherwise 0. The
    input is padded by whole elements, `before` and `behind`; `surplus` counts the excess zeros.
    """

    def __init__(
        self, size: PrimExpr, taps: int, stride: int, margin: tuple[int, int], extra: int, step: int
    ) -> None:
        reach = step * (taps - 1)
        border = reach - margin[0]
        self.taps, self.stride, self.step = taps, stride, step
        self.before = -(-border // stride)
        self.surplus = self.before * stride - border
        self.behind = (reach - margin[1] + extra) // stride
        self.count = simplified((size - 1) * stride + (reach + extra + 1 - sum(margin)))

    def position(self, place: PrimExpr, k: PrimExpr) -> PrimExpr:
        """Return the position of tap `k` of the mirrored kernel in the spread input."""
        return place + k * self.step + self.surplus


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
    - 1) + output_padding + 1`. Padding is cut off on the sides that `conv2d` adds it to;
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
    spread = {
        x: _Spread(size[x], known_extent(taps[x], "the kernel's size"), stride, margin, extra, step)
        for x, stride, margin, extra, step in zip(
            letters, steps, margins(padding, rank), extras, widths, strict=True
        )
    }
    amounts = {layout.text.index(x): (s.before, s.behind) for x, s in spread.items()}
    source = padded(data, amounts, const(0, data.dtype))
    per_group = channels // groups if groups > 1 else taps["I"]
    axes = {x: te.reduce_axis((0, taps[x]), f"r{x.lower()}") for x in letters}
    axes["C"] = te.reduce_axis((0, per_group), "rc")
    walked = [x for x in layout.text if x in axes]

    def element(*indices: PrimExpr) -> PrimExpr:
        at = out.named(indices)
        channel: PrimExpr = axes["C"].var
        output = at["C"]
        if groups > 1:
            divisor = as_divisor(taps["O"])
            channel = floordiv(output, divisor) * per_group + channel
            output = floormod(output, divisor)
        positions = {x: s.position(at[x], axes[x].var) for x, s in spread.items()}
        places = {x: floordiv(positions[x], s.stride) for x, s in spread.items()}
        x: PrimExpr = source[layout.ordered({"N": at["N"], "C": channel, **places})]
        on_element = [
            compare(EQ, floormod(positions[letter], s.stride), 0)
            for letter, s in spread.items()
            if s.stride > 1
        ]
        if on_element:
            x = te.if_then_else(te.all(*on_element), x, const(0, x.dtype))
        across = {letter: s.taps - 1 - axes[letter].var for letter, s in spread.items()}
        y = weight[kernel.ordered({"O": output, "I": channel, **across})]
        return te.sum(cast(wide, x) * cast(wide, y), axis=[axes[letter] for letter in walked])

    extents = {"N": size["N"], "C": taps["O"] * groups, **{x: s.count for x, s in spread.items()}}
    names = {"N": "n", "C": "co", **{letter: letter.lower() for letter in letters}}
    total = te.compute(
        out.ordered(extents),
        element,
        name=f"{'group_' if groups > 1 else ''}conv{rank}d_transpose_{out.text.lower()}",
        varargs_names=[names[letter] for letter in out.text],
    )
    return convert_dtype(total, result)
