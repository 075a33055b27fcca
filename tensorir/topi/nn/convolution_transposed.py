"""Transposed convolutions along one to three axes: the gradients of convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir import te
from tensorir.errors import IRValueError
from tensorir.nodes.expr import EQ, PrimExpr
from tensorir.nodes.ops import cast, compare, const, floordiv, floormod
from tensorir.relax.declaration import operator
from tensorir.te.tensor import Tensor
from tensorir.topi.accumulation import rounded
from tensorir.topi.extents import as_divisor, check_equal, known_extent, simplified
from tensorir.topi.matmul import product_dtypes
from tensorir.topi.nn.spatial import SPATIAL, Layout, margins, padded, per_axis


@operator("nn.conv1d_transpose")
def conv1d_transpose(
    data: Tensor,
    weight: Tensor,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "IOW",
    out_layout: str | None = None,
    out_dtype: str | None = None,
) -> Tensor:
    """Return the transposed convolution along one axis; see `conv2d_transpose`."""
    return transposed_convolution(
        1, data, weight, strides, padding, output_padding, dilation, groups,
        data_layout, kernel_layout, out_layout, out_dtype,
    )  # fmt: skip


@operator("nn.conv2d_transpose")
def conv2d_transpose(
    data: Tensor,
    weight: Tensor,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "IOHW",
    out_layout: str | None = None,
    out_dtype: str | None = None,
) -> Tensor:
    """Return the transposed convolution of `data` with `weight` along two axes.

    Each element of `data[n, c, h, w]` adds its multiple of `weight[c, o, kh, kw]` to the result,
    `stride` apart: `[n, o * groups, h', w']` with `h' = (h - 1) * stride - padding + dilation * (kh
    - 1) + output_padding + 1`. Padding is cut off on the sides that `conv2d` adds it to;
    `output_padding`, which is less than the stride or the dilation, is added at the end.
    """
    return transposed_convolution(
        2, data, weight, strides, padding, output_padding, dilation, groups,
        data_layout, kernel_layout, out_layout, out_dtype,
    )  # fmt: skip


@operator("nn.conv3d_transpose")
def conv3d_transpose(
    data: Tensor,
    weight: Tensor,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    data_layout: str = "NCDHW",
    kernel_layout: str = "IODHW",
    out_layout: str | None = None,
    out_dtype: str | None = None,
) -> Tensor:
    """Return the transposed convolution along three axes; see `conv2d_transpose`."""
    return transposed_convolution(
        3, data, weight, strides, padding, output_padding, dilation, groups,
        data_layout, kernel_layout, out_layout, out_dtype,
    )  # fmt: skip


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


def transposed_convolution(
    rank: int,
    data: Tensor,
    weight: Tensor,
    strides: int | Sequence[int],
    padding: int | Sequence[int],
    output_padding: int | Sequence[int],
    dilation: int | Sequence[int],
    groups: int,
    data_layout: str,
    kernel_layout: str,
    out_layout: str | None,
    out_dtype: str | None,
) -> Tensor:
    """Return a transposed convolution along `rank` axes.

    The zeros between elements are a condition inside of the sum, which unrolling can remove.
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
    return rounded(total, result)
