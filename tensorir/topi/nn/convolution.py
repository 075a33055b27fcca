"""Convolutions along one to three axes."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir import te
from tensorir.errors import IRValueError
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.ops import cast, const, floordiv
from tensorir.relax.declaration import operator
from tensorir.te.tensor import Tensor
from tensorir.topi.accumulation import rounded
from tensorir.topi.extents import check_equal, is_number, known_extent
from tensorir.topi.matmul import product_dtypes
from tensorir.topi.nn.spatial import SPATIAL, Layout, Window, margins, padded, per_axis


@operator("nn.conv1d")
def conv1d(
    data: Tensor,
    weight: Tensor,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "OIW",
    out_layout: str | None = None,
    out_dtype: str | None = None,
) -> Tensor:
    """Return the convolution of `data` with `weight` along one axis; see `conv2d`."""
    return convolution(
        1, data, weight, strides, padding, dilation, groups,
        data_layout, kernel_layout, out_layout, out_dtype,
    )  # fmt: skip


@operator("nn.conv2d")
def conv2d(
    data: Tensor,
    weight: Tensor,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str | None = None,
    out_dtype: str | None = None,
) -> Tensor:
    """Return the convolution of `data` with `weight` along two axes.

    `data[n, c, h, w]` and `weight[o, i, kh, kw]` give `[n, o, h', w']` with `h' = (h + padding -
    dilation * (kh - 1) - 1) // stride + 1`; layouts give the order of axes. Channels are divided
    into `groups` with `i` input channels each. Padding is `[top, left, bottom, right]`, `[vertical,
    horizontal]` or one number. Products are added in `out_dtype`, by default the dtype of the
    operands, and float32 for float16.
    """
    return convolution(
        2, data, weight, strides, padding, dilation, groups,
        data_layout, kernel_layout, out_layout, out_dtype,
    )  # fmt: skip


@operator("nn.conv3d")
def conv3d(
    data: Tensor,
    weight: Tensor,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    data_layout: str = "NCDHW",
    kernel_layout: str = "OIDHW",
    out_layout: str | None = None,
    out_dtype: str | None = None,
) -> Tensor:
    """Return the convolution of `data` with `weight` along three axes; see `conv2d`."""
    return convolution(
        3, data, weight, strides, padding, dilation, groups,
        data_layout, kernel_layout, out_layout, out_dtype,
    )  # fmt: skip


def convolution(
    rank: int,
    data: Tensor,
    weight: Tensor,
    strides: int | Sequence[int],
    padding: int | Sequence[int],
    dilation: int | Sequence[int],
    groups: int,
    data_layout: str,
    kernel_layout: str,
    out_layout: str | None,
    out_dtype: str | None,
) -> Tensor:
    """Return a convolution along `rank` axes: the padded input (if padded), and the sums."""
    letters = SPATIAL[rank]
    layout = Layout(data_layout, f"NC{letters}", "data_layout")
    kernel = Layout(kernel_layout, f"OI{letters}", "kernel_layout")
    out = Layout(out_layout or data_layout, f"NC{letters}", "out_layout")
    size, taps = layout.sizes(data, "data"), kernel.sizes(weight, "weight")
    check_groups(size["C"], taps["I"], taps["O"], groups)
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
    return rounded(total, result)


def check_groups(inputs: PrimExpr, per_group: PrimExpr, outputs: PrimExpr, groups: int) -> None:
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
